// LaunchSlots: the host's side of the control slots of one context
// (device/runtime/preempt_control.h): which launch has which slot, which of its physical launches
// are under way, when it is complete, and when its slot may serve another. It makes no CUDA call and
// reads no clock: it reads what the device wrote. Part of LaunchContext, whose slots_mutex callers
// hold around every call except IsDone. The launch path takes slots, waiting threads and the agent
// harvest them, and the agent adds physical launches. `workers` are counted in blocks of physical
// launches. ControlSlot, HostStatus, ClaimShape, PreemptParams and PreemptFlag are of that header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "device/runtime/preempt_control.h"

namespace cupola::intercept {
struct Variant;
}

namespace cupola::intercept {

/// Slots of a context. Each slot has its own list of returned ranges, so that a late worker of a
/// complete launch never finds the ranges of another launch.
inline constexpr uint32_t kSlots = 256;
/// No physical launch, and no helper stream.
inline constexpr uint32_t kNoPhysical = runtime::kPhysicalLaunches;
inline constexpr uint32_t kNoHelper = 0xFF;

/// Whether the physical launch is asked to leave when others want its SMs: all are, except the one in the last place,
/// since the blocks of all others may wait for blocks that nobody has claimed yet.
constexpr bool IsAskedToLeave(uint32_t physical) { return physical < runtime::kAskedPhysicalLaunches; }

/// One launch that was made preemptible, from the call until its last worker has left.
struct LaunchSlot {
  enum class State : uint8_t { kFree, kRunning, kComplete };

  State state = State::kFree;
  bool may_have_stopped = false;  ///< somebody asked to yield since it was launched
  bool stopped = false;           ///< no physical launch is under way and blocks are left
  bool is_gated = false;          ///< there is a gate before its last physical launch, which the
                                  ///< stream has not passed while HostStatus::passed is not `passage`
  bool is_gated_resume = false;   ///< that physical launch is a resume
  uint8_t live = 0;               ///< bit p: physical launch p is under way
  uint16_t tag[runtime::kPhysicalLaunches] = {};  ///< PreemptParams::tag of each, by which the device
                                                  ///< tells which physical launch has ended
  uint16_t last_tag = 0;          ///< the tag that was given out last
  uint8_t helper[runtime::kPhysicalLaunches] = {};  ///< index of the helper stream of each, or
                                                    ///< kNoHelper: it is on the program's stream
  uint32_t workers[runtime::kPhysicalLaunches] = {};     ///< number of workers of each
  uint32_t yielded_at[runtime::kPhysicalLaunches] = {};  ///< HostStatus::yielded when it was made
  uint32_t sequence = 0;          ///< number of the launch in this slot, ever; HostStatus::done has it
                                  ///< once the launch is complete
  uint32_t passage = 0;           ///< gates that were put before physical launches of the slot, ever
  uint32_t base_next = 0;         ///< ControlSlot::next when the launch got the slot
  uint32_t base_completed = 0;    ///< ControlSlot::completed at that time
  uint32_t last_next = 0;         ///< highest ControlSlot::next that an ended physical launch left
  uint32_t total_blocks = 0;      ///< blocks of the program's grid
  uint32_t all_workers = 0;       ///< number of workers that fill the GPU, for this kernel and shape
  uint32_t full_workers = 0;      ///< workers of the last physical launch that was made while no
                                  ///< other was under way
  uint32_t yielded_base = 0;      ///< the part of HostStatus::yielded that does not concern the
                                  ///< `workers` of physical launches under way
  uint32_t away_seen = 0;         ///< WorkersAway at the agent's last look
  bool wants_another = false;     ///< it needs a physical launch beside one that will stop
                                  ///< (wait_net.h)
  bool gave_sms = false;          ///< some workers left, and no physical launch was made since
  uint32_t looked_at_bound = 0;   ///< when its last physical launch was made, workers on SMs below
                                  ///< this one were asked to leave; 0 = nobody asked
  uint64_t number = 0;            ///< number of the launch in its context, from 1
  uint64_t begun_ns = 0;          ///< when it was launched, on the process's clock
  uint64_t stopped_ns = 0;        ///< when the agent last found it stopped
  bool was_alone = false;         ///< no other launch of the context was outstanding when it began
  // The members below are what a resume needs. The launch path fills them.
  Variant* variant = nullptr;
  void* function = nullptr;       ///< CUfunction of the variant in this context
  uint64_t stream = 0;            ///< id of the program's stream
  bool blocks_legacy = false;     ///< the stream synchronises with the legacy stream
  uint32_t grid[3] = {};          ///< the program's grid, in blocks: x, y, z
  uint32_t block[3] = {};         ///< threads of a block: x, y, z
  uint32_t shared_bytes = 0;      ///< dynamic shared memory of a block
  uint32_t flags = 0;             ///< PreemptFlag
  runtime::ClaimShape claims;     ///< which blocks each claim stands for
  int32_t priority = 0;           ///< launch priority of its physical launches, if `has_priority`
  bool has_priority = false;      ///< the program, or Cupola, has set a priority for the launch
  uint32_t carveout = 0;          ///< percent of shared memory, 0 = the driver's choice
  uint32_t launch_offset = 0;     ///< offset of PreemptParams in the arguments, in bytes
};

class LaunchSlots {
 public:
  /// Makes all slots free for a context. `status` has kSlots lines of memory that the device writes;
  /// every context gets the same memory, because a thread may still look at a launch of a context
  /// that has ended, and must find it complete. The sequences and the numbers of gates go on; the
  /// words on the device begin at zero.
  void Begin(runtime::HostStatus* status) noexcept;

  /// Takes a free slot for a launch of `total_blocks`, in state kRunning and with no physical launch;
  /// null when all slots are in use. Gives the launch its `number` and `sequence`.
  LaunchSlot* Take(uint32_t total_blocks) noexcept;

  /// Records that a physical launch of `workers` blocks is about to be made, on the helper stream of index
  /// `helper` or on the program's stream. Returns its index, or kNoPhysical when kAskedPhysicalLaunches are
  /// under way. If the slot wants another beside those (`wants_another`), that one may get the last place,
  /// which is not asked to leave.
  uint32_t BeginPhysical(LaunchSlot* slot, uint32_t workers, uint32_t helper = kNoHelper) noexcept;

  /// The index of the first helper stream that has no physical launch of this launch.
  static uint32_t FreeHelper(const LaunchSlot& slot) noexcept;

  /// The driver refused the physical launch: it is forgotten.
  void CancelPhysical(LaunchSlot* slot, uint32_t physical) noexcept;

  /// Records a gate before the physical launch that is made next. Returns the number of the gate, which the
  /// stream writes to HostStatus::passed when it has passed it.
  uint32_t AddGate(LaunchSlot* slot, bool is_resume) noexcept;

  /// Number of resumes that passed their gates since the last call, as far as Harvest has seen.
  uint32_t TakeResumes() noexcept { return std::exchange(resumes_, 0); }

  /// The driver refused the first physical launch: the slot becomes free again.
  void Cancel(LaunchSlot* slot) noexcept;

  /// Reads what the device wrote. Calls `on_complete(LaunchSlot&)` for each launch that became complete
  /// since the last call, and returns their number. Frees the slots of complete launches that have no
  /// physical launch under way.
  template <typename OnComplete>
  uint32_t Harvest(OnComplete&& on_complete) noexcept;

  /// Somebody asked to yield: every running launch may stop.
  void MarkMayHaveStopped() noexcept;

  /// How many workers a resume of the launch needs when nobody asks to yield: all, if every physical
  /// launch has ended with blocks left; those that have left, if only some SMs were given up; 0 if it
  /// needs no resume. A resume takes the last of the places that are asked to leave only for at least
  /// an eighth of the workers.
  uint32_t WorkersToResume(const LaunchSlot& slot) const noexcept;

  /// About how many workers of a running launch left before its last block was claimed. The count is
  /// too high if one of its physical launches ended partly for SMs that were asked for and partly for
  /// the whole GPU.
  uint32_t WorkersAway(const LaunchSlot& slot) const noexcept;

  /// Whether a launch that is asked to leave the SMs below `bound` of `sms` has left them, about. It
  /// has if it is not running, if its workers saw that request as they began, or if the share of
  /// workers that those SMs hold when workers are spread evenly, less an eighth, has left.
  bool HasYielded(const LaunchSlot& slot, uint32_t bound, uint32_t sms) const noexcept;

  /// Number of the latest launch.
  uint64_t last_number() const noexcept { return last_number_; }
  /// Launches that are not complete.
  uint32_t running() const noexcept { return running_; }
  /// Slots that are not free.
  uint32_t in_use() const noexcept { return used_count_; }
  /// The used slot at that position, in order of launch.
  LaunchSlot& used(uint32_t position) noexcept { return slots_[used_[position]]; }
  uint32_t IndexOf(const LaunchSlot* slot) const noexcept {
    return static_cast<uint32_t>(slot - slots_);
  }

  /// Whether the device has said that launch `sequence` of slot `index` is complete. Needs no mutex.
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
  uint16_t free_[kSlots];     ///< ring of free slots: the one that has been free longest is taken first
  uint32_t free_head_ = 0;    ///< position of that one in the ring
  uint32_t free_count_ = 0;
  uint16_t used_[kSlots];     ///< used slots in order of launch
  uint32_t used_count_ = 0;
  uint32_t running_ = 0;      ///< used slots whose launch is not complete
  uint32_t resumes_ = 0;      ///< see TakeResumes
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

}  // namespace cupola::intercept
