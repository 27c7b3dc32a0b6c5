// Decodes operands: registers, literals, special registers, addresses [PTX ISA 6].
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "device/sim/exec/decode.h"
#include "device/sim/exec/families.h"
#include "device/sim/exec/half.h"

namespace cupola::sim {
namespace {

using Kind = ptx::Operand::Kind;

/// The bits of a literal as a value of `type` [4.5].
uint64_t LiteralBits(const ptx::Operand& operand, Type type) {
  uint64_t bits = static_cast<uint64_t>(operand.integer);
  if (operand.kind != Kind::kFloat) {
    if (type == Type::kF32) return std::bit_cast<uint32_t>(static_cast<float>(operand.integer));
    if (type == Type::kF64) return std::bit_cast<uint64_t>(static_cast<double>(operand.integer));
    return bits;
  }
  if (operand.width == 32) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (type == Type::kF64) return std::bit_cast<uint64_t>(static_cast<double>(value));
    return bits;
  }
  const double value = std::bit_cast<double>(bits);
  if (type == Type::kF32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (type == Type::kF16) return RoundToHalf(value);
  if (type == Type::kBF16) return RoundToBfloat(value);
  return bits;
}

uint64_t Truncate(uint64_t bits, Type type) {
  switch (TypeBytes(type)) {
    case 1:
      return bits & 0xFF;
    case 2:
      return bits & 0xFFFF;
    case 4:
      return bits & 0xFFFFFFFF;
    default:
      return bits;
  }
}

}  // namespace

Type Decoder::TypeAt(size_t n) const {
  for (size_t i = 0; i < in_->modifiers.size(); ++i) {
    const Type type = ParseType(in_->modifiers[i]);
    if (type == Type::kNone) continue;
    if (n-- != 0) continue;
    asked_ |= 1ull << (i & 63);
    return type;
  }
  return Type::kNone;
}

Ref Decoder::Constant(uint64_t low, Type type, uint64_t high) {
  if (type == Type::kPred) {
    low = low != 0 ? kFullMask : 0;
    type = Type::kU32;  // a predicate needs one word only; a whole row is simpler
  }
  const uint32_t cell = CellBytes(type);
  low = Truncate(low, type);
  const auto key = std::tuple{low, high, cell};
  const auto it = constants_.find(key);
  if (it != constants_.end()) return it->second;
  auto& pool = program_->constants;
  const Ref ref = kConstBit | static_cast<uint32_t>(pool.size());
  pool.resize(pool.size() + size_t{cell} * kLanes);
  std::byte* row = pool.data() + (ref & ~kConstBit);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    std::memcpy(row + size_t{lane} * cell, &low, std::min(cell, 8u));
    if (cell == 16) std::memcpy(row + size_t{lane} * 16 + 8, &high, 8);
  }
  constants_[key] = ref;
  return ref;
}

Type Decoder::RegisterType(const ptx::Operand& operand, Type otherwise) const {
  if (operand.kind != Kind::kName) return otherwise;
  const Symbol* symbol = const_cast<Decoder*>(this)->Find(operand.text);
  return symbol != nullptr && symbol->kind == Symbol::Kind::kRegister ? symbol->type : otherwise;
}

Ref Decoder::Source(const ptx::Operand& operand, Type type) {
  switch (operand.kind) {
    case Kind::kInteger:
    case Kind::kFloat:
      return Constant(LiteralBits(operand, type), type);
    case Kind::kName:
    case Kind::kOffset:
      break;
    case Kind::kIndexed: {
      const Symbol* element = Find(operand.text + std::to_string(operand.integer));
      if (element != nullptr && element->kind == Symbol::Kind::kRegister) {
        return static_cast<Ref>(element->at);
      }
      Undeclared(operand.text);
      return Constant(0, type);
    }
    default:
      Undeclared(operand.text.empty() ? "operand" : operand.text);
      return Constant(0, type);
  }
  const Symbol* symbol = operand.kind == Kind::kName ? Find(operand.text) : nullptr;
  if (symbol != nullptr && symbol->kind == Symbol::Kind::kRegister) {
    const Ref ref = static_cast<Ref>(symbol->at);
    if (!operand.negated || type != Type::kPred) return ref;
    Insn negate;
    negate.run = RunNotPredicate;
    negate.a = ref;
    negate.d = Temporary(Type::kPred);
    EmitBefore(negate);
    return negate.d;
  }
  return SpecialOrAddress(operand, type);
}

/// The row of a special register, or of the address of a variable or function.
Ref Decoder::SpecialOrAddress(const ptx::Operand& operand, Type type) {
  const std::string& name = operand.text;
  if (name == "WARP_SZ") return Constant(kLanes, type);
  if (const int32_t function = FindFunction(name); function >= 0) {
    return Constant(kCodeBase + 16 * (static_cast<uint64_t>(function) + 1), type);
  }
  Type special_type = Type::kNone;
  if (const Handler special = SpecialRegister(name, &special_type)) {
    Insn read;
    read.run = special;
    read.d = Temporary(special_type);
    read.small = CellBytes(special_type);
    EmitBefore(read);
    return read.d;
  }
  const Symbol* symbol = Find(name);
  if (symbol == nullptr) {
    Undeclared(name);
    return Constant(0, type);
  }
  const int64_t offset = operand.kind == Kind::kOffset ? operand.integer : 0;
  const uint64_t at = symbol->at + static_cast<uint64_t>(offset);
  switch (symbol->kind) {
    case Symbol::Kind::kGlobal:
    case Symbol::Kind::kShared:
    case Symbol::Kind::kKernelParam:
      return Constant(at, type);
    case Symbol::Kind::kUnresolved: {
      Insn missing;
      missing.run = RunUnsupported;
      EmitBefore(missing);
      return Constant(0, type);
    }
    default:
      break;
  }
  Insn address;
  address.run = symbol->kind == Symbol::Kind::kDynamicShared ? RunDynamicShared : RunLocalAddress;
  address.d = Temporary(CellBytes(type) == 8 ? Type::kU64 : Type::kU32);
  address.small = static_cast<uint16_t>(CellBytes(type));
  address.imm = symbol->kind == Symbol::Kind::kDynamicShared ? offset : static_cast<int64_t>(at);
  address.flags = symbol->kind == Symbol::Kind::kFunctionParam;
  EmitBefore(address);
  return address.d;
}

Ref Decoder::Destination(const ptx::Operand& operand, Type type) {
  if (operand.kind == Kind::kName && operand.text == "_") return Temporary(type);
  if (operand.kind == Kind::kIndexed) return Written(Source(operand, type), type);
  const Symbol* symbol = operand.kind == Kind::kName ? Find(operand.text) : nullptr;
  if (symbol == nullptr || symbol->kind != Symbol::Kind::kRegister) {
    Undeclared(operand.text);
    return Temporary(type);
  }
  return Written(static_cast<Ref>(symbol->at), symbol->type);
}

Address Decoder::AddressOf(const ptx::Operand& operand) {
  Address address;
  const ptx::Operand* base = &operand;
  if (operand.kind == Kind::kAddress) {
    address.offset = operand.integer;
    if (operand.children.empty()) {
      address.base = Constant(0, Type::kU64);
      return address;
    }
    base = &operand.children[0];
  }
  if (base->kind == Kind::kInteger) {
    address.base = Constant(0, Type::kU64);
    address.offset += base->integer;
    return address;
  }
  const Symbol* symbol = Find(base->text);
  if (symbol == nullptr) {
    address.base = Source(*base, Type::kU64);  // a function, or an undeclared name
    return address;
  }
  address.names = symbol->kind;
  if (symbol->kind == Symbol::Kind::kRegister) {
    address.base = static_cast<Ref>(symbol->at);
    if (CellBytes(symbol->type) == 4) address.flags |= kAddress32;
    return address;
  }
  address.base = Constant(0, Type::kU64);
  switch (symbol->kind) {
    case Symbol::Kind::kLocal:
    case Symbol::Kind::kFunctionParam:
      address.flags |= kAddLocalFrame;
      break;
    case Symbol::Kind::kDynamicShared:
      address.flags |= kAddDynamicShared;
      break;
    case Symbol::Kind::kUnresolved:
      address.base = Source(*base, Type::kU64);
      break;
    default:
      break;
  }
  if (symbol->kind != Symbol::Kind::kDynamicShared)
    address.offset += static_cast<int64_t>(symbol->at);
  return address;
}

Address Decoder::UseAddress(const ptx::Operand& operand) {
  const Address address = AddressOf(operand);
  out.a = address.base;
  out.imm = address.offset;
  out.flags |= address.flags;
  return address;
}

}  // namespace cupola::sim
