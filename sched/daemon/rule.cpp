#include "sched/daemon/rule.h"

#include <algorithm>

#include <fnmatch.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sched/daemon/process_names.h"
#include "sched/daemon/rule_pattern.h"

namespace cupola::sched {
namespace {

bool Fits(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

bool FitsPath(const std::string& pattern, const std::string& path) {
  const bool whole = pattern.find('/') != std::string::npos;
  return !path.empty() && Fits(pattern, whole ? path : FileName(path));
}

bool FitsProgram(const std::string& pattern, const ProcessIdentity& process) {
  return FitsPath(pattern, process.executable) || FitsPath(pattern, process.started_as) ||
         FitsPath(pattern, process.script);
}

bool FitsUser(const std::string& pattern, const ProcessIdentity& process) {
  return Fits(pattern, process.user) || Fits(pattern, std::to_string(process.uid));
}

bool FitsGroup(const std::string& pattern, const std::string& path) {
  if (pattern.find('/') != std::string::npos) return Fits(pattern, path);
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at && Fits(pattern, path.substr(at, end - at))) return true;
    at = end + 1;
  }
  return false;
}

bool FitsContainer(const std::string& pattern, const std::string& number) {
  constexpr size_t kShortNumber = 12;
  if (number.empty()) return false;
  return Fits(pattern, number) ||
         (pattern.size() >= kShortNumber && IsPlainText(pattern) && number.starts_with(pattern));
}

std::string Known(const std::string& text, const char* unknown) {
  return text.empty() ? unknown : fmt::format("\"{}\"", text);
}

std::string ProgramText(const ProcessIdentity& process) {
  std::vector<std::string> names = {Known(process.executable, "unknown")};
  for (const std::string* name : {&process.started_as, &process.script}) {
    if (!name->empty() && std::find(names.begin(), names.end(), Known(*name, "")) == names.end()) {
      names.push_back(Known(*name, ""));
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// One condition of a rule: its key, its pattern, how it is compared with a process, and what the process has there.
struct Condition {
  const char* key;
  const std::string Rule::*pattern;
  bool (*fits)(const std::string& pattern, const ProcessIdentity& process);
  std::string (*text)(const ProcessIdentity& process);
};

const Condition kConditions[] = {
    {"executable", &Rule::executable, FitsProgram, ProgramText},
    {"user", &Rule::user, FitsUser,
     [](const ProcessIdentity& process) { return fmt::format("\"{}\" ({})", process.user, process.uid); }},
    {"label", &Rule::label,
     [](const std::string& pattern, const ProcessIdentity& process) { return Fits(pattern, process.label); },
     [](const ProcessIdentity& process) { return Known(process.label, "not set"); }},
    {"cgroup", &Rule::cgroup,
     [](const std::string& pattern, const ProcessIdentity& process) { return FitsGroup(pattern, process.cgroup); },
     [](const ProcessIdentity& process) { return Known(process.cgroup, "unknown"); }},
    {"container", &Rule::container,
     [](const std::string& pattern, const ProcessIdentity& process) {
       return FitsContainer(pattern, process.container);
     },
     [](const ProcessIdentity& process) { return Known(process.container, "none"); }}};

}  // namespace

bool Rule::Matches(const ProcessIdentity& process) const {
  return std::all_of(std::begin(kConditions), std::end(kConditions), [&](const Condition& condition) {
    const std::string& pattern = this->*condition.pattern;
    return pattern.empty() || condition.fits(pattern, process);
  });
}

bool Rule::MatchesKernel(const std::string& name) const { return kernel.empty() || Fits(kernel, name); }

std::vector<std::string> Rule::WhyNot(const ProcessIdentity& process, const std::string& kernel_name) const {
  std::vector<std::string> why;
  for (const Condition& condition : kConditions) {
    const std::string& pattern = this->*condition.pattern;
    if (pattern.empty() || condition.fits(pattern, process)) continue;
    why.push_back(fmt::format("{} is {}, not \"{}\"", condition.key, condition.text(process), pattern));
  }
  if (!MatchesKernel(kernel_name)) {
    why.push_back(fmt::format("kernel is {} now, not \"{}\"", Known(kernel_name, "none"), kernel));
  }
  return why;
}

std::vector<std::pair<std::string, std::string>> Rule::Conditions() const {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const Condition& condition : kConditions) {
    if (!(this->*condition.pattern).empty()) texts.emplace_back(condition.key, this->*condition.pattern);
  }
  if (!kernel.empty()) texts.emplace_back("kernel", kernel);
  return texts;
}

std::vector<std::pair<std::string, std::string>> Rule::Settings() const {
  std::vector<std::pair<std::string, std::string>> texts;
  if (priority) texts.emplace_back("priority", std::to_string(*priority));
  if (weight) texts.emplace_back("weight", std::to_string(*weight));
  if (latency_bound_ns) texts.emplace_back("latency_bound_us", std::to_string(*latency_bound_ns / 1000));
  if (least_share_percent) texts.emplace_back("least_share_percent", std::to_string(*least_share_percent));
  if (variant) texts.emplace_back("variant", VariantName(*variant));
  return texts;
}

}  // namespace cupola::sched
