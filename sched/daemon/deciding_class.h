// DecidingClass: the scheduling class of the daemon's deciding threads, those that sleep on a board's bell and review
// it. They work for some tens of microseconds each time, and all clients of the board wait for that: on a machine whose
// processors are busy an ordinary thread waits some milliseconds for its turn. So they take a real-time priority where
// the system allows that, else the lowest nice value and short time slices as far as these are allowed, else they stay
// as they were started. docs/scheduling.md ("The daemon's own priority") says how to allow it.
//
// Guards, for a thread at a real-time priority that never rests would take its processor from everybody:
//   - the threads take half a processor at most, all together (real_time_budget.h);
//   - where one has run for kLongestRunUs without a sleep all lose the class, until the configuration is read again:
//     the kernel counts that (RLIMIT_RTTIME, setrlimit(2)) and sends SIGXCPU, whose handler gives the class up;
//   - were that to fail the kernel kills the daemon at kMostRunUs, which frees all clients;
//   - what the daemon starts is not at a real-time priority (SCHED_RESET_ON_FORK).
// The Server owns the one object. Any thread, but for Thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "sched/daemon/pi_mutex.h"
#include "sched/daemon/real_time_budget.h"

namespace cupola::sched {

/// What the configuration wants (server.scheduling).
enum class ClassChoice : uint32_t {
  kAuto,      ///< real time, else as kNice
  kNice,      ///< a low nice value and short time slices
  kOrdinary,  ///< as the daemon was started
};

inline constexpr ClassChoice kClassChoices[] = {ClassChoice::kAuto, ClassChoice::kNice, ClassChoice::kOrdinary};

/// What the deciding threads have.
struct ClassStatus {
  std::string name = "ordinary";  ///< "real-time", "nice", "ordinary"
  std::string policy;             ///< of sched(7): "SCHED_FIFO", "SCHED_OTHER", ...
  int priority = 0;               ///< 1 to 99 at a real-time policy, else 0
  int nice = 0;
  uint64_t slice_us = 0;          ///< of time, that the thread asks for; 0 = the system's
  std::string why;                ///< it is not the class that was wanted; "" = it is

  bool operator==(const ClassStatus&) const = default;
};

class DecidingClass {
 public:
  /// A deciding thread may run for so long without a sleep; then it loses the class, or else the daemon is killed.
  static constexpr uint64_t kLongestRunUs = 200'000, kMostRunUs = 2'000'000;

  explicit DecidingClass(ClassChoice choice = ClassChoice::kAuto);
  DecidingClass(const DecidingClass&) = delete;
  DecidingClass& operator=(const DecidingClass&) = delete;

  /// From now on another one; also takes back a class that a guard has given up. The threads change when they begin
  /// their next work.
  void Choose(ClassChoice choice);
  ClassChoice choice() const { return choice_.load(); }
  /// "auto", "nice", "ordinary".
  static const char* NameOf(ClassChoice choice);

  /// What a deciding thread would have now, by a short-lived thread that tries.
  ClassStatus Probe();
  /// One sentence on that, for the log.
  static std::string Describe(const ClassStatus& status);

  /// How often a guard has taken the class from the threads, and how often threads had to rest for the budget.
  static uint64_t Stops();
  uint64_t rests() const { return rests_.load(std::memory_order_relaxed); }
  /// Whether they have lost the class since Choose.
  bool was_stopped() const;

  /// A deciding thread. Made, used and destroyed on it.
  class Thread {
   public:
    explicit Thread(DecidingClass& shared);
    ~Thread();
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;

    /// It begins to work on something: takes the class that is wanted now. `has_slept`: the kernel made it wait since
    /// End; else the time since then counts as work.
    void Begin(uint64_t now_ns, bool has_slept);
    /// It is about to sleep. Returns for how long it is to do nothing before that, in ns; 0 = not at all.
    uint64_t End(uint64_t now_ns);
    const ClassStatus& status() const { return status_; }

   private:
    DecidingClass& shared_;
    ClassStatus status_;
    uint32_t known_choices_ = 0;
    uint64_t known_stops_ = 0;
    uint64_t awake_since_ns_ = 0;  ///< what was before that has been paid for
    int entry_ = -1;  ///< in the handler's table
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
