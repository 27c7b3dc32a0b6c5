// Rule: a [[rule]] of the configuration, which says what processes it matches and what it sets. Plain values that
// Config owns; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sched/board/protocol.h"
#include "sched/daemon/gpu_arbiter.h"

namespace cupola::sched {

/// Patterns are those of fnmatch(3); "" matches everything.
struct Rule {
  uint32_t line = 0;       ///< line of the file where the rule begins
  /// A program's file, or the link or script by which it was started: the path, or the last part of it where the
  /// pattern has no slash.
  std::string executable;
  std::string user;        ///< name or number of the user
  std::string label;       ///< the client's CUPOLA_LABEL
  std::string cgroup;      ///< path of the control group, or one part of it where the pattern has no slash
  std::string container;   ///< the container's number, or at least the first 12 digits of it
  std::string kernel;      ///< name of the kernel at the head
  std::optional<int32_t> priority;
  std::optional<uint32_t> weight;
  std::optional<uint64_t> latency_bound_ns;
  std::optional<uint32_t> least_share_percent;
  std::optional<VariantChoice> variant;

  /// Whether the rule sets anything but the variant.
  bool SetsScheduling() const { return priority || weight || latency_bound_ns || least_share_percent; }
  /// Whether the rule matches the process, whatever the kernel.
  bool Matches(const ProcessIdentity& process) const;
  bool MatchesKernel(const std::string& name) const;
  /// What keeps the rule from matching, a phrase for each condition that fails; empty = it matches.
  std::vector<std::string> WhyNot(const ProcessIdentity& process, const std::string& kernel_name) const;
  /// The rule's conditions (key and pattern) and its settings (key and value), as in the file.
  std::vector<std::pair<std::string, std::string>> Conditions() const;
  std::vector<std::pair<std::string, std::string>> Settings() const;
};

}  // namespace cupola::sched
