#include "profiles/kernel_name.h"

#include <cstdlib>

#include <cxxabi.h>

#include "profiles/launch_record.h"

namespace cupola {

std::string KernelDisplayName(std::string_view symbol) {
  if (symbol.empty()) return "(unknown kernel)";
  std::string name(symbol);
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  char* demangled = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  if (status == 0 && demangled != nullptr) name = demangled;
  std::free(demangled);
  return name;
}

const char* DoorName(uint8_t door) {
  switch (static_cast<LaunchDoor>(door)) {
    case LaunchDoor::kLaunchKernel: return "cuLaunchKernel";
    case LaunchDoor::kLaunchKernelEx: return "cuLaunchKernelEx";
    case LaunchDoor::kLaunchCooperative: return "cuLaunchCooperativeKernel";
    case LaunchDoor::kLaunchCooperativeMulti: return "cuLaunchCooperativeKernelMultiDevice";
    case LaunchDoor::kLaunchGraph: return "cuGraphLaunch";
    case LaunchDoor::kLegacy: return "cuLaunch";
  }
  return "launch";
}

}  // namespace cupola
