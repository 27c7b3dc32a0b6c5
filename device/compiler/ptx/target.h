// What PTX ISA 9.0 says about versions, targets and type sizes [11.1, 5.2]. Internal to this
// folder.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cupola::ptx {

/// Whether a version is later than the one for which this folder was written.
bool IsNewerIsa(uint32_t major, uint32_t minor);

struct TargetCheck {
  bool is_error = false;
  std::string problem;  ///< empty: there is none
};

/// Checks a word of .target in a module of that version. Unknown options are errors, unknown
/// architectures are warnings, and architectures that the version does not know yet are errors.
TargetCheck CheckTarget(std::string_view target, uint32_t version_major, uint32_t version_minor);

/// Whether "f32" and the like may be the type of a variable.
bool IsTypeWord(std::string_view word);

/// Size in bytes of a fundamental type ("u32": 4); 0 for .pred, opaque and unknown types.
uint64_t TypeBytes(std::string_view type);

}  // namespace cupola::ptx
