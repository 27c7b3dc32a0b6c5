#include "device/compiler/ptx/opcodes.h"

#include <algorithm>
#include <array>

namespace cupola::ptx {
namespace {

constexpr auto SortedTable() {
  std::array table = {
#define PTX_OPCODE(name, min, max, destinations, category) \
  OpcodeInfo{#name, min, max, destinations, OpcodeCategory::category},
#include "device/compiler/ptx/opcodes.def"
#undef PTX_OPCODE
  };
  std::sort(table.begin(), table.end(),
            [](const OpcodeInfo& a, const OpcodeInfo& b) { return a.name < b.name; });
  return table;
}

constexpr auto kTable = SortedTable();

constexpr bool NamesAreUnique() {
  for (size_t i = 1; i < kTable.size(); ++i) {
    if (kTable[i - 1].name == kTable[i].name) return false;
  }
  return true;
}
static_assert(NamesAreUnique(), "an opcode stands twice in opcodes.def");

}  // namespace

const OpcodeInfo* FindOpcode(std::string_view name) {
  const auto found = std::lower_bound(
      kTable.begin(), kTable.end(), name,
      [](const OpcodeInfo& info, std::string_view wanted) { return info.name < wanted; });
  return found != kTable.end() && found->name == name ? &*found : nullptr;
}

bool IsOneOf(std::string_view opcode, std::initializer_list<std::string_view> opcodes) {
  return std::find(opcodes.begin(), opcodes.end(), opcode) != opcodes.end();
}

}  // namespace cupola::ptx
