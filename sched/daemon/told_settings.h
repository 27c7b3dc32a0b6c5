// ToldSettings: what `cupola ctl set` and `pause` have said of processes. It holds until the process ends, by whatever
// number and start time name it for good: also where it becomes another program (execve(2)), joins on another GPU, or
// leaves and comes again. One lock; any thread.
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

/// Unset fields are as rules have them.
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

  /// `settings` with what was said of the process.
  ClientSettings Over(ClientSettings settings, const ProcessIdentity& process) const;

  /// Adds to what was said of a process; unset fields stay.
  void Tell(const ProcessIdentity& process, const ToldSetting& changes);
  /// The same by the number alone, for a process of which something was said before, and of this user (nothing:
  /// whosever it is). False: there is none such.
  bool TellKnown(uint32_t pid, std::optional<uint32_t> uid, const ToldSetting& changes);

  /// Forgets those that have ended. Asks the system about each, without the lock. For one thread at a time.
  void DropEnded();

 private:
  using Key = std::pair<uint32_t, uint64_t>;  // number, start
  struct Entry {
    uint32_t uid = 0;
    ToldSetting told;
  };

  const Surroundings& system_;
  mutable PiMutex mutex_;
  std::map<Key, Entry> entries_;
};

}  // namespace cupola::sched
