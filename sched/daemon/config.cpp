#include "sched/daemon/config.h"

#include <algorithm>

#include <fmt/format.h>

namespace cupola::sched {

bool Config::Admits(const ProcessIdentity& process, uint32_t own_uid) const {
  if (process.uid == own_uid) return true;
  return std::any_of(users.begin(), users.end(), [&](const std::string& user) {
    return user == "*" || user == process.user || user == std::to_string(process.uid);
  });
}

std::string Config::RefusalOf(const ProcessIdentity& process) {
  return fmt::format("user {} is not admitted; the daemon's configuration lists who is, in "
                     "[access] users",
                     process.user);
}

ClientSettings Config::SettingsFor(const ProcessIdentity& process,
                                   const std::string& kernel) const {
  ClientSettings settings;
  for (const Rule& rule : rules) {
    if (!rule.Matches(process) || !rule.MatchesKernel(kernel)) continue;
    settings.priority = rule.priority.value_or(settings.priority);
    settings.weight = rule.weight.value_or(settings.weight);
    settings.latency_bound_ns = rule.latency_bound_ns.value_or(settings.latency_bound_ns);
    settings.least_share_percent = rule.least_share_percent.value_or(settings.least_share_percent);
  }
  return settings;
}

bool Config::HasKernelRules(const ProcessIdentity& process) const {
  return std::any_of(rules.begin(), rules.end(), [&](const Rule& rule) {
    return !rule.kernel.empty() && rule.SetsScheduling() &&
           rule.Matches(process);
  });
}

std::vector<size_t> Config::FittingRules(const ProcessIdentity& process, const std::string& kernel) const {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].Matches(process) && rules[i].MatchesKernel(kernel)) numbers.push_back(i + 1);
  }
  return numbers;
}

void Config::FillVariants(const ProcessIdentity& process, JoinAnswer& answer) const {
  answer.kernel_rules = 0;
  for (const Rule& rule : rules) {
    if (!rule.variant || !rule.Matches(process)) continue;
    const auto variant = static_cast<uint32_t>(*rule.variant);
    if (rule.kernel.empty()) {
      answer.variant = variant;
      answer.kernel_rules = 0;  // the last rule counts, also over rules for kernels before it
    } else if (answer.kernel_rules < kMaxKernelRules) {
      KernelRule& kernel = answer.kernels[answer.kernel_rules++];
      rule.kernel.copy(kernel.pattern, sizeof(kernel.pattern) - 1);
      kernel.variant = variant;
    }
  }
}

}  // namespace cupola::sched
