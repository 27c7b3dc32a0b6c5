// GpuBoard: this process's place on the board of one GPU, and what it does there: it announces
// demand, asks others to yield, and is asked. One per device in use, made at the first launch in a
// context of the device and kept for good. docs/preemption.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include <cuda.h>
#include <pthread.h>

#include "intercept/preempt/demand.h"
#include "intercept/preempt/usual_time.h"
#include "intercept/process/notice.h"
#include "models/plan_file.h"
#include "sched/board/board_client.h"

namespace cupola::intercept::preempt {

class GpuBoard {
 public:
  /// The board of `device`: joins it at the first call (up to 200 ms where a daemon does not
  /// answer). Null: no arbiter, or it refused; said once. Then a thread goes on asking, ever more
  /// rarely, and what is asked here again after that has succeeded gets the board.
  static GpuBoard* Of(CUdevice device) noexcept;

  /// In the child of a fork: it has no place on any board.
  static void ForgetAllAfterFork() noexcept;
  /// At exit: gives the place back, leaving the memory mapped.
  static void LeaveAll() noexcept;

  CUdevice device() const noexcept { return device_; }
  uint32_t sm_count() const noexcept { return sm_count_; }
  bool shares_context() const noexcept { return shares_context_; }
  sched::BoardView board() const noexcept { return board_; }
  sched::BoardSlot& slot() const noexcept { return *slot_; }
  uint32_t index() const noexcept { return index_; }
  uint64_t requests() const noexcept { return has_left() ? 0 : slot_->yield_requests.load(); }
  /// The place was given back at exit, or lost: it may belong to another process.
  bool has_left() const noexcept { return left_.load(std::memory_order_relaxed); }
  /// After that, for the agent: nobody holds what still runs, arbiter or not.
  void DropRequestsAfterLeaving() noexcept;
  /// A time of this process's clock on the board's.
  uint64_t OnBoard(uint64_t now_ns) const noexcept { return client_.OnBoard(now_ns); }
  /// SMs that those who ask want; kAllSms = the whole GPU. Means something while somebody asks.
  uint32_t sm_bound() const noexcept {
    const uint32_t bound = slot_->yield_sm_bound.load();
    return bound < sm_count_ ? bound : runtime::kAllSms;
  }

  /// Whether requests may be for some SMs, as the policy stands.
  bool may_share_sms() const noexcept {
    return shares_context_ && board_.header().spatial.load(std::memory_order_relaxed) != 0;
  }

  /// What was measured of the kernels of this GPU; null = nothing.
  const models::PlanView* plan() const noexcept { return plan_ ? &plan_->view() : nullptr; }

  /// Whether others of the board may ever ask this process to yield; looked up when the daemon has
  /// decided anew, and every 100 ms.
  bool may_be_asked() const noexcept { return who_may_ask() != sched::HeldFor::kNobody; }
  /// The same: who they would be.
  sched::HeldFor who_may_ask() const noexcept {
    if (decisions_.load(std::memory_order_relaxed) != board_.header().decisions.load()) [[unlikely]] {
      LookWhoMayAsk();
    }
    return who_may_ask_.load(std::memory_order_relaxed);
  }
  /// What the board says that this process can do when it is asked: it is told when that changes.
  void SetAbility(sched::SlotCapability ability, bool has_it) noexcept;
  bool can_preempt() const noexcept { return Has(sched::kCanPreempt); }
  bool can_gate() const noexcept { return Has(sched::kCanGate); }
  /// Launches of this process go past everything from now on: it can do nothing, for good.
  void LoseControl(const char* why) noexcept;
  /// For all boards, also those that are yet to be joined: it can do nothing.
  static void TakeAbilitiesAway() noexcept;

  /// From here on nobody may ask this process to yield (sched::BeginNotNow). False: somebody has. In
  /// either case EndNotNow is to be called. Nothing, and true, where the place was given back.
  bool BeginNotNow() noexcept;
  void EndNotNow() noexcept;

  /// Whether this process may ask others.
  bool may_ask() const noexcept {
    return !slot_->may_take.IsEmpty();
  }

  /// What the configuration wants for a kernel. Not for the launch path.
  sched::VariantChoice VariantFor(const char* kernel) const noexcept;

  /// A new mapping of the board's memory: one for each context to register with CUDA. Null on
  /// failure.
  void* MapAgain() const noexcept;

  /// Puts the name of the kernel that was launched last on the board, for `cupola top` and the
  /// rules of the configuration that name kernels. Nothing where it stands there, or has no name
  /// that is known. True: a rule may want to know. Two look-ups where nothing is new; any thread.
  bool PublishKernel() noexcept;
  /// Whether rules give this process other settings by the kernel.
  bool has_kernel_rules() const noexcept {
    return slot_->has_kernel_rules.load(std::memory_order_relaxed) != 0;
  }

  /// A launch: what stopping it costs is published, `planned_ns` where the plan knows its kernel
  /// (0: not), else as was measured here.
  void NoteLaunch(uint64_t planned_ns) noexcept;
  uint64_t overhead_ns() const noexcept { return overhead_ns_.load(std::memory_order_relaxed); }
  /// For the agent: a launch took so long to stop; a resume took so long to be launched.
  void NoteStop(uint64_t ns) noexcept;
  void NoteResume(uint64_t ns) noexcept;

  /// Looks after the daemon and drops what the dead left. For the agent, every 100 ms or so.
  void Poll(uint64_t now_ns) noexcept;

  /// Wakes the agent for this process's own ends: nobody has asked, or let go.
  void WakeAgent() noexcept {
    own_wakes.fetch_add(1);
    sched::WakeAgent(*slot_);
  }

  /// Sleeps until nobody asks this process to yield any more, at most `timeout_ns`; may return early.
  void WaitWhileHeld(uint64_t timeout_ns) noexcept;
  /// For the agent: nobody asks any more.
  void WakeHeldThreads() noexcept;

  /// The same without the system call, which the caller makes later (sched::WakeSleepers).
  void TellAgent() noexcept {
    own_wakes.fetch_add(1);
    sched::TellAgent(*slot_);
  }

  DemandState demand;
  /// Held while the agent's thread works on contexts of the board, over driver calls, never while
  /// it sleeps. A board's own: a call may wait for what only another board's agent lets go on.
  pthread_mutex_t agent_mutex = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<uint32_t> own_wakes{0};
  std::atomic<bool> agent_started{false}, has_agent{false};
  bool joined_late = false;        ///< the program has launched before, without a word to the board
  bool begins_with_gates = false;  ///< gates are put from the first launch on; for the agent

 private:
  enum class Joined : uint8_t { kYes, kNotYet, kNever };
  Joined Join() noexcept;
  void NoteJoined() noexcept;
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

  CUdevice device_ = -1;
  uint32_t sm_count_ = 0;
  bool shares_context_ = false;
  Level level_ = Level::kWarn;  ///< at which it was said that there is no place
  sched::BoardView board_;
  sched::BoardSlot* slot_ = nullptr;
  uint32_t index_ = 0;
  mutable std::atomic<sched::HeldFor> who_may_ask_{sched::HeldFor::kAnyone};
  mutable std::atomic<uint32_t> decisions_{0};  ///< BoardHeader::decisions that it rests on
  std::atomic<bool> left_{false}, has_lost_control_{false};
  std::optional<models::PlanFile> plan_;
  std::atomic<const char*> kernel_{nullptr};  ///< whose name is on the board
  std::atomic_flag publishes_kernel_;
  std::atomic<uint64_t> planned_ns_{0}, overhead_ns_{0};
  UsualTime stop_, resume_;  ///< the agent measures them
  std::atomic<uint32_t> let_go_{0};  ///< futex of WaitWhileHeld: +1 when nobody asks any more
  sched::BoardClient client_;  // not joined where the board is a file; large
};

}  // namespace cupola::intercept::preempt
