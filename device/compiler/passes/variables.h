// Pass: a side module reaches the program's variables by address.
//
// A second module would have copies of `__device__`, `__constant__` and `__managed__` variables,
// but it must use the program's own. So each use of such a variable's name becomes a load of its
// address from `.const .b64 cupola_variables[n]`, which the loader fills. The address that the
// driver gives for a constant is one of global memory, so loads from constant space become loads
// from global memory, and conversions to and from constant space become moves.
//
// Variables that the compiler made itself (string literals, tables of its mathematical functions)
// are the same in every copy, so the side module has copies of them. Constants of that kind move to
// global memory with the rest.
//
// Precondition: no texture, sampler or surface references, no `isspacep.const`, and no name that
// both a body and the module declare (refusals.h). Effect: no operand names a variable of the
// program. Pure; any thread.
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

/// The variables of a side module, and the numbers of the program's variables in cupola_variables.
/// Numbers follow the order of the original module, whatever the order of uses. The table borrows
/// from the module.
class VariableTable {
 public:
  explicit VariableTable(const ptx::Module& module);
  /// Whether the name is a .global or .const variable of the program, which is reached by address.
  bool IsOfProgram(std::string_view name) const { return of_program_.contains(name); }
  /// Whether the name is a variable of which the side module has a copy.
  bool IsCopied(std::string_view name) const { return copied_.contains(name); }
  /// Marks a variable as used. Names of no variable are ignored.
  void Use(std::string_view name);
  /// Numbers the used variables; call it when all uses are marked. Returns them in the order of
  /// their numbers.
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

/// What the loader must know of the variables, in the order of their numbers.
std::vector<VariableFact> VariableFacts(const std::vector<const ptx::Variable*>& variables);

/// Rewrites the function's body. Returns whether anything changed.
bool ReachVariablesByAddress(ptx::Function& function, const VariableTable& table);

/// The declaration of cupola_variables.
ptx::Variable AddressArray(size_t count);

/// A copy of a compiler-made variable for the side module.
ptx::Variable CopyOf(const ptx::Variable& variable);

}  // namespace cupola::passes
