// ToldSettings: the settings that `cupola ctl set` and `cupola ctl pause` have given processes. They hold until the
// process ends. A process is known by its pid and start time, so its settings stay when it becomes another program
// (execve(2)), joins on another GPU, or leaves and joins again. The Server owns the one object. One lock; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "sched/arbiter.h"
#include "sched/daemon/pi_mutex.h"
#include "sched/daemon/surroundings.h"

namespace cupola::sched {

struct ProcessIdentity;

/// Fields that are not set leave what the rules say.
struct ToldSetting {
  std::optional<int32_t> priority;
  std::optional<uint32_t> weight;
  std::optional<uint64_t> latency_bound_ns;
  std::optional<uint32_t> least_share_percent;
  std::optional<bool> paused;

  ClientSettings Over(ClientSettings settings) const;
};

class ToldSettings {
 public:
  explicit ToldSettings(const Surroundings& system) : system_(system) {}

  /// `settings`, changed by what the process was told.
  ClientSettings Over(ClientSettings settings, const ProcessIdentity& process) const;

  /// Adds to what the process was told; fields that are not set stay.
  void Tell(const ProcessIdentity& process, const ToldSetting& changes);
  /// Does the same by the pid alone, for a process that was told something before and that belongs to the user `uid`
  /// (nothing: to any user). False: there is no such process.
  bool TellKnown(uint32_t pid, std::optional<uint32_t> uid, const ToldSetting& changes);

  /// Forgets the processes that have ended. Asks the system about each without holding the lock. For one thread at a
  /// time.
  void DropEnded();

 private:
  using Key = std::pair<uint32_t, uint64_t>;  // pid, start time
  struct Entry {
    uint32_t uid = 0;
    ToldSetting told;
  };

  const Surroundings& system_;
  mutable PiMutex mutex_;
  std::map<Key, Entry> entries_;
};

}  // namespace cupola::sched
