// Config: the configuration of `cupola serve`, a TOML file that docs/configuration.md describes. Plain values; the Server
// owns the one in force. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sched/board/protocol.h"
#include "sched/daemon/gpu_arbiter.h"
#include "sched/daemon/rule.h"

namespace cupola::sched {

/// A key that the file gives a value, as `cupola settings` shows it.
struct GivenKey {
  std::string_view name;  ///< as in base/settings/table.h: policy.quantum_us
  std::string value;      ///< as it is in the file, texts without quotes
  uint32_t line = 0;
};

struct Config {
  std::string socket;               ///< path of the socket; "" = the default place
  bool mps = false;
  ClassChoice scheduling = ClassChoice::kAuto;  ///< wanted class of the deciding threads
  GpuOptions gpu;
  std::vector<std::string> users;   ///< users besides the daemon's own that may join; "*" = all
  std::vector<Rule> rules;          ///< in the order of the file; of those that match, the last one counts
  /// Entries that are no errors and yet hardly meant so: a sentence each, with its place in the file.
  std::vector<std::string> warnings;
  std::vector<GivenKey> given;      ///< the keys in the file, in the order in which they were read

  bool Admits(const ProcessIdentity& process, uint32_t own_uid) const;
  /// What a user who is not admitted is told.
  static std::string RefusalOf(const ProcessIdentity& process);
  ClientSettings SettingsFor(const ProcessIdentity& process, const std::string& kernel) const;
  /// Whether SettingsFor depends on the kernel.
  bool HasKernelRules(const ProcessIdentity& process) const;
  /// Numbers, counted from 1, of the rules that match.
  std::vector<size_t> FittingRules(const ProcessIdentity& process, const std::string& kernel) const;
  /// Fills in the variant choices of an answer to this process.
  void FillVariants(const ProcessIdentity& process, JoinAnswer& answer) const;
};

/// Reads a configuration. The error is the first one found: it names file, line and column and says what was expected.
Result<Config> ReadConfig(const std::string& path);
/// The same for a text; `name` stands for the file in errors.
Result<Config> ParseConfig(const std::string& text, const std::string& name);

}  // namespace cupola::sched
