// argument_probe CLASSES.def HOOKS.def: calls every driver call that may wait with 15 arguments,
// under the library in a process that takes part in preemption, over a driver that checks them
// (argument_exports.py). Each passes the library's thunk, which calls the driver with a copy of the
// stack.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include <dlfcn.h>

namespace {

using Call = int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                     uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

std::string NameIn(const std::string& line) {
  const size_t open = line.find('('), comma = line.find(',');
  return open < comma ? line.substr(open + 1, comma - open - 1) : "";
}

// Hooks look into their arguments; they are tested with real ones.
std::set<std::string> HookedCalls(const char* path) {
  std::set<std::string> names;
  std::ifstream hooks(path);
  for (std::string line; std::getline(hooks, line);) {
    if (line.rfind("CUPOLA_", 0) == 0) names.insert(NameIn(line));
  }
  return names;
}

}  // namespace

int main(int, char** argv) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 2;
  std::ifstream classes(argv[1]);
  const std::set<std::string> hooked = HookedCalls(argv[2]);
  int index = 0, called = 0, wrong = 0;
  for (std::string line; std::getline(classes, line);) {
    if (line.rfind("CUPOLA_CALL(", 0) != 0) continue;
    const std::string name = NameIn(line);
    const int expected = 1000000 + index++;
    if (line.find("kMayWait") == std::string::npos || hooked.contains(name)) continue;
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
