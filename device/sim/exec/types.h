// The scalar types of PTX [5.2] that the interpreter knows. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace cupola::sim {

enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kF16x2,
  kBF16x2,
  kU16x2,
  kS16x2,
};

/// kNone where the text is not one of these types.
Type ParseType(std::string_view text);

/// Size of a value in bytes; 1 for a predicate, 0 for kNone.
constexpr uint32_t TypeBytes(Type type) {
  switch (type) {
    case Type::kNone:
      return 0;
    case Type::kPred:
    case Type::kB8:
    case Type::kU8:
    case Type::kS8:
      return 1;
    case Type::kB16:
    case Type::kU16:
    case Type::kS16:
    case Type::kF16:
    case Type::kBF16:
      return 2;
    case Type::kB64:
    case Type::kU64:
    case Type::kS64:
    case Type::kF64:
      return 8;
    case Type::kB128:
      return 16;
    default:
      return 4;
  }
}

constexpr bool IsSigned(Type type) {
  return type == Type::kS8 || type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}

constexpr bool IsFloat(Type type) { return type >= Type::kF16 && type <= Type::kBF16x2; }

/// Bytes that one lane of a register of this type needs in a row: 4, 8 or 16.
constexpr uint32_t CellBytes(Type type) {
  const uint32_t bytes = TypeBytes(type);
  return bytes <= 4 ? 4 : bytes;
}

}  // namespace cupola::sim
