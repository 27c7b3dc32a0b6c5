#include "device/sim/exec/types.h"

#include <array>
#include <utility>

namespace cupola::sim {

Type ParseType(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, Type>, 22> kTypes{{
      {"pred", Type::kPred},   {"b8", Type::kB8},         {"b16", Type::kB16},
      {"b32", Type::kB32},     {"b64", Type::kB64},       {"b128", Type::kB128},
      {"u8", Type::kU8},       {"u16", Type::kU16},       {"u32", Type::kU32},
      {"u64", Type::kU64},     {"s8", Type::kS8},         {"s16", Type::kS16},
      {"s32", Type::kS32},     {"s64", Type::kS64},       {"f16", Type::kF16},
      {"bf16", Type::kBF16},   {"f32", Type::kF32},       {"f64", Type::kF64},
      {"f16x2", Type::kF16x2}, {"bf16x2", Type::kBF16x2}, {"u16x2", Type::kU16x2},
      {"s16x2", Type::kS16x2},
  }};
  for (const auto& [name, type] : kTypes) {
    if (name == text) return type;
  }
  return Type::kNone;
}

}  // namespace cupola::sim
