#include "cli/run_environment.h"

#include <algorithm>
#include <string_view>

#include <unistd.h>

#include "base/settings/variables.h"

namespace cupola {
namespace {

std::string* Find(std::vector<std::string>& environment, std::string_view name) {
  for (std::string& entry : environment) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      return &entry;
    }
  }
  return nullptr;
}

void Remove(std::vector<std::string>& environment, const std::string& name) {
  std::erase_if(environment,
                [&](const std::string& entry) { return entry.starts_with(name + "="); });
}

void Set(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  Remove(environment, name);
  if (!value.empty()) environment.push_back(name + "=" + value);
}

/// Makes `value` the first word of the colon-separated list `name`, and removes it from later places.
void Prepend(std::vector<std::string>& environment, const std::string& name,
             const std::string& value) {
  if (value.empty()) return;
  std::string list = value;
  if (const std::string* entry = Find(environment, name)) {
    std::string_view rest = std::string_view(*entry).substr(name.size() + 1);
    // An empty word stays, because in LD_LIBRARY_PATH it means the current folder. An empty list has no word.
    for (bool more = !rest.empty(); more;) {
      const size_t end = rest.find(':');
      const std::string_view word = rest.substr(0, end);
      if (word != value) list.append(":").append(word);
      more = end != std::string_view::npos;
      if (more) rest.remove_prefix(end + 1);
    }
  }
  Set(environment, name, list);
}

/// Allows our library before AddressSanitizer's shared runtime, which otherwise ends a program in which another
/// library comes before it. The preloaded library itself allows it, unless ASAN_OPTIONS is set; this function is for
/// programs where it is. If the user has set the option, it stays as it is.
/// https://github.com/google/sanitizers/wiki/AddressSanitizerFlags
void AllowPreloadBeforeSanitizer(std::vector<std::string>& environment) {
  constexpr std::string_view kName = "ASAN_OPTIONS", kOption = "verify_asan_link_order";
  const std::string* const entry = Find(environment, kName);
  std::string options = entry != nullptr ? entry->substr(kName.size() + 1) : "";
  if (options.find(kOption) != std::string::npos) return;
  if (!options.empty()) options += ':';
  Set(environment, std::string(kName), options.append(kOption).append("=0"));
}

}  // namespace

std::vector<std::string> WithCupola(const std::vector<std::string>& existing,
                                    const RunEnvironment& additions) {
  std::vector<std::string> environment = existing;
  Prepend(environment, "LD_PRELOAD", additions.preload);
  Prepend(environment, "LD_LIBRARY_PATH", additions.library_folder);
  if (!additions.preload.empty()) {
    Prepend(environment, "LD_LIBRARY_PATH", additions.front_folder);
    AllowPreloadBeforeSanitizer(environment);
  }
  if (!additions.driver.empty()) Set(environment, settings::Name("CUPOLA_DRIVER"), additions.driver);
  Set(environment, settings::Name("CUPOLA_RECORDS"), additions.records);
  Set(environment, settings::Name("CUPOLA_TIMING"), additions.timing);
  for (const auto& [name, value] : additions.variables) Set(environment, name, value);
  return environment;
}

std::vector<std::string> CurrentEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  return environment;
}

}  // namespace cupola
