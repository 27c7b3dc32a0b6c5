// LaunchSlots: the host's side of the control slots of one context
// (device/runtime/preempt_control.h): which launch has which slot, which physical launches of it
// are under way, when it is complete and when its slot may serve another. No CUDA call, no clock:
// it reads what the device wrote. The owner holds a mutex around every call but IsDone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "device/runtime/preempt_control.h"

namespace cupola::intercept {
struct Variant;
}

namespace cupola::intercept::preempt {

/// Slots of a context. Each has a list of returned ranges of its own, so that a late worker of a
/// launch that is complete never finds the ranges of another.
inline constexpr uint32_t kSlots = 256;
inline constexpr uint32_t kNoPhysical = runtime::kPhysicalLaunches;
inline constexpr uint32_t kNoHelper = 0xFF;

/// Whether a physical launch is asked to leave where others want its SMs: all but the one in the last place.
constexpr bool IsAskedToLeave(uint32_t physical) { return physical < runtime::kAskedPhysicalLaunches; }

/// One launch that was made preemptible, from the call until its last worker has left.
struct LaunchSlot {
  enum class State : uint8_t { kFree, kRunning, kComplete };

  State state = State::kFree;
  bool may_have_stopped = false;  ///< somebody asked to yield since it was launched
  bool stopped = false;           ///< no physical launch is under way and blocks are left
  bool is_gated = false;          ///< there is a gate before its last physical launch, which has not
                                  ///< come through while HostStatus::passed is not `passage`
  bool is_gated_resume = false;   ///< and that is a resume
  uint8_t live = 0;               ///< bit p: physical launch p is under way
  uint16_t tag[runtime::kPhysicalLaunches] = {};
  uint16_t last_tag = 0;
  uint8_t helper[runtime::kPhysicalLaunches] = {};  ///< the stream for resumes that it is on, or
                                                    ///< kNoHelper: the program's
  uint32_t workers[runtime::kPhysicalLaunches] = {};
  uint32_t yielded_at[runtime::kPhysicalLaunches] = {};  ///< HostStatus::yielded when it was made
  uint32_t sequence = 0;
  uint32_t passage = 0;           ///< gates that were put before its physical launches, ever
  uint32_t base_next = 0, base_completed = 0;
  uint32_t last_next = 0;         ///< highest `next` that an ended physical launch left
  uint32_t total_blocks = 0;
  uint32_t all_workers = 0;       ///< that fill the GPU
  uint32_t full_workers = 0;      ///< of the physical launch that was made with none under way
  uint32_t yielded_base = 0;      ///< HostStatus::yielded, of which `workers` no longer know
  uint32_t away_seen = 0;         ///< workers away at the agent's last look
  bool wants_another = false;     ///< a physical launch beside one that is to stop (wait_net.h)
  bool gave_sms = false;          ///< some workers left, and no physical launch was made since
  uint32_t looked_at_bound = 0;   ///< its workers began when those below this SM were to leave
  uint64_t number = 0;            ///< of the launch in its context, from 1
  uint64_t begun_ns = 0, stopped_ns = 0;
  bool was_alone = false;         ///< no other launch of the context was outstanding when it began
  // What a resume needs; filled by the launch path.
  Variant* variant = nullptr;
  void* function = nullptr;       ///< CUfunction of the variant in this context
  uint64_t stream = 0;            ///< id of the program's stream
  bool blocks_legacy = false;     ///< the stream synchronises with the legacy stream
  uint32_t grid[3] = {}, block[3] = {};
  uint32_t shared_bytes = 0, flags = 0;
  runtime::ClaimShape claims;
  int32_t priority = 0;
  bool has_priority = false;
  uint32_t carveout = 0;          ///< percent of shared memory, 0 = the driver's choice
  uint32_t launch_offset = 0;     ///< of PreemptParams in the arguments
};

class LaunchSlots {
 public:
  /// `status` has kSlots lines of memory that the device writes to, always the same: a thread may
  /// still look at a launch of a context that has ended, and finds it complete. Counters of launches
  /// and gates go on; the device's side begins with zeroes.
  void Begin(runtime::HostStatus* status) noexcept;

  /// A free slot for a launch of `total_blocks`, in state kRunning with no physical launch; null
  /// when all are in use.
  LaunchSlot* Take(uint32_t total_blocks) noexcept;

  /// A physical launch of `workers` blocks is about to be made, on the stream for resumes `helper` or
  /// the program's; its index, or kNoPhysical when kAskedPhysicalLaunches are under way. Where one is wanted
  /// beside those (`wants_another`) it gets the last place, and is not asked to leave.
  uint32_t BeginPhysical(LaunchSlot* slot, uint32_t workers, uint32_t helper = kNoHelper) noexcept;

  /// The first stream for resumes that no physical launch of it is on.
  static uint32_t FreeHelper(const LaunchSlot& slot) noexcept;

  /// The driver refused it: it never was.
  void CancelPhysical(LaunchSlot* slot, uint32_t physical) noexcept;

  /// There is a gate before the physical launch that was begun last; what its stream tells when it has
  /// come through.
  uint32_t NoteGate(LaunchSlot* slot, bool is_resume) noexcept;

  /// Resumes that came through their gates since the last call, as far as Harvest has seen.
  uint32_t TakeResumes() noexcept { return std::exchange(resumes_, 0); }

  /// The driver refused the first physical launch: the slot is free again.
  void Cancel(LaunchSlot* slot) noexcept;

  /// Looks at what the device said. Returns how many launches became complete; `on_complete` is
  /// called for each.
  template <typename OnComplete>
  uint32_t Harvest(OnComplete&& on_complete) noexcept;

  /// Somebody asked to yield: every running launch may stop.
  void MarkMayHaveStopped() noexcept;

  /// Workers that a resume of the launch is to have, now that nobody asks to yield: all, where
  /// every physical launch has ended with blocks left; those that have left, where some SMs were
  /// given up; 0 where it needs none. The last place of those that are asked is kept for at least an
  /// eighth of the workers.
  uint32_t WorkersToResume(const LaunchSlot& slot) const noexcept;

  /// Workers of a running launch that left before its last block was claimed, about: too many
  /// where one of its physical launches ended partly for one reason, partly for another.
  uint32_t WorkersAway(const LaunchSlot& slot) const noexcept;

  /// Whether a launch that is asked to leave the SMs below `bound` of `sms` has, about: as many
  /// workers left as are there when they are spread evenly, less an eighth, or they looked as they
  /// began.
  bool HasYielded(const LaunchSlot& slot, uint32_t bound, uint32_t sms) const noexcept;

  /// Number of the latest launch; launches that are running, and in use at all.
  uint64_t last_number() const noexcept { return last_number_; }
  uint32_t running() const noexcept { return running_; }
  uint32_t in_use() const noexcept { return used_count_; }
  /// In order of launch.
  LaunchSlot& used(uint32_t position) noexcept { return slots_[used_[position]]; }
  uint32_t IndexOf(const LaunchSlot* slot) const noexcept {
    return static_cast<uint32_t>(slot - slots_);
  }

  /// Whether the device has said that launch `sequence` of slot `index` is complete. No mutex.
  bool IsDone(uint32_t index, uint32_t sequence) const noexcept {
    const uint32_t done = __atomic_load_n(&status_[index].done, __ATOMIC_ACQUIRE);
    return static_cast<int32_t>(done - sequence) >= 0;
  }

 private:
  void Look(LaunchSlot* slot) noexcept;
  bool HasPassed(const LaunchSlot& slot) const noexcept;
  uint32_t Yielded(const LaunchSlot& slot) const noexcept;
  void Free(LaunchSlot* slot) noexcept;

  const runtime::HostStatus* status_ = nullptr;
  LaunchSlot slots_[kSlots];
  uint16_t free_[kSlots];  // a ring: the slot that has been free longest is taken
  uint32_t free_head_ = 0, free_count_ = 0;
  uint16_t used_[kSlots];
  uint32_t used_count_ = 0;
  uint32_t running_ = 0;
  uint32_t resumes_ = 0;  // see TakeResumes
  uint64_t last_number_ = 0;
};

template <typename OnComplete>
uint32_t LaunchSlots::Harvest(OnComplete&& on_complete) noexcept {
  uint32_t complete = 0, kept = 0;
  for (uint32_t i = 0; i < used_count_; ++i) {
    LaunchSlot* const slot = &slots_[used_[i]];
    const bool was_running = slot->state == LaunchSlot::State::kRunning;
    Look(slot);
    if (was_running && slot->state == LaunchSlot::State::kComplete) {
      ++complete;
      --running_;
      on_complete(*slot);
    }
    if (slot->state == LaunchSlot::State::kComplete && slot->live == 0) {
      Free(slot);
    } else {
      used_[kept++] = used_[i];
    }
  }
  used_count_ = kept;
  return complete;
}

}  // namespace cupola::intercept::preempt
