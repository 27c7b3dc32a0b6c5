// What the pointers of a function may point to, without regard to the order of instructions. The
// data-flow analysis (data_flow.h) uses it. Internal to the folder. Borrows from the function.
// Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/compiler/ptx/ir.h"
#include "device/compiler/ptx/scope.h"
#include "device/compiler/ptx/walk.h"

namespace cupola::ptx {

/// The memory in which an address may lie: something that a function is given or names.
struct MemoryRoot {
  enum class Kind : uint8_t {
    kUnknown,  ///< reached by a pointer that was read from memory, or that a call returned
    kOwn,      ///< memory of the thread: locals, parameters passed by value
    kShared,
    kConstant,
    kParameter,  ///< what a parameter points to; `number` is the parameter's index
    kGlobal,     ///< a variable of the module
  };
  Kind kind = Kind::kUnknown;
  uint32_t number = 0;
  std::string_view name;
};

/// What an address may be: a number of bytes behind the beginning of one of several roots.
struct Address {
  std::vector<uint32_t> roots;  ///< indices into DataFlow::roots, ascending; none: not an address
  bool is_exact = false;        ///< there is one root, and the address is `offset` bytes behind it
  int64_t offset = 0;
  bool operator==(const Address&) const = default;
};

/// A variable of the module, or null.
using FindModuleVariable = std::function<const Variable*(std::string_view)>;

/// The names of a function's body and what each may point to, found in the constructor. Borrows
/// from the function. Every name, and every place in memory that is the thread's own or shared, has
/// a number; both kinds of numbers are drawn from one sequence.
class Addresses {
 public:
  Addresses(const Function& function, const FindModuleVariable& variable_of);

  const std::vector<const Instruction*>& order() const { return order_; }
  const std::vector<MemoryRoot>& roots() const { return roots_; }
  size_t count() const { return addresses_.size(); }  ///< numbers given so far

  /// Calls visit(number) for every name in the operand.
  template <typename Visit>
  void ForEachName(const Operand& operand, Visit visit) const {
    ForEachOperand(operand, [&](const Operand& each) {
      const auto at = names_.find(&each);
      if (at != names_.end()) visit(at->second);
    });
  }
  /// The number of one of the function's parameters or results; -1 where the body does not name it.
  int32_t NumberOf(const Variable& parameter) const;
  int32_t NumberOf(const Operand& name) const;
  int32_t GuardOf(const Instruction& instruction) const;

  /// In which memory an instruction accesses an address: the space of its modifier, else the space
  /// of all roots that the address may have.
  enum class Space : uint8_t { kOthers, kOwn, kShared, kConstant, kParam };
  Space SpaceOf(const Instruction& instruction, const Address& address) const;
  /// What an operand may point to. For an argument of a call: AddressOfArgument.
  Address AddressOf(const Operand& operand);
  Address AddressOfArgument(const Operand& argument) const;
  /// Whether the address may lie in memory to which the function was given a pointer.
  bool IsGiven(const Address& address) const;

  /// The place at an exact address in own memory, if an instruction names it; else -1.
  int32_t FindPlace(const Address& address) const;
  /// All places that an access of `bytes` bytes at an address in own memory may mean: the places in
  /// these bytes, or any place of the root.
  std::vector<uint32_t> PlacesOf(const Address& address, int64_t bytes);
  /// The number that stands for all places of a root whose offsets are not known.
  uint32_t Anywhere(uint32_t root);
  /// All places of an object whose address is handed on.
  std::vector<uint32_t> PlacesOfObject(const Address& address);
  /// All own memory to which a pointer of which nothing is known may write.
  std::vector<uint32_t> PlacesOfAll();
  /// The shared variables in which the address may lie; where no root is known, the number that
  /// stands for all.
  std::vector<uint32_t> SharedPlaces(const Address& address);
  uint32_t AnyShared();

 private:
  using Kind = MemoryRoot::Kind;
  struct PlaceEntry {
    uint32_t variable = 0;
    int64_t bytes = 0;
  };

  void Declare(const Variable& variable);
  void Walk(const Block& block);
  void NumberName(const Operand& operand);
  uint32_t Number(std::string_view name);
  uint32_t Root(Kind kind, uint32_t number, int64_t offset, std::string_view name);
  int32_t ParameterNumber(const Variable* variable) const;
  Address AddressOfVariable(const Variable& variable);
  void Join(uint32_t variable, Address address);
  uint32_t Place(uint32_t root, int64_t offset, int64_t bytes);
  void Follow(const Instruction& each);
  void FollowOperand(const Operand& to, const Operand& from, bool exact);
  void FollowAccess(const Instruction& each, const Operand& value, const Operand& at, bool loads);
  void FollowParameter(const Operand& value, const Operand& at, bool loads, int64_t bytes);
  void FollowCall(const Instruction& each);
  void TakeAddress(const Address& address);
  void JoinOverlappingPlaces();
  int64_t ObjectBytes(const Address& address) const;

  const Function& function_;
  const FindModuleVariable& variable_of_;
  Scopes scopes_;
  std::vector<const Instruction*> order_;
  std::vector<MemoryRoot> roots_;
  std::unordered_map<const Operand*, uint32_t> names_;
  std::unordered_map<const Instruction*, uint32_t> guards_;
  std::map<std::pair<const Variable*, std::string_view>, uint32_t> numbers_;
  std::vector<const Variable*> declared_;  ///< by number; null for places
  std::vector<Address> addresses_;         ///< by number: what it may point to
  std::map<std::tuple<Kind, uint32_t, int64_t, std::string_view>, uint32_t> root_numbers_;
  std::map<std::pair<uint32_t, int64_t>, PlaceEntry> places_;
  std::set<std::pair<uint32_t, int64_t>> address_taken_;
  bool changed_ = false;         ///< the round of the fixed point has found something new
  bool forget_offsets_ = false;  ///< addresses become inexact, so that the fixed point ends
};

/// ld and ldu; st.
bool IsLoad(const Instruction& instruction);
bool IsStore(const Instruction& instruction);
/// Bytes of one element that an instruction loads or stores, by its type; 4 where the type has no
/// size.
int64_t ElementBytes(const Instruction& instruction);
/// The callee of a call: its first operand that is no list in parentheses. Null where there is
/// none.
const Operand* FindCallee(const Instruction& call);
/// The arguments of a call. Null where it has none.
const Operand* FindArguments(const Instruction& call);

}  // namespace cupola::ptx
