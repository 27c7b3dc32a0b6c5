// argument_probe CLASSES.def: calls every driver call that may wait with 15 arguments, under
// the library in a process that takes part in preemption, over a driver that checks them
// (argument_exports.py). Each passes the library's thunk, which calls the driver with a copy of the
// stack.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include <dlfcn.h>

namespace {

using Call = int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                     uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

// Hooks look into their arguments; they are tested with real ones.
bool HasHook(const std::string& name) {
  static const char* const kHooked[] = {"cuModule", "cuLibrary", "cuKernelGetFunction",
                                        "cuCtxDestroy", "cuCtxDetach", "cuDevicePrimaryCtx",
                                        "cuGreenCtxStreamCreate", "cuStreamDestroy",
                                        "cuStreamBeginCapture", "cuStreamEndCapture", "cuGraph",
                                        "cuLaunch", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
                                        "cuMemcpyDtoDAsync", "cuMemcpyAsync"};
  for (const char* hooked : kHooked) {
    if (name.rfind(hooked, 0) == 0) return true;
  }
  return false;
}

}  // namespace

int main(int, char** argv) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 2;
  std::ifstream classes(argv[1]);
  int index = 0, called = 0, wrong = 0;
  for (std::string line; std::getline(classes, line);) {
    if (line.rfind("CUPOLA_CALL(", 0) != 0) continue;
    const size_t comma = line.find(',');
    const std::string name = line.substr(12, comma - 12);
    const int expected = 1000000 + index++;
    if (line.find("kMayWait") == std::string::npos || HasHook(name)) continue;
    const auto call = reinterpret_cast<Call>(dlsym(driver, name.c_str()));
    if (call == nullptr) return 3;
    const int result = call(0x1001, 0x1002, 0x1003, 0x1004, 0x1005, 0x1006, 0x1007, 0x1008, 0x1009,
                            0x100A, 0x100B, 0x100C, 0x100D, 0x100E, 0x100F);
    ++called;
    if (result == expected) continue;
    std::printf("%s: %d instead of %d\n", name.c_str(), result, expected);
    ++wrong;
  }
  std::printf("%d calls, %d wrong\n", called, wrong);
  return wrong == 0 && called > 200 ? 0 : 1;
}
