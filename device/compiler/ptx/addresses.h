// What pointers of a function may point to, without regard to the order of instructions. Internal
// to the folder. Borrows from the function. Pure.
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

namespace cupola::ptx {

/// What memory an address may lie in: something that a function is given or names.
struct MemoryRoot {
  enum class Kind : uint8_t {
    kUnknown,  ///< a pointer that was read from memory, or that a call returned
    kOwn,      ///< memory of the thread: locals, parameters passed by value
    kShared,
    kConstant,
    kParameter,  ///< what a parameter points to; `number` is the parameter's
    kGlobal,     ///< a variable of the module
  };
  Kind kind = Kind::kUnknown;
  uint32_t number = 0;
  std::string_view name;
};

/// What an address may be: bytes behind the beginning of one of several roots.
struct Address {
  std::vector<uint32_t> roots;  ///< into DataFlow::roots, ascending; none: not an address
  bool is_exact = false;        ///< one root, and `offset` bytes behind it
  int64_t offset = 0;
  bool operator==(const Address&) const = default;
};

/// A variable of the module, or null.
using FindModuleVariable = std::function<const Variable*(std::string_view)>;

/// The names of a function's body and what each may point to. Made once; borrows from the function.
/// Names, and places in memory that is the thread's own or shared, have numbers of one kind.
class Addresses {
 public:
  Addresses(const Function& function, const FindModuleVariable& variable_of);

  const std::vector<const Instruction*>& order() const { return order_; }
  const std::vector<MemoryRoot>& roots() const { return roots_; }
  size_t count() const { return addresses_.size(); }  ///< of numbers given so far

  /// Calls visit(number) for every name in the operand.
  template <typename Visit>
  void ForEachName(const Operand& operand, Visit visit) const {
    const auto at = names_.find(&operand);
    if (at != names_.end()) visit(at->second);
    for (const Operand& child : operand.children) ForEachName(child, visit);
  }
  /// Of a name that is one of the function's parameters or results; -1 where its body has none.
  int32_t NumberOf(const Variable& parameter) const;
  int32_t NumberOf(const Operand& name) const;
  int32_t GuardOf(const Instruction& instruction) const;

  /// Where memory lies that an instruction names: in a space by its modifier, else by all that the
  /// address may be.
  enum class Space : uint8_t { kOthers, kOwn, kShared, kConstant, kParam };
  Space SpaceOf(const Instruction& instruction, const Address& address) const;
  /// What an operand points to; of an argument of a call, what was stored to it.
  Address AddressOf(const Operand& operand);
  Address AddressOfArgument(const Operand& argument) const;
  /// Whether it may be memory that the function was given a pointer to.
  bool IsGiven(const Address& address) const;

  /// The place at an exact address in own memory, where an instruction names it; else -1.
  int32_t FindPlace(const Address& address) const;
  /// All that may be meant by an address in own memory: places in so many bytes, or any of the
  /// root's.
  std::vector<uint32_t> PlacesOf(const Address& address, int64_t bytes);
  /// What stands for all places of a root of which it is not known where they are.
  uint32_t Anywhere(uint32_t root);
  /// Places of an object whose address is handed on.
  std::vector<uint32_t> PlacesOfObject(const Address& address);
  /// All own memory that may be written by a pointer of which nothing is known.
  std::vector<uint32_t> PlacesOfAll();
  /// Shared variables; where no root is known, that which stands for all.
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
  void NumberNames(const Operand& operand);
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
  std::vector<const Variable*> declared_;  // by number
  std::vector<Address> addresses_;         // by number: what it may point to
  std::map<std::tuple<Kind, uint32_t, int64_t, std::string_view>, uint32_t> root_numbers_;
  std::map<std::pair<uint32_t, int64_t>, PlaceEntry> places_;
  std::set<std::pair<uint32_t, int64_t>> address_taken_;
  bool changed_ = false, forget_offsets_ = false;
};

/// ld and ldu, st.
bool IsLoad(const Instruction& instruction);
bool IsStore(const Instruction& instruction);
/// Of one element of what an instruction loads or stores, by its type; 4 where that says nothing.
int64_t ElementBytes(const Instruction& instruction);
/// The callee of a call: its first operand that is no list in parentheses; null where there is
/// none.
const Operand* FindCallee(const Instruction& call);
/// The arguments of a call; null where it has none.
const Operand* FindArguments(const Instruction& call);

}  // namespace cupola::ptx
