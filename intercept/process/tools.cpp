#include "intercept/process/tools.h"

#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "intercept/process/notice.h"
#include "intercept/process/participation.h"

namespace cupola::intercept {

std::atomic<bool> stands_aside{false};
Event<> stood_aside;

bool ToolAtWork() noexcept {
  static constexpr const char* kPrefixes[] = {"CUDA_INJECTION64_PATH=",
                                              "NV_COMPUTE_PROFILER",
                                              "NV_NSIGHT_",
                                              "NSYS_",
                                              "NV_SANITIZER_",
                                              "CUDBG_",
                                              "CUDA_LAUNCH_BLOCKING=1"};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    for (const char* prefix : kPrefixes) {
      if (strncmp(*entry, prefix, strlen(prefix)) != 0) continue;
      Say(Level::kWarn,
          {"kernels are not preempted: ", prefix, " in the environment, a tool is at work"});
      return true;
    }
  }
  return false;
}

void StandAside(const char* why) noexcept {
  if (stands_aside.exchange(true)) return;
  RaiseLaunchEpoch();
  Say(Level::kWarn, {"kernels are not preempted: ", why, ", a tool is at work"});
  stood_aside.Announce();
}

namespace {

struct ObjectSearch {
  uintptr_t address;
  bool is_cupti;
};

// Finds the object that has the address, and whether it is CUPTI. dladdr is not used: it takes the dynamic
// linker's lock, which may be held by a thread whose constructor waits for the calling thread. The lock of
// dl_iterate_phdr is never held while code of the program runs.
int LookWhetherCupti(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<ObjectSearch*>(data);
  for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || search.address - begin >= segment.p_memsz) continue;
    const char* const slash = strrchr(object->dlpi_name, '/');
    const char* const name = slash != nullptr ? slash + 1 : object->dlpi_name;
    search.is_cupti = strncmp(name, "libcupti.so", strlen("libcupti.so")) == 0;
    return 1;
  }
  return 0;
}

}  // namespace

void OnTablesAsked(const void* caller) noexcept {
  if (StandsAside()) return;
  ObjectSearch search{reinterpret_cast<uintptr_t>(caller), false};
  dl_iterate_phdr(&LookWhetherCupti, &search);
  if (!search.is_cupti) return;
  StandAside("the program uses CUPTI");
}

bool MpsIsThere() noexcept {
  const char* folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
  char path[512];
  const int length = snprintf(path, sizeof(path), "%s/control",
                              folder != nullptr && *folder != 0 ? folder : "/tmp/nvidia-mps");
  return length > 0 && static_cast<size_t>(length) < sizeof(path) && access(path, F_OK) == 0;
}

}  // namespace cupola::intercept
