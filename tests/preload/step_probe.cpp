// Counts the instructions that a launch takes in libcupola.so once its thread, kernel and stream are
// known. A child launches over the null driver; its parent steps through some of the launches and
// prints the smallest count of steps that were in the library. Steps in the null driver do not count.
// Stepping is a thousand times slower than running, so by real time the library would renew its
// clock, its lease or its demand within a launch. Therefore, while a launch is stepped through, the
// parent supplies the child's time stamp counter and lets it advance by one a step. The library's own
// threads go on meanwhile by the real counter, on another core than the parent's if there are two.
#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <csignal>
#include <dlfcn.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cuda.h>

namespace {

template <typename Function>
Function Find(void* driver, const char* name) {
  const auto found = reinterpret_cast<Function>(dlsym(driver, name));
  if (found == nullptr) _exit(3);
  return found;
}

constexpr int kStepped = 8;

// Binds to the first core that the process may use, or to the one after it.
void KeepTo(int which) {
  cpu_set_t may, one;
  if (sched_getaffinity(0, sizeof(may), &may) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &may) || which-- != 0) continue;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
  }
}

// The child: makes ten launches to warm up, and then for ever, in turn, one at full speed and one to
// be stepped through, between SIGUSR1 and SIGUSR2.
[[noreturn]] void Launch(bool created) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) _exit(3);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUstream stream = nullptr;
  CUcontext context = nullptr;
  Find<CUresult (*)(CUcontext*, CUdevice)>(driver, "cuDevicePrimaryCtxRetain")(&context, 0);
  Find<CUresult (*)(CUcontext)>(driver, "cuCtxSetCurrent")(context);
  Find<CUresult (*)(CUmodule*, const void*)>(driver, "cuModuleLoadData")(&module, "image");
  Find<CUresult (*)(CUfunction*, CUmodule, const char*)>(driver, "cuModuleGetFunction")(
      &function, module, "kernel");
  if (created) Find<CUresult (*)(CUstream*, unsigned)>(driver, "cuStreamCreate")(&stream, 0);
  const auto launch = Find<decltype(&cuLaunchKernel)>(driver, "cuLaunchKernel");
  for (int i = 0; i < 10; ++i) launch(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  for (;;) {
    launch(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
    raise(SIGUSR1);
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV);  // for this thread alone
    launch(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
    prctl(PR_SET_TSC, PR_TSC_ENABLE);
    raise(SIGUSR2);
  }
}

struct Range {
  uint64_t begin = 0, end = 0;
  bool Has(uint64_t at) const { return at >= begin && at < end; }
};

// Where the library's code lies in a process.
Range CodeOf(pid_t process) {
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/libcupola/libcuda.so.1") == std::string::npos ||
        line.find(" r-xp ") == std::string::npos) {
      continue;
    }
    Range range;
    if (sscanf(line.c_str(), "%lx-%lx", &range.begin, &range.end) == 2) return range;
  }
  return {};
}

// Does for the child what the RDTSC or RDTSCP at which it has faulted would do. False: it is neither.
bool ReadCounter(pid_t child, user_regs_struct& registers, uint64_t ticks) {
  const auto code = static_cast<uint32_t>(ptrace(PTRACE_PEEKTEXT, child, registers.rip, nullptr));
  const bool rdtsc = (code & 0xffff) == 0x310f, rdtscp = (code & 0xffffff) == 0xf9010f;
  if (!rdtsc && !rdtscp) return false;
  registers.rax = ticks & UINT32_MAX;
  registers.rdx = ticks >> 32;
  if (rdtscp) registers.rcx = 0;
  registers.rip += rdtsc ? 2 : 3;
  return ptrace(PTRACE_SETREGS, child, nullptr, &registers) == 0;
}

// Steps from a SIGUSR1 to the next SIGUSR2. Returns how many steps were in `code`. Signals are not
// passed on.
int StepThrough(pid_t child, const Range& code) {
  const uint64_t start = __rdtsc();
  int steps = 0, status = 0;
  for (int all = 0; all < 100'000; ++all) {
    user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0) break;
    if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGSEGV &&
        !ReadCounter(child, registers, start + static_cast<uint64_t>(all))) {
      break;
    }
    steps += code.Has(registers.rip);
    if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) break;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) break;
    if (WSTOPSIG(status) == SIGUSR2) return steps;
  }
  fprintf(stderr, "lost the child\n");
  _exit(9);
}

}  // namespace

// argv[1]: the stream: "created" or "legacy".
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const pid_t child = fork();
  KeepTo(child == 0 ? 1 : 0);
  if (child == 0) Launch(strcmp(argv[1], "created") == 0);
  int fewest = INT_MAX;
  for (int i = 0; i < kStepped; ++i) {
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 4;
    if (WSTOPSIG(status) != SIGUSR1) return 5;
    fewest = std::min(fewest, StepThrough(child, CodeOf(child)));
    ptrace(PTRACE_CONT, child, nullptr, nullptr);
  }
  kill(child, SIGKILL);
  printf("%d\n", fewest);
  return 0;
}
