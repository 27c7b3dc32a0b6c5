// NamePattern: selects kernels by a regular expression (POSIX extended) that is searched in their
// mangled and demangled names: the option --kernel of `cupola build`. A copy shares the compiled
// expression. Any thread may match.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace cupola::build {

class NamePattern {
 public:
  NamePattern() = default;  ///< matches every name

  /// "" matches every name. Errors: kInvalidArgument with what is wrong with the expression.
  static Result<NamePattern> Make(const std::string& expression);

  bool Matches(const std::string& mangled) const;
  bool matches_all() const { return compiled_ == nullptr; }

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace cupola::build
