#include "device/compiler/build/name_pattern.h"

#include <cxxabi.h>
#include <regex.h>

#include <cstdlib>

namespace cupola::build {

struct NamePattern::Compiled {
  regex_t regex{};
  bool valid = false;
  ~Compiled() {
    if (valid) regfree(&regex);
  }
};

Result<NamePattern> NamePattern::Make(const std::string& expression) {
  NamePattern pattern;
  if (expression.empty()) return pattern;
  auto compiled = std::make_shared<Compiled>();
  const int error = regcomp(&compiled->regex, expression.c_str(), REG_EXTENDED | REG_NOSUB);
  if (error != 0) {
    char why[128];
    regerror(error, &compiled->regex, why, sizeof(why));
    return MakeError(ErrorCode::kInvalidArgument,
                     "not a regular expression: '" + expression + "': " + why);
  }
  compiled->valid = true;
  pattern.compiled_ = std::move(compiled);
  return pattern;
}

bool NamePattern::Matches(const std::string& mangled) const {
  if (compiled_ == nullptr) return true;
  if (regexec(&compiled_->regex, mangled.c_str(), 0, nullptr, 0) == 0) return true;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text && regexec(&compiled_->regex, text.get(), 0, nullptr, 0) == 0;
}

}  // namespace cupola::build
