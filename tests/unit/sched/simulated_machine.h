// A simulated GPU and the processes that use it, in virtual time: kernels, blocks, context switches, host code, and
// agents that do what the board asks of them by the board's own protocol. A derived class adds the daemon, what
// happens from outside, and checks. Not thread-safe.
#pragma once

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

#include "base/prng.h"
#include "sched/arbiter.h"
#include "sched/board/yield_protocol.h"

namespace cupola::sched {

constexpr uint64_t kLeaseNs = 20'000'000;     ///< lease of a demand
constexpr uint64_t kMissedNs = 500'000'000;   ///< so long after its last beat a daemon counts as dead (BoardClient)
constexpr uint64_t kPollNs = 100'000'000;     ///< an agent checks so often whether the daemon lives
constexpr uint64_t kGateQuantumNs = 500'000;  ///< length of a part of a kernel that stops only between its parts

/// What one process does: kernels one after the other, with the time that its host code takes between them.
struct ProcessPlan {
  ClientSettings settings;
  bool can_preempt = true;
  bool can_gate = false;
  bool shares_context = false;
  uint64_t start_ns = 0;
  uint64_t kernel_ns = 0;       ///< duration of each kernel when it is alone on the GPU
  double spread = 0;            ///< kernels last kernel_ns * (1 +- spread)
  uint32_t kernels = 1;
  uint64_t gap_ns = 0;          ///< host code between kernels
  bool back_to_back = false;    ///< queues its kernels: demand does not end between them
  uint64_t block_ns = 20'000;   ///< a block's duration, which is how long stopping takes at most
  uint32_t sms = kWholeGpu;     ///< that each kernel needs
  double prediction = 1;        ///< predicted / true duration; 0 = no prediction
  bool reports_overhead = true;
  uint64_t lease_ns = kLeaseNs;
};

enum class DeviceState : uint8_t {
  kNone,      ///< no kernel
  kWaiting,   ///< a kernel that is not on the GPU
  kStarting,  ///< a kernel on its way to the GPU
  kRunning,
  kDraining,  ///< a kernel that was asked to leave and finishes its blocks
};

/// A simulated process: host, agent and what the device does for it.
struct SimProcess {
  ProcessPlan plan;
  uint32_t slot = 0;
  ClientId id;
  DeviceState device = DeviceState::kNone;
  bool has_kernel = false;
  bool dead = false;
  bool reaped = false;           // the daemon knows that it is dead
  bool stopped_by_signal = false;
  bool host_pending = false;     // its kernel is complete, and its host has not seen that
  bool arrival_pending = false;  // its next launch waits for SIGCONT
  bool was_stopped = false;      // its kernel has been off the GPU: the agent must start it again
  bool was_asked = false;        // to yield, when its agent last looked
  uint32_t launched = 0;         // kernels so far
  uint64_t version = 0;          // of its device state: events of an older version are void
  uint64_t renewals = 0;         // which chain of lease renewals is the current one
  uint64_t kernel_ns = 0;        // duration of its present kernel
  uint64_t arrived_ns = 0;       // when that was launched
  double work_left = 0;          // of that, in ns
  double work_done = 0;
  double overhead_left = 0;
  uint32_t sm_bound = 0;         // the kernel leaves the SMs below it
  double gpu_ns = 0;             // GPU time that it has had
  // Used by the checkers only:
  uint64_t wait_ns = 0;          // since it last ran
  uint64_t wait_bound_ns = 0;    // the longest wait that was promised during this wait
  uint64_t longest_wait_ns = 0;
  uint64_t paused_running_ns = 0;  // time on the GPU although it is paused

  bool Wants() const { return has_kernel && !dead && !stopped_by_signal; }
  bool Stoppable() const { return plan.can_preempt || plan.can_gate; }
  bool OnGpu() const {
    return device == DeviceState::kRunning || device == DeviceState::kDraining;
  }
};

enum class EventType : uint8_t {
  kArrive,    // the process launches its next kernel
  kStart,     // its kernel gets onto the GPU
  kDrained,   // its kernel has left the GPU
  kRenew,     // its agent renews the lease
  // Handled by the derived class:
  kReview,    // the daemon reviews the board
  kReap,      // the daemon learns that the process is dead
  kMissed,    // the process checks whether the daemon lives, and finds none
  kFault,     // something happens from outside
};

struct SimEvent {
  uint64_t at_ns;
  uint64_t order;
  EventType type;
  size_t process;
  uint64_t version;  // of the process, or whatever else tells events of one type apart
  bool operator>(const SimEvent& other) const {
    return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
  }
};

class SimMachine {
 public:
  virtual ~SimMachine() = default;

 protected:
  SimMachine(uint64_t seed, uint32_t sms, uint64_t switch_ns) : random_(seed), sms_(sms), switch_ns_(switch_ns) {}

  /// Called before time advances: the state stays as it is until `to_ns`, when the next thing happens.
  virtual void OnElapse(uint64_t to_ns) = 0;
  /// Called when the kernel of the process has ended.
  virtual void OnKernelDone(size_t index) = 0;
  /// Called when a kernel has left the GPU because it was asked to.
  virtual void OnPreempted(size_t) {}
  /// Called with GPU time in ns that went into a switch, and to no process.
  virtual void OnSwitching(double) {}
  /// Called when a process has rung the daemon's bell.
  virtual void OnBell() = 0;
  /// Called before an event happens.
  virtual void OnEvent(const SimEvent&) {}
  /// Lets an event happen that is not the machine's own.
  virtual void HandleOther(const SimEvent& event) = 0;

  void Push(uint64_t at_ns, EventType type, size_t process, uint64_t version) {
    events_.push({at_ns, ++order_, type, process, version});
  }
  /// When something happens next; kNever: never again.
  uint64_t NextTime() const { return std::min(events_.empty() ? kNever : events_.top().at_ns, NextCompletion()); }
  /// Advances to NextTime and lets happen what is due: all kernels that end, and one event.
  void Step();
  void AdvanceTo(uint64_t at_ns);
  /// The capabilities that the process's board slot shows.
  static uint32_t CapabilitiesOf(const ProcessPlan& plan);
  void Launch(size_t index);
  /// The process's host code sees that its kernel is complete.
  void FinishHost(size_t index);
  /// Kills a process: what it had on the GPU is gone.
  void Kill(size_t index);
  /// Sends a process SIGCONT.
  void Continue(size_t index);
  void ReactAll();

  Prng random_;
  BoardView board_;
  std::vector<SimProcess> processes_;
  uint64_t now_ = 1'000'000;
  uint32_t bell_seen_ = 0;

 private:
  double Rate(const SimProcess& process) const;
  uint64_t NextCompletion() const;
  void CompleteKernels();
  void Handle(const SimEvent& event);
  void Arrive(size_t index);
  void Finish(const SimProcess& process);
  void React(size_t index);
  Demand DemandOf(const SimProcess& process) const;

  const uint32_t sms_;
  const uint64_t switch_ns_;
  std::priority_queue<SimEvent, std::vector<SimEvent>, std::greater<>> events_;
  uint64_t order_ = 0;
  size_t last_on_gpu_ = SIZE_MAX;
};

}  // namespace cupola::sched
