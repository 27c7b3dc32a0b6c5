#include "device/compiler/ptx/addresses.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "device/compiler/ptx/opcodes.h"

namespace cupola::ptx {
namespace {

constexpr int64_t kAnywhere = std::numeric_limits<int64_t>::min();
constexpr size_t kMostRoots = 16;

bool HasSpace(const Instruction& instruction, std::string_view space) {
  for (const std::string& modifier : instruction.modifiers) {
    if (modifier == space || modifier.starts_with(std::string(space) + "::")) return true;
  }
  return false;
}

Address Shifted(Address address, int64_t by) {
  address.offset += address.is_exact ? by : 0;
  return address;
}
Address Inexact(Address address) {
  address.is_exact = false;
  address.offset = 0;
  return address;
}

}  // namespace

bool IsLoad(const Instruction& each) {
  return IsOneOf(each.opcode, {"ld", "ldu"}) && each.operands.size() >= 2;
}

bool IsStore(const Instruction& each) { return each.opcode == "st" && each.operands.size() >= 2; }

int64_t ElementBytes(const Instruction& instruction) {
  for (auto each = instruction.modifiers.rbegin(); each != instruction.modifiers.rend(); ++each) {
    const size_t digits = each->find_first_of("0123456789");
    if (digits != 1) continue;
    const std::string_view bits = std::string_view(*each).substr(1);
    if (bits == "8") return 1;
    if (bits == "16") return 2;
    if (bits == "32") return 4;
    if (bits == "64") return 8;
    if (bits == "128") return 16;
  }
  return 4;
}

const Operand* FindCallee(const Instruction& call) {
  for (const Operand& operand : call.operands) {
    if (operand.kind != Operand::Kind::kList) return &operand;
  }
  return nullptr;
}

const Operand* FindArguments(const Instruction& call) {
  const Operand* callee = FindCallee(call);
  for (const Operand& operand : call.operands) {
    if (operand.kind == Operand::Kind::kList && callee != nullptr && &operand > callee) {
      return &operand;
    }
  }
  return nullptr;
}

Addresses::Addresses(const Function& function, const FindModuleVariable& variable_of)
    : function_(function), variable_of_(variable_of) {
  roots_.emplace_back();  // root 0: unknown
  for (const Variable& parameter : function.params) Declare(parameter);
  for (const Variable& result : function.returns) Declare(result);
  if (function.body) Walk(*function.body);
  constexpr int kMostRounds = 12;
  for (int round = 0; round < kMostRounds; ++round) {
    changed_ = false;
    for (const Instruction* each : order_) Follow(*each);
    if (!changed_) break;
    if (round == kMostRounds - 2) forget_offsets_ = true;
  }
  JoinOverlappingPlaces();
}

int32_t Addresses::NumberOf(const Variable& parameter) const {
  const auto at = numbers_.find({&parameter, parameter.name});
  return at == numbers_.end() ? -1 : static_cast<int32_t>(at->second);
}

int32_t Addresses::NumberOf(const Operand& name) const {
  const auto at = names_.find(&name);
  return at == names_.end() ? -1 : static_cast<int32_t>(at->second);
}

int32_t Addresses::GuardOf(const Instruction& instruction) const {
  const auto at = guards_.find(&instruction);
  return at == guards_.end() ? -1 : static_cast<int32_t>(at->second);
}

int32_t Addresses::FindPlace(const Address& address) const {
  const auto at = places_.find({address.roots[0], address.offset});
  return at == places_.end() ? -1 : static_cast<int32_t>(at->second.variable);
}

std::vector<uint32_t> Addresses::PlacesOfObject(const Address& address) {
  return PlacesOf(address, address.is_exact ? ObjectBytes(address) : 0);
}

std::vector<uint32_t> Addresses::SharedPlaces(const Address& address) {
  std::vector<uint32_t> places;
  for (const uint32_t root : address.roots) places.push_back(Place(root, kAnywhere, 0));
  if (places.empty()) places.push_back(AnyShared());
  return places;
}

uint32_t Addresses::Anywhere(uint32_t root) { return Place(root, kAnywhere, 0); }

uint32_t Addresses::AnyShared() { return Place(0, kAnywhere, 0); }

void Addresses::Declare(const Variable& variable) {
  scopes_.Replace(variable.name, {.kind = Symbol::Kind::kVariable, .variable = &variable});
}

// Numbers the names in the body while their scopes are open.
void Addresses::Walk(const Block& block) {
  scopes_.Open();
  for (const Statement& statement : block.statements) {
    if (const auto* variable = std::get_if<Variable>(&statement.node)) {
      scopes_.Declare(variable->name, {.kind = Symbol::Kind::kVariable, .variable = variable});
    } else if (const auto* inner = std::get_if<Block>(&statement.node)) {
      Walk(*inner);
    } else if (const auto* instruction = std::get_if<Instruction>(&statement.node)) {
      order_.push_back(instruction);
      ForEachOperandOf(*instruction, [&](const Operand& operand) { NumberName(operand); });
      if (instruction->guard) guards_[instruction] = Number(instruction->guard->predicate);
    }
  }
  scopes_.Close();
}

void Addresses::NumberName(const Operand& operand) {
  using OperandKind = Operand::Kind;
  if (operand.kind == OperandKind::kName || operand.kind == OperandKind::kIndexed ||
      operand.kind == OperandKind::kOffset) {
    names_[&operand] = Number(operand.text);
  }
}

uint32_t Addresses::Number(std::string_view name) {
  const Symbol* symbol = scopes_.Find(name);
  const Variable* variable = symbol == nullptr ? nullptr : symbol->variable;
  const auto [at, fresh] =
      numbers_.try_emplace({variable, name}, static_cast<uint32_t>(addresses_.size()));
  if (fresh) {
    addresses_.emplace_back();
    declared_.push_back(variable != nullptr ? variable : variable_of_(name));
  }
  return at->second;
}

uint32_t Addresses::Root(Kind kind, uint32_t number, int64_t offset, std::string_view name) {
  const auto [at, fresh] =
      root_numbers_.try_emplace({kind, number, offset, name}, static_cast<uint32_t>(roots_.size()));
  if (fresh) roots_.push_back({.kind = kind, .number = number, .name = name});
  return at->second;
}

// The index of one of the function's parameters; -1 for other variables.
int32_t Addresses::ParameterNumber(const Variable* variable) const {
  for (size_t i = 0; i < function_.params.size(); ++i) {
    if (variable == &function_.params[i]) return static_cast<int32_t>(i);
  }
  return -1;
}

Address Addresses::AddressOfVariable(const Variable& variable) {
  Kind kind = Kind::kUnknown;
  switch (variable.space) {
    case StateSpace::kLocal:
      kind = Kind::kOwn;
      break;
    case StateSpace::kParam:
      kind = Kind::kOwn;
      break;
    case StateSpace::kShared:
      kind = Kind::kShared;
      break;
    case StateSpace::kConst:
      kind = Kind::kConstant;
      break;
    case StateSpace::kGlobal:
      kind = Kind::kGlobal;
      break;
    default:
      return {};
  }
  return {.roots = {Root(kind, 0, 0, variable.name)}, .is_exact = true};
}

Address Addresses::AddressOf(const Operand& operand) {
  if (operand.kind == Operand::Kind::kAddress) {
    if (operand.children.empty()) return {};
    return Shifted(AddressOf(operand.children[0]), operand.integer);
  }
  const auto at = names_.find(&operand);
  if (at == names_.end()) return {};
  const Variable* variable = declared_[at->second];
  const int64_t further = operand.kind == Operand::Kind::kOffset ? operand.integer : 0;
  if (variable != nullptr) {
    Address address = AddressOfVariable(*variable);
    if (!address.roots.empty()) return Shifted(std::move(address), further);
  }
  return Shifted(addresses_[at->second], further);
}

void Addresses::Join(uint32_t variable, Address address) {
  if (address.roots.empty()) return;
  if (forget_offsets_) address = Inexact(std::move(address));
  Address& known = addresses_[variable];
  Address joined = known;
  if (known.roots.empty()) {
    joined = std::move(address);
  } else if (!(known == address)) {
    joined = Inexact(std::move(joined));
    std::vector<uint32_t> both;
    std::set_union(known.roots.begin(), known.roots.end(), address.roots.begin(),
                   address.roots.end(), std::back_inserter(both));
    joined.roots = std::move(both);
    if (joined.roots.size() > kMostRoots) joined.roots = {0};
  }
  if (joined == known) return;
  known = std::move(joined);
  changed_ = true;
}

Addresses::Space Addresses::SpaceOf(const Instruction& instruction, const Address& address) const {
  if (HasSpace(instruction, "global")) return Space::kOthers;
  if (HasSpace(instruction, "local")) return Space::kOwn;
  if (HasSpace(instruction, "shared")) return Space::kShared;
  if (HasSpace(instruction, "const")) return Space::kConstant;
  if (HasSpace(instruction, "param")) return Space::kParam;
  if (address.roots.empty()) return Space::kOthers;
  const auto all = [&](Kind kind) {
    return std::all_of(address.roots.begin(), address.roots.end(),
                       [&](uint32_t root) { return roots_[root].kind == kind; });
  };
  if (all(Kind::kOwn)) return Space::kOwn;
  if (all(Kind::kShared)) return Space::kShared;
  if (all(Kind::kConstant)) return Space::kConstant;
  return Space::kOthers;
}

// The number of the variable that is a place in the thread's own or in shared memory.
uint32_t Addresses::Place(uint32_t root, int64_t offset, int64_t bytes) {
  const auto [at, fresh] = places_.try_emplace(
      {root, offset}, PlaceEntry{static_cast<uint32_t>(addresses_.size()), bytes});
  if (fresh) {
    addresses_.emplace_back();
    declared_.push_back(nullptr);
    changed_ = true;
  }
  at->second.bytes = std::max(at->second.bytes, bytes);
  return at->second.variable;
}

// `exact`: `to` gets the address in `from` itself, not one near it.
void Addresses::FollowOperand(const Operand& to, const Operand& from, bool exact) {
  if (from.kind == Operand::Kind::kVector) {
    for (const Operand& child : from.children) FollowOperand(to, child, false);
    return;
  }
  Address address = AddressOf(from);
  if (!exact) address = Inexact(std::move(address));
  ForEachName(to, [&](uint32_t name) { Join(name, address); });
}

// Follows the addresses from an instruction's sources to its destinations.
void Addresses::Follow(const Instruction& each) {
  if (each.operands.empty()) return;
  if (each.opcode == "call") return FollowCall(each);
  if (IsLoad(each)) return FollowAccess(each, each.operands[0], each.operands[1], true);
  if (IsStore(each)) return FollowAccess(each, each.operands[1], each.operands[0], false);
  const auto& operands = each.operands;
  const auto add = [&](size_t i, bool exact) {
    if (i < operands.size()) FollowOperand(operands[0], operands[i], exact);
  };
  if (IsOneOf(each.opcode, {"mov", "cvta", "cvt"})) {
    add(1, operands[0].kind != Operand::Kind::kVector);
  } else if (IsOneOf(each.opcode, {"add", "sub"}) && operands.size() == 3) {
    if (operands[2].kind == Operand::Kind::kInteger) {
      const int64_t by = each.opcode == "sub" ? -operands[2].integer : operands[2].integer;
      const Address moved = Shifted(AddressOf(operands[1]), by);
      ForEachName(operands[0], [&](uint32_t to) { Join(to, moved); });
    } else {
      add(1, false);
      add(2, false);
    }
  } else if (IsOneOf(each.opcode, {"selp", "shfl", "and", "or", "min", "max"})) {
    add(1, each.opcode == "selp");
    add(2, each.opcode == "selp");
  } else if (each.opcode == "mad") {
    add(3, false);
  }
}

void Addresses::FollowAccess(const Instruction& each, const Operand& value, const Operand& at,
                             bool loads) {
  const Address address = AddressOf(at);
  const Space space = SpaceOf(each, address);
  const int64_t bytes = ElementBytes(each);
  if (!loads && space != Space::kParam) TakeAddress(AddressOf(value));
  if (space == Space::kParam) return FollowParameter(value, at, loads, bytes);
  if (space == Space::kOwn && address.is_exact) {
    int64_t offset = address.offset;
    const auto one = [&](const Operand& part) {
      const uint32_t place = Place(address.roots[0], offset, bytes);
      offset += bytes;
      if (!loads) return Join(place, AddressOf(part));
      const Address kept = addresses_[place];
      ForEachName(part, [&](uint32_t to) { Join(to, kept); });
    };
    if (value.kind != Operand::Kind::kVector) return one(value);
    for (const Operand& part : value.children) one(part);
    return;
  }
  if (loads && bytes == 8) {
    ForEachName(value, [&](uint32_t to) { Join(to, {.roots = {0}}); });
  }
}

void Addresses::FollowParameter(const Operand& value, const Operand& at, bool loads,
                                int64_t bytes) {
  const auto named = names_.find(at.children.empty() ? &at : &at.children[0]);
  if (named == names_.end()) return;
  if (!loads) return Join(named->second, AddressOf(value));
  const int32_t number = ParameterNumber(declared_[named->second]);
  Address given = addresses_[named->second];
  if (number >= 0 && bytes == 8) {
    const auto index = static_cast<uint32_t>(number);
    given = {.roots = {Root(Kind::kParameter, index, at.integer, function_.params[index].name)},
             .is_exact = true};
  }
  ForEachName(value, [&](uint32_t to) { Join(to, given); });
}

void Addresses::FollowCall(const Instruction& each) {
  const Operand* callee = FindCallee(each);
  for (const Operand& operand : each.operands) {
    if (&operand == callee) break;
    ForEachName(operand, [&](uint32_t to) { Join(to, {.roots = {0}}); });
  }
  const Operand* arguments = FindArguments(each);
  if (arguments == nullptr) return;
  for (const Operand& argument : arguments->children) {
    TakeAddress(AddressOfArgument(argument));
  }
}

// Records that an address of own memory is kept or handed on: others may write to that object
// through it.
void Addresses::TakeAddress(const Address& address) {
  for (const uint32_t root : address.roots) {
    if (roots_[root].kind != Kind::kOwn) continue;
    const int64_t offset = address.is_exact ? address.offset : kAnywhere;
    Place(root, offset, address.is_exact ? 1 : 0);
    address_taken_.insert({root, offset});
  }
}

// All own memory to which a pointer of which nothing is known may write.
std::vector<uint32_t> Addresses::PlacesOfAll() {
  std::vector<uint32_t> places;
  for (const auto& [root, offset] : address_taken_) {
    const Address address{.roots = {root},
                          .is_exact = offset != kAnywhere,
                          .offset = offset == kAnywhere ? 0 : offset};
    const std::vector<uint32_t> more =
        PlacesOf(address, address.is_exact ? ObjectBytes(address) : 0);
    places.insert(places.end(), more.begin(), more.end());
  }
  return places;
}

// An argument is the variable to which the value was stored, or a register.
Address Addresses::AddressOfArgument(const Operand& argument) const {
  const auto at = names_.find(&argument);
  return at == names_.end() ? Address{} : addresses_[at->second];
}

// Makes places that share bytes one variable.
void Addresses::JoinOverlappingPlaces() {
  uint32_t root = 0, variable = 0;
  int64_t end = kAnywhere;
  for (auto& [where, entry] : places_) {
    if (where.second == kAnywhere) continue;
    if (where.first != root) end = kAnywhere;
    root = where.first;
    if (end != kAnywhere && where.second < end) {
      entry.variable = variable;
    } else {
      variable = entry.variable;
    }
    end = std::max(end == kAnywhere ? where.second : end, where.second + entry.bytes);
  }
}

// All places that an address in own memory may mean: those in `bytes` bytes, or any place of the
// root.
std::vector<uint32_t> Addresses::PlacesOf(const Address& address, int64_t bytes) {
  std::vector<uint32_t> places;
  for (const uint32_t root : address.roots) {
    places.push_back(Place(root, kAnywhere, 0));
    auto at = places_.lower_bound({root, address.is_exact ? address.offset : kAnywhere});
    for (; at != places_.end() && at->first.first == root; ++at) {
      if (address.is_exact && at->first.second >= address.offset + bytes) break;
      places.push_back(at->second.variable);
    }
  }
  return places;
}

// The size of an object whose address is handed to a function: it reaches to the next such object.
int64_t Addresses::ObjectBytes(const Address& address) const {
  const auto next = address_taken_.upper_bound({address.roots[0], address.offset});
  const bool ends = next != address_taken_.end() && next->first == address.roots[0];
  return ends ? next->second - address.offset : std::numeric_limits<int32_t>::max();
}

bool Addresses::IsGiven(const Address& address) const {
  return std::any_of(address.roots.begin(), address.roots.end(), [&](uint32_t root) {
    return roots_[root].kind == Kind::kParameter || roots_[root].kind == Kind::kUnknown;
  });
}

}  // namespace cupola::ptx
