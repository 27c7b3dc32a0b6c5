// The table of PTX opcodes (opcodes.def) as data. Pure; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace cupola::ptx {

/// What an opcode is about, coarsely.
enum class OpcodeCategory : uint8_t {
  kInteger, kFloat, kCompare, kLogic, kMove, kMemory, kAsyncCopy, kTexture, kControl, kBarrier,
  kFence, kWarp, kAtomic, kMatrix, kStack, kVideo, kMisc,
};

struct OpcodeInfo {
  std::string_view name;     ///< the text before the first dot
  uint8_t min_operands = 0;  ///< at the top level: a vector, an address, a pair count as one
  uint8_t max_operands = 0;
  int8_t destinations = 0;   ///< first operands, which are written; -1: depends on the modifiers
  OpcodeCategory category = OpcodeCategory::kMisc;
};

/// The entry of `name` ("ld", not "ld.global"), or null for an opcode that Cupola does not know.
/// Logarithmic in the size of the table.
const OpcodeInfo* FindOpcode(std::string_view name);

/// Whether `opcode` is one of `opcodes`. Linear in their number.
bool IsOneOf(std::string_view opcode, std::initializer_list<std::string_view> opcodes);

}  // namespace cupola::ptx
