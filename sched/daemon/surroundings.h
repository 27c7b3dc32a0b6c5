// Surroundings: what the daemon learns from the system beside its sockets: the time, and which processes there are.
// `cupola serve` uses those of the system. A test uses others, in which time and processes are simulated, and drives
// the daemon itself (Server::Join, Server::Review, Server::KeepHouse). The object outlives the daemon; any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace cupola::sched {

class Surroundings {
 public:
  virtual ~Surroundings() = default;

  /// The time in ns on the board's clock.
  virtual uint64_t NowNs() const;
  /// When the process was started, as ProcessStart of process_facts.h gives it.
  virtual std::optional<uint64_t> StartOf(uint32_t pid) const;
  /// Whether the process of this pid and start time has ended. One that cannot be looked at counts as alive.
  virtual bool HasEnded(uint32_t pid, uint64_t start) const;
  /// The user whose rights the process has. Nothing: there is no such process.
  virtual std::optional<uint32_t> UserOf(uint32_t pid) const;
  /// A file descriptor that is readable once the process has ended (pidfd_open(2)); the caller closes it. -1: there is
  /// none, and the daemon asks HasEnded.
  virtual int OpenExit(uint32_t pid) const;
  /// Whether each board has a thread that reviews whenever its bell rings. False: whoever drives the daemon calls
  /// Review.
  virtual bool HasThreads() const { return true; }

  static const Surroundings& OfSystem();
};

}  // namespace cupola::sched
