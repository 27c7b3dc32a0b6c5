// Pass: a side module reaches the program's variables by address.
//
// A second module would have copies of `__device__`, `__constant__` and `__managed__` variables;
// they must be the program's own. So each name of one becomes a load of its address from
// `.const .b64 cupola_variables[n]`, which the loader fills. An address that the driver gives for a
// constant is one of global memory, so loads from constant space become loads from global memory,
// and conversions to and from constant space become moves.
//
// What the compiler made itself (string literals, tables of its mathematical functions) is the same
// in every copy and is copied; constants of that kind move to global memory with the rest.
//
// Precondition: no texture, sampler or surface references, no `isspacep.const`, no name declared in
// a body that is a variable of the module too (refusals.h). Effect: no operand names a variable of
// the program. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "device/compiler/passes/preemptible.h"
#include "device/compiler/ptx/ir.h"
#include "device/compiler/ptx/variable_layout.h"

namespace cupola::passes {

using ptx::VariableAlign;
using ptx::VariableBytes;

/// Variables of a side module: the numbers of the program's in cupola_variables. std::map: numbers
/// follow the order of the original module, whoever asks first.
class VariableTable {
 public:
  explicit VariableTable(const ptx::Module& module);
  /// Whether it is a .global or .const variable of the program, reached by address.
  bool IsOfProgram(std::string_view name) const { return of_program_.contains(name); }
  /// Whether it is a variable that the side module has a copy of.
  bool IsCopied(std::string_view name) const { return copied_.contains(name); }
  /// Marks a variable as used.
  void Use(std::string_view name);
  /// After all uses are marked: numbers them. Returns the variables in the order of their numbers.
  std::vector<const ptx::Variable*> Number();
  uint32_t NumberOf(std::string_view name) const { return of_program_.find(name)->second.number; }

 private:
  struct Entry {
    const ptx::Variable* variable = nullptr;
    bool used = false;
    uint32_t number = 0;
  };
  std::vector<std::string_view> order_;
  std::map<std::string_view, Entry> of_program_;
  std::map<std::string_view, const ptx::Variable*> copied_;
};

/// What the loader is told of the variables, in the order of their numbers.
std::vector<VariableFact> VariableFacts(const std::vector<const ptx::Variable*>& variables);

/// Returns whether anything changed.
bool ReachVariablesByAddress(ptx::Function& function, const VariableTable& table);

/// The declaration of cupola_variables.
ptx::Variable AddressArray(size_t count);

/// A copy of a compiler-made variable for the side module.
ptx::Variable CopyOf(const ptx::Variable& variable);

}  // namespace cupola::passes
