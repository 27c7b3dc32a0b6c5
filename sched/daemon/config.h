// The configuration of `cupola serve`: a TOML file, described in docs/scheduling.md. Plain values; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sched/board/protocol.h"
#include "sched/daemon/gpu_arbiter.h"

namespace cupola::sched {

/// [[rule]]: whom it matches, and what it sets. Patterns are those of fnmatch(3); "" matches all.
struct Rule {
  std::string executable;  ///< against the path, or the last word of it where there is no slash
  std::string user;
  std::string label;       ///< against the client's CUPOLA_LABEL
  std::string kernel;      ///< against the name of the kernel at the head
  std::optional<int32_t> priority;
  std::optional<uint32_t> weight;
  std::optional<uint64_t> latency_bound_ns;
  std::optional<VariantChoice> variant;

  /// Whether it matches the process, kernels aside.
  bool Matches(const ProcessIdentity& process) const;
};

struct Config {
  std::string socket;               ///< "" = the default place
  bool mps = false;
  GpuOptions gpu;
  std::vector<std::string> users;   ///< besides the daemon's own that may join; "*" = all
  std::vector<Rule> rules;          ///< in order: of those that match, the last word counts

  bool Admits(const ProcessIdentity& process, uint32_t own_uid) const;
  /// What is told a user who is not admitted.
  static std::string RefusalOf(const ProcessIdentity& process);
  ClientSettings SettingsFor(const ProcessIdentity& process, const std::string& kernel) const;
  /// Whether SettingsFor differs by the kernel.
  bool HasKernelRules(const ProcessIdentity& process) const;
  /// Fills the variant choices of an answer for this process.
  void FillVariants(const ProcessIdentity& process, JoinAnswer& answer) const;
};

/// Reads a configuration. Errors have file, line and column and say what was expected; the first one
/// found counts.
Result<Config> ReadConfig(const std::string& path);
/// The same for text; `name` stands for the file in errors.
Result<Config> ParseConfig(const std::string& text, const std::string& name);

}  // namespace cupola::sched
