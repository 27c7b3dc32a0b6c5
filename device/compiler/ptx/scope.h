// The names that a PTX module declares, scope by scope [5.4.6, 4.4]. Internal to this folder. The
// names borrow from the module, which must outlive the Scopes. One thread.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

struct Symbol {
  enum class Kind : uint8_t { kVariable, kLabel, kFunction, kTargets, kPrototype };
  Kind kind = Kind::kVariable;
  /// The node that declared the symbol; `kind` decides which of these is set.
  const Variable* variable = nullptr;
  const Function* function = nullptr;
  const CallPrototype* prototype = nullptr;
};

class Scopes {
 public:
  Scopes() { Open(); }  // the scope of the module

  void Open() { scopes_.emplace_back(); }
  void Close() { scopes_.pop_back(); }

  /// Declares a name in the innermost scope. Returns false, and changes nothing, where the name is
  /// taken there. A .reg range counts as all its names.
  bool Declare(std::string_view name, const Symbol& symbol);
  /// Declares a name in the innermost scope, in place of any symbol that stood there.
  void Replace(std::string_view name, const Symbol& symbol);
  /// The innermost symbol of that name, or null. "%r7" also finds the range %r<9>.
  const Symbol* Find(std::string_view name) const;
  /// The symbol of that name in the innermost scope only, or null.
  const Symbol* FindHere(std::string_view name) const;

 private:
  struct Scope {
    std::unordered_map<std::string_view, Symbol> names;
    std::unordered_map<std::string_view, Symbol> ranges;  ///< by prefix: "%r" for %r<9>
  };
  static const Symbol* FindIn(const Scope& scope, std::string_view name);

  std::vector<Scope> scopes_;
};

/// Whether `name` ("%tid", "%clock64") is a special register of PTX ISA 9.0 [10].
bool IsSpecialRegister(std::string_view name);

}  // namespace cupola::ptx
