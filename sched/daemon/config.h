// The configuration of `cupola serve`: a TOML file, described in docs/scheduling.md. Plain values; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sched/board/protocol.h"
#include "sched/daemon/gpu_arbiter.h"
#include "sched/daemon/rule.h"

namespace cupola::sched {

struct Config {
  std::string socket;               ///< "" = the default place
  bool mps = false;
  ClassChoice scheduling = ClassChoice::kAuto;  ///< of the deciding threads
  GpuOptions gpu;
  std::vector<std::string> users;   ///< besides the daemon's own that may join; "*" = all
  std::vector<Rule> rules;          ///< in order: of those that match, the last word counts
  /// What is no error, and not meant so: a sentence each, with its place.
  std::vector<std::string> warnings;

  bool Admits(const ProcessIdentity& process, uint32_t own_uid) const;
  /// What is told a user who is not admitted.
  static std::string RefusalOf(const ProcessIdentity& process);
  ClientSettings SettingsFor(const ProcessIdentity& process, const std::string& kernel) const;
  /// Whether SettingsFor differs by the kernel.
  bool HasKernelRules(const ProcessIdentity& process) const;
  /// Numbers, from 1, of the rules that fit.
  std::vector<size_t> FittingRules(const ProcessIdentity& process, const std::string& kernel) const;
  /// Fills the variant choices of an answer for this process.
  void FillVariants(const ProcessIdentity& process, JoinAnswer& answer) const;
};

/// Reads a configuration. Errors have file, line and column and say what was expected; the first one
/// found counts.
Result<Config> ReadConfig(const std::string& path);
/// The same for text; `name` stands for the file in errors.
Result<Config> ParseConfig(const std::string& text, const std::string& name);

}  // namespace cupola::sched
