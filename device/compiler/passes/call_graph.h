// What a kernel reaches in its module: functions by calls and by address, variables by name. The
// graph borrows from the module, which must outlive it. Internal to the folder; pure.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// What a kernel reaches.
struct Reach {
  /// The kernel itself first, then function definitions in the order in which they were found.
  std::vector<const ptx::Function*> functions;
  std::unordered_set<std::string_view> names;  ///< all names in operands and lists of call targets
  bool calls_pointers = false;                 ///< there is a call through a register
  bool takes_addresses = false;                ///< a function is named other than to call it
  bool names_kernels = false;                  ///< an entry is named
};

class CallGraph {
 public:
  explicit CallGraph(const ptx::Module& module);

  /// The definition of a function or kernel; null where there is none.
  const ptx::Function* Find(std::string_view name) const;
  /// The module's variable of that name, null where there is none.
  const ptx::Variable* FindVariable(std::string_view name) const;
  Reach From(const ptx::Function& kernel) const;

 private:
  std::unordered_map<std::string_view, const ptx::Function*> functions_;
  std::unordered_map<std::string_view, const ptx::Variable*> variables_;
};

/// The operand of a call that says what is called: the first one that is no list in parentheses.
/// Null: there is none.
const ptx::Operand* CalleeOf(const ptx::Instruction& call);

}  // namespace cupola::passes
