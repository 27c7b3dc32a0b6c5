// [[rule]] of the configuration: whom it fits, and what it sets. Plain values, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sched/board/protocol.h"
#include "sched/daemon/gpu_arbiter.h"

namespace cupola::sched {

/// Patterns are those of fnmatch(3); "" fits everything.
struct Rule {
  uint32_t line = 0;       ///< of the file, where it begins
  std::string executable;  ///< a program's file, or the link or script by which it was started: the path, or the last
                           ///< word of it where there is no slash
  std::string user;        ///< the name or the number
  std::string label;       ///< the client's CUPOLA_LABEL
  std::string cgroup;      ///< the path of the control group, or one word of it where there is no slash
  std::string container;   ///< its number, or the first 12 digits of it or more
  std::string kernel;      ///< the name of the kernel at the head
  std::optional<int32_t> priority;
  std::optional<uint32_t> weight;
  std::optional<uint64_t> latency_bound_ns;
  std::optional<uint32_t> least_share_percent;
  std::optional<VariantChoice> variant;

  /// Whether it sets anything but the variant.
  bool SetsScheduling() const { return priority || weight || latency_bound_ns || least_share_percent; }
  /// Whether it fits the process, kernels aside.
  bool Matches(const ProcessIdentity& process) const;
  bool MatchesKernel(const std::string& name) const;
  /// What of it does not fit, a phrase each; none = it fits.
  std::vector<std::string> WhyNot(const ProcessIdentity& process, const std::string& kernel_name) const;
  /// By whom it is fitted, key and pattern, and what it sets, key and value; as in the file.
  std::vector<std::pair<std::string, std::string>> Conditions() const;
  std::vector<std::pair<std::string, std::string>> Settings() const;
};

}  // namespace cupola::sched
