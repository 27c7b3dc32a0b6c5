// Which functions of libcupola.so one launch runs: compiled into a library whose every function calls
// __cyg_profile_func_enter (GCC, -finstrument-functions), inlined ones too. Of each thread the launch that is number
// CUPOLA_TRACED_LAUNCH (default 80) is traced, from the entry of recorded_cuLaunchKernel to its exit; the first thread
// that comes so far writes the addresses of the functions, relative to the library, into the file named by
// CUPOLA_LAUNCH_TRACE. launch_files.py reads it.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/settings/variables.h"

namespace {

constexpr uint32_t kMost = 4096;
constexpr uint32_t kThreads = 64;  // that launch; the others are not traced

struct Trace {
  bool is_on;
  uint32_t depth;     // of recorded_cuLaunchKernel, which may be entered again by a launch of ours
  uint32_t launches;  // that the thread has made so far
  uint32_t count;
  void* functions[kMost];
};
Trace traces[kThreads];  // too large for the thread's own storage
std::atomic<uint32_t> threads{0};
thread_local Trace* trace __attribute__((tls_model("initial-exec"))) = nullptr;

__attribute__((no_instrument_function)) void Write() {
  const char* const path = getenv(cupola::settings::Name("CUPOLA_LAUNCH_TRACE"));
  Dl_info here{};
  if (path == nullptr || dladdr(reinterpret_cast<void*>(&Write), &here) == 0) return;
  FILE* const file = fopen(path, "wx");  // the first one only
  if (file == nullptr) return;
  for (uint32_t i = 0; i < trace->count; ++i) {
    fprintf(file, "%lx\n", reinterpret_cast<uintptr_t>(trace->functions[i]) - reinterpret_cast<uintptr_t>(here.dli_fbase));
  }
  fclose(file);
}

}  // namespace

extern "C" {

__attribute__((visibility("hidden"))) void recorded_cuLaunchKernel();

__attribute__((no_instrument_function, visibility("hidden"))) void __cyg_profile_func_enter(void* function, void*) {
  const bool is_launch = function == reinterpret_cast<void*>(&recorded_cuLaunchKernel);
  if (trace == nullptr) {
    if (!is_launch) return;
    const uint32_t number = threads.fetch_add(1);
    if (number >= kThreads) return;
    trace = &traces[number];
  }
  Trace& mine = *trace;
  if (is_launch && mine.depth++ == 0) {
    static const char* const wanted = getenv(cupola::settings::Name("CUPOLA_TRACED_LAUNCH"));
    mine.is_on = ++mine.launches == static_cast<uint32_t>(wanted != nullptr ? atoi(wanted) : 80);
  }
  if (!mine.is_on) return;
  for (uint32_t i = 0; i < mine.count; ++i) {
    if (mine.functions[i] == function) return;
  }
  if (mine.count < kMost) mine.functions[mine.count++] = function;
}

__attribute__((no_instrument_function, visibility("hidden"))) void __cyg_profile_func_exit(void* function, void*) {
  if (trace == nullptr) return;
  Trace& mine = *trace;
  if (function != reinterpret_cast<void*>(&recorded_cuLaunchKernel) || --mine.depth != 0 || !mine.is_on) return;
  mine.is_on = false;
  Write();
}

}  // extern "C"
