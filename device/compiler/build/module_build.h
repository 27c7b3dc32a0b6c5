// Makes one bundle from one PTX module: the passes make variants, a compiler makes machine code,
// and the result is compared with the code that the program ships. Nothing here touches the store.
// Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/compiler/build/compiler.h"
#include "device/compiler/fatbin/bytes.h"

namespace cupola::build {

constexpr uint32_t kAssumedThreads = 256;  ///< threads of a block of a kernel that does not say it

struct ModuleInput {
  std::string name;  ///< for errors
  std::string_view ptx;
  std::string_view options;     ///< the options that the fatbin gives for the compiler
  uint32_t arch = 90;           ///< the device's architecture
  char arch_suffix = 0;         ///< 'a' where the PTX is for exactly that architecture
  fatbin::Bytes shipped_cubin;  ///< the program's own code for that architecture; may be empty
};

struct ModuleOptions {
  std::function<bool(const std::string& kernel)> wants;  ///< which kernels to build; null: all
  std::chrono::milliseconds limit{120'000};              ///< for one compilation of a module
};

struct BuiltModule {
  std::vector<std::byte> bundle;  ///< empty where no kernel was wanted
  uint32_t compilations = 0;      ///< runs of the compiler
};

/// Builds the bundle, also where every kernel is refused, so that the reasons are on record. If the
/// compiler refuses the module, the function finds the kernels that it refuses and leaves these
/// out. Errors: kDamaged where the PTX does not parse; those of the passes.
Result<BuiltModule> BuildModule(const ModuleInput& input, const ModuleOptions& options,
                                const Compiler& compiler);

}  // namespace cupola::build
