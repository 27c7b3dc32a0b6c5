#include "intercept/preempt/wait_net.h"

#include <algorithm>
#include <utility>


#include "device/runtime/preempt_control.h"
#include "intercept/facts/context_scope.h"
#include "intercept/facts/live_streams.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/preempt/guarded_context.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/patient_wait.h"

namespace cupola::intercept::preempt {
namespace {

using State = LaunchContext::State;
using runtime::ControlSlot;

// A wait that lasts longer than this copies the control slots, whose counters show the launches' progress. (A wait
// limit that is shorter takes its place.)
constexpr uint64_t kReadAfterNs = 5'000'000;
constexpr uint64_t kReadEveryNs = 1'000'000;  // least time between the beginnings of two copies
// If a wait was stuck and there has been no progress since, the limit of the next one is divided by
// this.
constexpr uint64_t kPartOfLimit = 8;
// The least limit if the counters cannot be read. A kernel that runs longer than this then counts as one that makes no
// progress.
constexpr uint64_t kBlindNs = 1'000'000'000;

// Makes the stream and the memory for copies of the control slots, if they are not there. False: the driver refuses
// them, or all hardware queues are taken. The context is current; the caller holds asking_mutex.
bool MakeReader(LaunchContext& context) {
  ControlReader& reader = context.reader;
  if (reader.stream != nullptr) return true;
  if (reader.is_refused || !CountOwnStream()) return false;
  const auto create = CUPOLA_CALL_REAL(cuStreamCreate, PFN_cuStreamCreate_v2000);
  if (!reader.has_copy) reader.has_copy = RegisterKept(&reader.copy, kSlots * sizeof(ControlSlot)) != 0;
  if (reader.has_copy && create(&reader.stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) return true;
  UncountStream();
  reader.stream = nullptr;
  reader.is_refused = true;
  return false;
}

// Takes the next step in copying the control slots: begins a copy, or looks whether the one under way is over. It does
// not wait. False: they cannot be copied. No copy is begun while launches are kept: the thread whose wait was stuck is
// then in the driver, and may hold something there for long that the copy would need.
bool Read(LaunchContext& context, uint64_t now_ns) {
  ControlReader& reader = context.reader;
  if (context.kept.load() != 0 && reader.stream == nullptr) return false;
  if (pthread_mutex_trylock(&context.asking_mutex) != 0) return true;  // another thread is doing it
  bool can_be_read = context.state.load() == State::kReady;
  if (can_be_read && reader.is_under_way) {
    const CUresult result = AskStream(reader.stream);
    if (result == CUDA_SUCCESS) {
      reader.is_under_way = false;
      reader.read_ns.store(reader.begun_ns, std::memory_order_release);
    }
  } else if (can_be_read && context.kept.load() == 0 &&
             now_ns - reader.begun_ns >= kReadEveryNs) {
    const RelaxedCapture relaxed;
    const ContextScope current(context.context.load());
    can_be_read = current.is_made() && MakeReader(context);
    const auto copy = CUPOLA_CALL_REAL(cuMemcpyDtoHAsync_v2, PFN_cuMemcpyDtoHAsync_v3020);
    reader.begun_ns = now_ns;
    reader.is_under_way =
        can_be_read && copy(reader.copy, context.controls, kSlots * sizeof(ControlSlot),
                            reader.stream) == CUDA_SUCCESS;
  }
  pthread_mutex_unlock(&context.asking_mutex);
  return can_be_read;
}

// A word of the copied control slots, which a copy by the device may be writing at the same time.
uint32_t Load(const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_RELAXED); }

const ControlSlot& ReadSlot(const LaunchContext& context, const LaunchSlot& slot) {
  return static_cast<const ControlSlot*>(context.reader.copy)[context.slots.IndexOf(&slot)];
}

// A hash that changes when any of the awaited launches makes progress. It includes the counters of claimed and finished
// blocks if `with_counters`; otherwise it shows only which launches run, and which physical launches of them.
uint64_t SeenOf(LaunchContext& context, const Awaited& awaited, bool with_counters) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  // A launch may be behind a graph in pieces.
  uint64_t seen = with_counters + context.pieces.ended() + context.pieces.fed.load();
  const MutexLock lock(context.slots_mutex);
  for (uint32_t i = 0; i < context.slots.in_use(); ++i) {
    const LaunchSlot& slot = context.slots.used(i);
    if (slot.state != LaunchSlot::State::kRunning || !awaited.Has(slot)) continue;
    seen = (seen + slot.number) * kFactor + slot.live;
    if (!with_counters) continue;
    const ControlSlot& control = ReadSlot(context, slot);
    seen = (seen + Load(control.next)) * kFactor + Load(control.completed);
    seen = (seen + Load(control.yielded)) * kFactor;
    for (const auto& physical : control.physical) seen = (seen + Load(physical.exits)) * kFactor;
  }
  return seen;
}

// Whether some physical launch of `slot` will run to the end, because its workers have not been told to leave. A stop
// of another tag was for an earlier physical launch in the same place.
bool HasOneThatGoesOn(const LaunchContext& context, const LaunchSlot& slot) {
  for (uint32_t p = 0; p < runtime::kPhysicalLaunches; ++p) {
    if ((slot.live & 1u << p) == 0) continue;
    const uint32_t stop = Load(ReadSlot(context, slot).physical[p].stop);
    if (stop >> 16 != slot.tag[p] || (stop & 0xFFFF) == 0) return true;
  }
  return false;
}

// Whether some launch of the context has stopped, or will stop when the blocks that its workers run have ended. The
// copied control slots tell that; without them (`has_counters` is false), a launch that was asked to leave counts as
// one that will stop. A launch at a gate does not count: it has not begun, and its gate is open or about to open. For a
// launch that has begun and will stop, the agent is woken to make another physical launch beside it, which takes the
// blocks that it leaves. That one may be asked to leave too, before the process says that it cannot be asked now
// (BeginNotNow). But the physical launch in the last place is never asked (IsAskedToLeave), so that in the end one goes
// on, however often others ask.
bool MayStop(LaunchContext& context, bool has_counters) {
  bool may_stop = false, wants_another = false;
  {
    const MutexLock lock(context.slots_mutex);
    for (uint32_t i = 0; i < context.slots.in_use(); ++i) {
      LaunchSlot& slot = context.slots.used(i);
      if (slot.state != LaunchSlot::State::kRunning) continue;
      const bool has_stopped = slot.live == 0;
      const bool will_stop = !has_stopped && (has_counters ? !HasOneThatGoesOn(context, slot)
                                                           : slot.may_have_stopped);
      may_stop |= has_stopped || will_stop;
      if (will_stop && has_counters) slot.wants_another = wants_another = true;  // plant: none_beside
    }
  }
  if (wants_another) context.gpu->WakeAgent();
  return may_stop;
}

enum class Reading : uint8_t { kAnew, kLate, kRefused };

// Copies the control slots again, and waits for the copy, at most 10 ms. kAnew: ControlReader::copy holds what a copy
// read that was begun after this call. kLate: none was over in time. kRefused: they cannot be copied.
Reading ReadAnew(LaunchContext& context) {
  constexpr uint64_t kLimitNs = 10'000'000;
  const uint64_t since_ns = NowNs();
  PatientWait wait;
  for (uint64_t now = since_ns; now - since_ns < kLimitNs; now = NowNs()) {
    if (context.reader.read_ns.load(std::memory_order_acquire) > since_ns) return Reading::kAnew;
    if (!Read(context, now)) return Reading::kRefused;
    wait.Pause();
  }
  return Reading::kLate;
}

}  // namespace

bool Awaited::Has(const LaunchSlot& slot) const noexcept {
  if (slot.number > up_to) return false;
  return what == WaitFor::kAll || slot.blocks_legacy || slot.number <= joined;  // plant: no_join
}

bool WaitProgress::IsStuck(uint64_t now_ns) noexcept {
  if (preemption_settings.wait_limit_ns == 0) return false;
  if (begun_ns_ == 0) begun_ns_ = since_ns_ = looked_ns_ = now_ns;
  const uint64_t passed_ns = now_ns - std::exchange(looked_ns_, now_ns);
  // Time in which others ask the process to yield does not count: its launches stop then.
  if (context_.gpu->requests() != 0) {
    since_ns_ += passed_ns;
    return false;
  }
  if (now_ns - begun_ns_ < std::min(kReadAfterNs, preemption_settings.wait_limit_ns)) return false;
  const bool can_read = Read(context_, now_ns);
  const uint64_t read_ns = context_.reader.read_ns.load(std::memory_order_acquire);
  const bool has_counters = can_read && read_ns >= begun_ns_;
  const uint64_t seen =
      SeenOf(context_, {what_, up_to_, context_.joined.load()}, has_counters);
  if (seen != seen_) {
    if (seen_ != 0 && has_counters) context_.was_stuck.store(false, std::memory_order_relaxed);
    seen_ = seen;
    since_ns_ = now_ns;
    return false;
  }
  const bool was_stuck = context_.was_stuck.load(std::memory_order_relaxed);
  const uint64_t limit_ns = preemption_settings.wait_limit_ns / (was_stuck ? kPartOfLimit : 1);
  const uint64_t blind_ns = kBlindNs / (was_stuck ? kPartOfLimit : 1);
  // Another wait was stuck, and no copies are begun while launches are kept: the time alone decides.
  if (context_.kept.load() != 0) return now_ns - since_ns_ >= limit_ns;
  if (!can_read) return now_ns - since_ns_ >= std::max(limit_ns, blind_ns);
  // The hash is still that of `since_ns_`, and it includes a copy that was begun a whole limit later.
  return has_counters && read_ns >= since_ns_ + limit_ns;
}

void GiveBackReader(LaunchContext& context) noexcept {
  const MutexLock lock(context.asking_mutex);
  ControlReader& reader = context.reader;
  if (reader.stream == nullptr || context.state.load() != State::kReady) return;
  if (reader.is_under_way && AskStream(reader.stream) != CUDA_SUCCESS) return;
  reader.is_under_way = false;
  const RelaxedCapture relaxed;
  (void)CUPOLA_CALL_REAL(cuStreamDestroy_v2, PFN_cuStreamDestroy_v4000)(
      std::exchange(reader.stream, nullptr));
  UncountStream();
}

// If the launches of this context are kept already, for another wait, none of them can have stopped.
bool BeginKept(LaunchContext& context) noexcept {
  const bool is_free = context.gpu->BeginNotNow();
  const bool others_keep = context.kept.load() != 0;
  const Reading reading = others_keep || !is_free ? Reading::kRefused : ReadAnew(context);
  (void)Harvest(context);
  const bool may_stop = !others_keep && (reading == Reading::kLate ||
                                         MayStop(context, reading == Reading::kAnew));
  if (!is_free || may_stop) {
    context.gpu->EndNotNow();
    return false;
  }
  context.kept.fetch_add(1);
  context.was_stuck.store(true, std::memory_order_relaxed);
  Count(launch_counters.stuck);
  static std::atomic_flag said;
  SayOnce(said, Level::kInfo,
          {"kernels that can be stopped do not go on, and a call of the program waits for them: it goes on, "
           "and nobody may stop them meanwhile"});
  return true;
}

void EndKept(LaunchContext& context) noexcept {
  context.kept.fetch_sub(1);
  context.gpu->EndNotNow();
}

void KeepUntilComplete(LaunchContext& context, uint64_t number) noexcept {
  {
    const MutexLock lock(context.slots_mutex);
    const uint64_t before = context.kept_until.exchange(std::max(number, context.kept_until.load()));
    if (before != 0) number = 0;
  }
  // A `kept_until` that is not 0 counts once in `kept`. If it was set before this call, this call's own count is taken
  // back.
  if (number == 0) EndKept(context);
  LookAtKept(context);
}

void LookAtKept(LaunchContext& context) noexcept {
  if (context.kept_until.load() == 0) [[likely]] return;
  {
    const MutexLock lock(context.slots_mutex);
    const uint64_t until = context.kept_until.load();
    const bool is_ready = context.state.load() == State::kReady;
    for (uint32_t i = 0; is_ready && i < context.slots.in_use(); ++i) {
      const LaunchSlot& slot = context.slots.used(i);
      if (slot.state == LaunchSlot::State::kRunning && slot.number <= until) return;
    }
    if (until == 0) return;
    context.kept_until.store(0);
  }
  EndKept(context);
}

}  // namespace cupola::intercept::preempt
