// DecidingClass: the scheduling class of the daemon's deciding threads, those that sleep on a board's bell and review
// the board. They work for some tens of microseconds each time, and all clients of the board wait for that: on a
// machine whose processors are busy, an ordinary thread waits some milliseconds for its turn. So the threads take a
// real-time priority where the system allows that; else the lowest nice value and short time slices as far as these are
// allowed; else they stay as they were started. docs/daemon.md ("The daemon's own priority") says how to allow it.
//
// A thread at a real-time priority that never rests would take its processor from everybody. Four guards prevent that:
// - The threads take half a processor at most, all together, their sleeps and wake-ups included (real_time_budget.h).
// - Where one has run for kLongestRunUs without a sleep, all lose the class until the configuration is read again, also
//   a real-time priority with which the whole daemon was started. The kernel counts that time (RLIMIT_RTTIME,
//   setrlimit(2)) and sends SIGXCPU, whose handler gives the class up.
// - Were that to fail, the kernel kills the daemon at kMostRunUs, which frees all clients.
// - The processes that the daemon starts are not at a real-time priority (SCHED_RESET_ON_FORK).
//
// The Server owns the one object. Any thread may use it, but a Thread belongs to its own thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "sched/daemon/pi_mutex.h"
#include "sched/daemon/real_time_budget.h"

namespace cupola::sched {

/// The class that the configuration wants (server.scheduling).
enum class ClassChoice : uint32_t {
  kAuto,      ///< a real-time priority, else as kNice
  kNice,      ///< a low nice value and short time slices
  kOrdinary,  ///< as the daemon was started
};

inline constexpr ClassChoice kClassChoices[] = {ClassChoice::kAuto, ClassChoice::kNice, ClassChoice::kOrdinary};

/// The class that the deciding threads have.
struct ClassStatus {
  std::string name = "ordinary";  ///< "real-time", "nice", "ordinary"
  std::string policy;             ///< the name in sched(7): "SCHED_FIFO", "SCHED_OTHER", ...
  int priority = 0;               ///< 1 to 99 at a real-time policy, else 0
  int nice = 0;
  uint64_t slice_us = 0;          ///< the time slice that the thread asks for; 0 = the system's
  std::string why;                ///< why it is not the class that was wanted; "" = it is

  bool operator==(const ClassStatus&) const = default;
};

class DecidingClass {
 public:
  /// A deciding thread that runs for kLongestRunUs without a sleep loses the class; should that fail, the daemon is
  /// killed at kMostRunUs.
  static constexpr uint64_t kLongestRunUs = 200'000;
  static constexpr uint64_t kMostRunUs = 2'000'000;

  explicit DecidingClass(ClassChoice choice = ClassChoice::kAuto);
  DecidingClass(const DecidingClass&) = delete;
  DecidingClass& operator=(const DecidingClass&) = delete;

  /// Changes the wanted class, and takes back a class that a guard has given up. Each thread changes when it next
  /// begins to work.
  void Choose(ClassChoice choice);
  ClassChoice choice() const { return choice_.load(); }
  /// "auto", "nice", "ordinary".
  static const char* NameOf(ClassChoice choice);

  /// The class that a deciding thread would have now. A short-lived thread tries it out.
  ClassStatus Probe();
  /// One sentence on a status, for the log.
  static std::string Describe(const ClassStatus& status);

  /// How often a guard has taken the class from the threads of this process.
  static uint64_t Stops();
  uint64_t rests() const { return rests_.load(std::memory_order_relaxed); }
  /// Whether the threads have lost the class since the last Choose.
  bool was_stopped() const;

  /// One deciding thread. It is made, used and destroyed on that thread.
  class Thread {
   public:
    explicit Thread(DecidingClass& shared);
    ~Thread();
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;

    /// The thread begins to work: it takes the class that is wanted now, or stays an ordinary one where the threads have
    /// lost the class since the last Choose.
    void Begin();
    /// The thread is about to sleep. Charges the budget with the processor time that the thread took since the last
    /// End, that of its sleeps and wake-ups too, at the time `now_ns`. Returns how long the thread is to rest before it
    /// sleeps, in ns; 0 = not at all.
    uint64_t End(uint64_t now_ns);
    const ClassStatus& status() const { return status_; }

   private:
    DecidingClass& shared_;
    ClassStatus status_;
    uint32_t known_choices_ = 0;
    uint64_t known_stops_ = 0;
    uint64_t charged_ns_;  ///< the processor time of the thread that the budget has been charged with
    int entry_ = -1;  ///< its entry in the table of the signal handler; -1 = none
  };

 private:
  friend class Thread;

  std::atomic<ClassChoice> choice_;
  std::atomic<uint32_t> choices_{1};       ///< +1 at each Choose
  std::atomic<uint64_t> stops_before_{0};  ///< Stops() at the last Choose
  RealTimeBudget budget_;
  std::atomic<uint64_t> rests_{0};
};

}  // namespace cupola::sched
