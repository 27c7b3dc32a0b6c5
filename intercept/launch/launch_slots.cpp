#include "intercept/launch/launch_slots.h"

#include <bit>

namespace cupola::intercept {

// The status lines say that all launches so far are complete before the slots are reset: IsDone takes
// no mutex.
void LaunchSlots::Begin(runtime::HostStatus* status) noexcept {
  for (uint32_t i = 0; i < kSlots; ++i) {
    const uint32_t sequence = slots_[i].sequence, passage = slots_[i].passage;
    __atomic_store_n(&status[i].done, sequence, __ATOMIC_RELEASE);
    __atomic_store_n(&status[i].passed, passage, __ATOMIC_RELAXED);
    __atomic_store_n(&status[i].yielded, 0, __ATOMIC_RELAXED);
    for (uint32_t p = 0; p < runtime::kPhysicalLaunches; ++p) {
      __atomic_store_n(&status[i].ended[p], 0, __ATOMIC_RELAXED);
      __atomic_store_n(&status[i].next_final[p], 0, __ATOMIC_RELAXED);
    }
    slots_[i] = LaunchSlot{};
    slots_[i].sequence = sequence;
    slots_[i].passage = passage;
    free_[i] = static_cast<uint16_t>(i);
  }
  status_ = status;
  free_head_ = 0;
  free_count_ = kSlots;
  used_count_ = running_ = 0;
}

LaunchSlot* LaunchSlots::Take(uint32_t total_blocks) noexcept {
  if (free_count_ == 0) return nullptr;
  const uint16_t index = free_[free_head_];
  free_head_ = (free_head_ + 1) % kSlots;
  --free_count_;
  used_[used_count_++] = index;
  ++running_;
  LaunchSlot* const slot = &slots_[index];
  slot->state = LaunchSlot::State::kRunning;
  slot->may_have_stopped = slot->stopped = slot->is_gated = slot->wants_another = false;
  slot->live = 0;
  slot->looked_at_bound = 0;
  slot->total_blocks = total_blocks;
  slot->number = ++last_number_;
  slot->last_next = slot->base_next;
  ++slot->sequence;
  return slot;
}

uint32_t LaunchSlots::BeginPhysical(LaunchSlot* slot, uint32_t workers,
                                    uint32_t helper) noexcept {
  const uint32_t places = slot->wants_another ? runtime::kPhysicalLaunches : runtime::kAskedPhysicalLaunches;
  for (uint32_t p = 0; p < places; ++p) {
    if ((slot->live & 1u << p) != 0) continue;
    // Tags are 1 to 0xFFFF: a slot uses the same tag again only 65,535 physical launches later.
    slot->last_tag = slot->last_tag == 0xFFFF ? 1 : static_cast<uint16_t>(slot->last_tag + 1);
    slot->tag[p] = slot->last_tag;
    slot->workers[p] = workers;
    slot->helper[p] = static_cast<uint8_t>(helper);
    slot->yielded_at[p] = Yielded(*slot);
    if (slot->live == 0) {
      slot->full_workers = workers;
      slot->yielded_base = slot->yielded_at[p];
    }
    slot->live = static_cast<uint8_t>(slot->live | 1u << p);
    slot->wants_another = false;
    slot->away_seen = 0;
    slot->stopped = slot->gave_sms = false;
    return p;
  }
  return kNoPhysical;
}

uint32_t LaunchSlots::FreeHelper(const LaunchSlot& slot) noexcept {
  uint32_t taken = 0;
  for (uint32_t p = 0; p < runtime::kPhysicalLaunches; ++p) {
    if ((slot.live & 1u << p) != 0 && slot.helper[p] != kNoHelper) taken |= 1u << slot.helper[p];
  }
  return static_cast<uint32_t>(std::countr_one(taken));
}

void LaunchSlots::CancelPhysical(LaunchSlot* slot, uint32_t physical) noexcept {
  slot->live = static_cast<uint8_t>(slot->live & ~(1u << physical));
  slot->is_gated = false;
}

uint32_t LaunchSlots::AddGate(LaunchSlot* slot, bool is_resume) noexcept {
  slot->is_gated = true;
  slot->is_gated_resume = is_resume;
  return ++slot->passage;
}

void LaunchSlots::Cancel(LaunchSlot* slot) noexcept {
  // No worker has seen this sequence, and nothing was claimed.
  --slot->sequence;
  slot->live = 0;
  slot->total_blocks = 0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < used_count_; ++i) {
    if (&slots_[used_[i]] != slot) used_[kept++] = used_[i];
  }
  used_count_ = kept;
  --running_;
  Free(slot);
}

// Takes in what the device wrote about one slot. A physical launch's `next_final` is stored before
// its `ended`, which is read with acquire. The last one to end has left the highest `next`, counted
// from base_next modulo 2^32.
void LaunchSlots::Look(LaunchSlot* slot) noexcept {
  const uint32_t index = IndexOf(slot);
  const runtime::HostStatus& said = status_[index];
  if (slot->is_gated && HasPassed(*slot)) {  // plant: gate_taken_for_passed
    slot->is_gated = false;
    resumes_ += slot->is_gated_resume;
  }
  for (uint32_t p = 0; p < runtime::kPhysicalLaunches; ++p) {
    if ((slot->live & 1u << p) == 0) continue;
    if (__atomic_load_n(&said.ended[p], __ATOMIC_ACQUIRE) != slot->tag[p]) continue;  // plant: given_anew
    const uint32_t next = __atomic_load_n(&said.next_final[p], __ATOMIC_RELAXED);
    if (next - slot->base_next > slot->last_next - slot->base_next) slot->last_next = next;
    // If at least as many workers have yielded since this physical launch was made as it had, they
    // count as its own. Otherwise it ended because the whole GPU was asked for; workers that it had
    // yielded before then count twice, which gives a resume too many workers rather than too few.
    const auto yielded = static_cast<int32_t>(Yielded(*slot) - slot->yielded_at[p]);
    if (yielded >= static_cast<int64_t>(slot->workers[p])) {
      slot->yielded_base += slot->workers[p];
    }
    slot->live = static_cast<uint8_t>(slot->live & ~(1u << p));
  }
  // `done` is read after `ended`, so that a launch without physical launches is either complete or
  // needs another one.
  if (slot->state == LaunchSlot::State::kRunning && IsDone(index, slot->sequence)) {
    slot->state = LaunchSlot::State::kComplete;
    slot->stopped = false;
  }
}

void LaunchSlots::Free(LaunchSlot* slot) noexcept {
  slot->base_next = slot->last_next;
  slot->base_completed += slot->total_blocks;
  slot->state = LaunchSlot::State::kFree;
  slot->variant = nullptr;
  free_[(free_head_ + free_count_) % kSlots] = static_cast<uint16_t>(IndexOf(slot));
  ++free_count_;
}

void LaunchSlots::MarkMayHaveStopped() noexcept {
  for (uint32_t i = 0; i < used_count_; ++i) slots_[used_[i]].may_have_stopped = true;
}

uint32_t LaunchSlots::WorkersToResume(const LaunchSlot& slot) const noexcept {
  if (slot.state != LaunchSlot::State::kRunning) return 0;
  if (slot.live == 0 || slot.wants_another) return slot.all_workers;
  // All blocks are claimed: the physical launches under way finish them, or stop, and the launch is
  // then resumed with all workers.
  if (slot.last_next - slot.base_next >= slot.total_blocks) return 0;
  const uint32_t away = WorkersAway(slot);
  const int under_way = __builtin_popcount(slot.live);
  const bool last = under_way + 1 >= static_cast<int>(runtime::kAskedPhysicalLaunches);
  return last && away < slot.full_workers / 8 ? 0 : away;  // plant: nobody_away
}

uint32_t LaunchSlots::Yielded(const LaunchSlot& slot) const noexcept {
  return __atomic_load_n(&status_[IndexOf(&slot)].yielded, __ATOMIC_ACQUIRE);
}

uint32_t LaunchSlots::WorkersAway(const LaunchSlot& slot) const noexcept {
  // `yielded` may lie below the base: the host learns of an end before it learns of all yields, and
  // reports that workers make at the same moment may arrive in any order.
  const auto yielded = static_cast<int32_t>(Yielded(slot) - slot.yielded_base);
  int64_t there = yielded > 0 ? -int64_t{yielded} : 0;
  for (uint32_t p = 0; p < runtime::kPhysicalLaunches; ++p) {
    if ((slot.live & 1u << p) != 0) there += slot.workers[p];
  }
  if (there >= slot.full_workers) return 0;
  return there > 0 ? slot.full_workers - static_cast<uint32_t>(there) : slot.full_workers;
}

bool LaunchSlots::HasPassed(const LaunchSlot& slot) const noexcept {
  return __atomic_load_n(&status_[IndexOf(&slot)].passed, __ATOMIC_ACQUIRE) == slot.passage;
}

bool LaunchSlots::HasYielded(const LaunchSlot& slot, uint32_t bound, uint32_t sms) const noexcept {
  if (slot.state != LaunchSlot::State::kRunning || slot.live == 0) return true;
  if (bound >= sms) return false;
  if (bound <= slot.looked_at_bound) return true;  // plant: never_yielded
  // An eighth less, because workers are not spread quite evenly and the device's counts arrive out of
  // order.
  const uint64_t there = uint64_t{slot.full_workers} * bound / sms;
  return WorkersAway(slot) >= there - there / 8;
}

}  // namespace cupola::intercept
