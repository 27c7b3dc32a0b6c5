// GpuBoard: this process's place on the board of one GPU. Through it the process announces demand,
// asks others to yield, and is asked. There is one per device in use. GpuBoard::Of makes it at the
// first launch in a context of the device, and it is never freed. Any thread, unless a member says
// that it is for the agent. Without an arbiter there is no GpuBoard. docs/preemption.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include <cuda.h>
#include <pthread.h>

#include "intercept/launch/demand.h"
#include "intercept/launch/usual_time.h"
#include "intercept/process/notice.h"
#include "models/plan_file.h"
#include "sched/board/board_client.h"

namespace cupola::intercept {

class GpuBoard {
 public:
  /// The board of `device`. The first call joins it, which takes up to 200 ms if a daemon does not
  /// answer. Null: there is no arbiter, or it refused; this is logged once. Then a thread of ours
  /// goes on asking, at growing intervals, and once it has succeeded this function returns the
  /// board.
  static GpuBoard* Of(CUdevice device) noexcept;

  /// In the child of a fork: the child has no place on any board.
  static void ForgetAllAfterFork() noexcept;
  /// At exit: gives the board slots back and leaves the memory mapped.
  static void LeaveAll() noexcept;

  CUdevice device() const noexcept { return device_; }
  uint32_t sm_count() const noexcept { return sm_count_; }
  bool shares_context() const noexcept { return shares_context_; }
  sched::BoardView board() const noexcept { return board_; }
  sched::BoardSlot& slot() const noexcept { return *slot_; }
  uint32_t index() const noexcept { return index_; }
  uint64_t requests() const noexcept { return has_left() ? 0 : slot_->yield_requests.load(); }
  /// Whether the board slot was given back at exit, or lost: it may belong to another process.
  bool has_left() const noexcept { return left_.load(std::memory_order_relaxed); }
  /// For the agent, after has_left(): removes the requests in the slot, so that nobody holds the
  /// work that still runs, whether or not an arbiter is there.
  void DropRequestsAfterLeaving() noexcept;
  /// Converts a time of this process's clock to the board's clock, in nanoseconds.
  uint64_t OnBoard(uint64_t now_ns) const noexcept { return client_.OnBoard(now_ns); }
  /// How many SMs the requesters want; kAllSms = the whole GPU. Valid only while somebody asks.
  uint32_t sm_bound() const noexcept {
    const uint32_t bound = slot_->yield_sm_bound.load();
    return bound < sm_count_ ? bound : runtime::kAllSms;
  }

  /// Whether the current policy allows requests for only some SMs.
  bool may_share_sms() const noexcept {
    return shares_context_ && board_.header().spatial.load(std::memory_order_relaxed) != 0;
  }

  /// The plan for this GPU's kernels; null = there is none.
  const models::PlanView* plan() const noexcept { return plan_ ? &plan_->view() : nullptr; }

  /// Whether other processes on the board may ever ask this process to yield. Looked up again after
  /// each new decision of the daemon, and every 100 ms.
  bool may_be_asked() const noexcept { return who_may_ask() != sched::HeldFor::kNobody; }
  /// Which processes those are.
  sched::HeldFor who_may_ask() const noexcept {
    if (decisions_.load(std::memory_order_relaxed) != board_.header().decisions.load()) [[unlikely]] {
      LookWhoMayAsk();
    }
    return who_may_ask_.load(std::memory_order_relaxed);
  }
  /// Sets or clears one of this process's capabilities on the board: what it can do when it is asked
  /// to yield. Rings the bell if that changed, so that the daemon learns of it.
  void SetAbility(sched::SlotCapability ability, bool has_it) noexcept;
  bool can_preempt() const noexcept { return Has(sched::kCanPreempt); }
  bool can_gate() const noexcept { return Has(sched::kCanGate); }
  /// Whether a guarded launch that is made now gets a gate (GateGuarded). A launch made while the process is asked to
  /// leave the GPU would otherwise start its workers, take the GPU from whoever asked, run one block per worker and
  /// leave; without MPS that costs two changes of context. Where processes of higher priority may ask, every launch
  /// gets a gate, because it may still be queued when they ask.
  bool gates_guarded() const noexcept {
    if (!can_gate()) return false;
    const bool is_closed = requests() != 0 && sm_bound() == runtime::kAllSms && slot_->gate.load() == 0;
    return is_closed || (!shares_context_ && who_may_ask() == sched::HeldFor::kAnyone);
  }
  /// Cupola no longer sees all launches of this process: it gives up both capabilities for good, and
  /// logs `why` once.
  void LoseControl(const char* why) noexcept;
  /// The process gives up both capabilities on all boards.
  static void TakeAbilitiesAway() noexcept;

  /// From here on nobody may ask this process to yield (sched::BeginNotNow). False: somebody already
  /// has. In both cases the caller must call EndNotNow. If the slot was given back, this does
  /// nothing and returns true.
  bool BeginNotNow() noexcept;
  void EndNotNow() noexcept;

  /// Whether this process may ask others to yield.
  bool may_ask() const noexcept {
    return !slot_->may_take.IsEmpty();
  }

  /// Which form the configuration's rules want for a kernel. Too slow for the launch path.
  sched::VariantChoice VariantFor(const char* kernel) const noexcept;

  /// Maps the board's memory once more: each context registers a mapping of its own with CUDA. Null
  /// on failure.
  void* MapAgain() const noexcept;

  /// Puts the name of the kernel that was launched last on the board, for `cupola top` and for rules
  /// that name kernels. Does nothing if the name is already there or not known. True: the name
  /// changed and rules of this process depend on it, so the daemon should be rung. Costs two
  /// look-ups if nothing has changed.
  bool PublishKernel() noexcept;
  /// Whether rules give this process different settings for different kernels.
  bool has_kernel_rules() const noexcept {
    return slot_->has_kernel_rules.load(std::memory_order_relaxed) != 0;
  }

  /// At a launch: publishes what it costs to stop and resume it. That is `planned_ns` if the plan
  /// knows the kernel, and otherwise (0) what was measured in this process.
  void PublishStopCost(uint64_t planned_ns) noexcept;
  /// For the agent, when it finds the gate closed and no guarded launch under way: publishes how long it takes on average to
  /// come to the gate (0 = not known). That stands until the next guarded launch.
  void PublishTimeToGate(uint64_t ns) noexcept { PublishOverheadNs(ns); }
  uint64_t overhead_ns() const noexcept { return overhead_ns_.load(std::memory_order_relaxed); }
  /// For the agent: how long a launch took to stop, and how long a resume took to be launched.
  void RecordStopTime(uint64_t ns) noexcept;
  void RecordResumeTime(uint64_t ns) noexcept;

  /// For the agent, about every 100 ms: checks whether the daemon is alive, removes requests of
  /// processes that have died, and notices that the slot now belongs to another process.
  void Poll(uint64_t now_ns) noexcept;

  /// Wakes the agent for a reason of this process, not because a request came or went.
  void WakeAgent() noexcept {
    own_wakes.fetch_add(1);
    sched::WakeAgent(*slot_);
  }

  /// Sleeps until nobody asks this process to yield, at most `timeout_ns`. May return early.
  void WaitWhileHeld(uint64_t timeout_ns) noexcept;
  /// For the agent, when nobody asks any more: wakes the threads in WaitWhileHeld.
  void WakeHeldThreads() noexcept;

  /// WakeAgent without the system call, which the caller makes later (sched::WakeSleepers).
  void TellAgent() noexcept {
    own_wakes.fetch_add(1);
    sched::TellAgent(*slot_);
  }

  DemandState demand;
  /// The agent's thread holds it while it works on contexts of the board, also over driver calls,
  /// and never while it sleeps. Each board has its own mutex: a driver call may wait for work that
  /// only another board's agent lets go on.
  pthread_mutex_t agent_mutex = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<uint32_t> own_wakes{0};  ///< how often WakeAgent and TellAgent were called
  std::atomic<bool> agent_started{false};
  std::atomic<bool> has_agent{false};
  bool joined_late = false;        ///< the program launched before the board was joined
  bool begins_with_gates = false;  ///< gates are put from the first launch on; for the agent

 private:
  enum class Joined : uint8_t { kYes, kNotYet, kNever };
  Joined Join() noexcept;
  void OnJoined() noexcept;
  static void* GoOnAsking(void* board) noexcept;
  void Take() noexcept;
  bool Has(sched::SlotCapability ability) const noexcept {
    return (slot_->capabilities.load(std::memory_order_relaxed) & ability) != 0;
  }
  uint32_t FirstAbilities() const noexcept;
  void OpenPlan() noexcept;
  bool OpenFile(const char* path, const char* slot) noexcept;
  void LookWhoMayAsk() const noexcept;
  void PublishOverhead(uint64_t planned_ns) noexcept;
  void PublishOverheadNs(uint64_t overhead_ns) noexcept;

  CUdevice device_ = -1;
  uint32_t sm_count_ = 0;
  bool shares_context_ = false;
  Level level_ = Level::kWarn;  ///< log level of the message that there is no place on a board
  sched::BoardView board_;
  sched::BoardSlot* slot_ = nullptr;
  uint32_t index_ = 0;
  mutable std::atomic<sched::HeldFor> who_may_ask_{sched::HeldFor::kAnyone};
  mutable std::atomic<uint32_t> decisions_{0};  ///< BoardHeader::decisions that who_may_ask_ rests on
  std::atomic<bool> left_{false};               ///< see has_left
  std::atomic<bool> has_lost_control_{false};
  std::optional<models::PlanFile> plan_;
  std::atomic<const char*> kernel_{nullptr};  ///< the name that is on the board
  std::atomic_flag publishes_kernel_;         ///< set while a thread writes that name
  std::atomic<uint64_t> planned_ns_{0};       ///< stop cost of the last launch by the plan; 0 = none
  std::atomic<uint64_t> overhead_ns_{0};      ///< the stop cost that is on the board
  UsualTime stop_;    ///< time of a stop, measured by the agent
  UsualTime resume_;  ///< time until a resume is launched, measured by the agent
  std::atomic<uint32_t> let_go_{0};  ///< futex of WaitWhileHeld: +1 when nobody asks any more
  sched::BoardClient client_;  // large; not joined if the board is a file (CUPOLA_BOARD)
};

}  // namespace cupola::intercept
