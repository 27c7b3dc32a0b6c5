#include "intercept/record/event_pool.h"

#include <bit>
#include <new>
#include <utility>

#include <cudaTypedefs.h>
#include <sys/mman.h>

#include "intercept/facts/context_scope.h"
#include "intercept/process/calls.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/fast_clock.h"
#include "intercept/record/recorder.h"

namespace cupola::intercept {
namespace {

// The *base* of a pool maps the device's clock to the host's: it is an event together with the host's
// time at which the device reached it (base_, base_ns_). SetBase gives up after this time.
constexpr uint64_t kBaseBoundNs = 100'000'000;
// The base is renewed after this time: cuEventElapsedTime returns a float in milliseconds, whose
// step at 250 ms is 15 ns.
constexpr uint64_t kBaseLifeNs = 250'000'000;

CUresult Query(CUevent event) {
  return Real<PFN_cuEventQuery_v2000>(Call::k_cuEventQuery)(event);
}

// The first version of the call, which is in every driver; the second (12.8) differs only in its
// errors.
CUresult Elapsed(float* ms, CUevent start, CUevent end) {
  return Real<PFN_cuEventElapsedTime_v2000>(Call::k_cuEventElapsedTime)(ms, start, end);
}

}  // namespace

EventPool* EventPool::Make(uint64_t context, bool is_green, uint32_t pairs, LengthSink sink) noexcept {
  const ContextScope current(reinterpret_cast<CUcontext>(context));
  if (!current.is_made()) return nullptr;
  void* memory = mmap(nullptr, sizeof(EventPool), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* pool = new (memory) EventPool;
  pool->context_ = context;
  pool->is_green_ = is_green;
  pool->sink_ = sink;
  const auto create = Real<PFN_cuEventCreate_v2000>(Call::k_cuEventCreate);
  const auto create_stream = Real<PFN_cuStreamCreate_v2000>(Call::k_cuStreamCreate);
  // A sink takes lengths only, so there is no base, and no stream of Cupola's that could take a hardware queue.
  if (sink == nullptr && (create_stream(&pool->base_stream_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
                          create(&pool->base_, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
                          create(&pool->next_base_, CU_EVENT_DEFAULT) != CUDA_SUCCESS)) {
    return Drop(pool);
  }
  for (uint32_t i = 0; i < pairs; ++i) {
    if (create(&pool->pairs_[i].start, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
        create(&pool->pairs_[i].end, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
      return i == 0 ? Drop(pool) : pool;  // the pool has fewer pairs
    }
    pool->GiveBack(&pool->pairs_[i]);
  }
  return pool;
}

EventPool* EventPool::Drop(EventPool* pool) noexcept {
  pool->Destroy();
  munmap(pool, sizeof(EventPool));
  return nullptr;
}

void EventPool::Destroy() noexcept {
  const ContextScope current(reinterpret_cast<CUcontext>(context_));
  const auto destroy = CUPOLA_CALL_REAL(cuEventDestroy_v2, PFN_cuEventDestroy_v4000);
  for (const EventPair& pair : pairs_) {
    if (pair.start != nullptr) (void)destroy(pair.start);
    if (pair.end != nullptr) (void)destroy(pair.end);
  }
  if (base_ != nullptr) (void)destroy(base_);
  if (next_base_ != nullptr) (void)destroy(next_base_);
  const auto destroy_stream = CUPOLA_CALL_REAL(cuStreamDestroy_v2, PFN_cuStreamDestroy_v4000);
  if (base_stream_ != nullptr) (void)destroy_stream(base_stream_);
}

// Makes five tries and uses the one between whose two host times the least time passed: that time
// bounds the error of the mapping between the clocks. Ends early if the driver fails or the time is up;
// the best try so far, or else the earlier base, then stays.
void EventPool::SetBase() noexcept {
  uint64_t best_width = UINT64_MAX;
  const uint64_t deadline = MonotonicNs() + kBaseBoundNs;
  for (int i = 0; i < 5; ++i) {
    const uint64_t before = MonotonicNs();
    if (StreamRecordsEvent(base_stream_, false, next_base_) != CUDA_SUCCESS) return;
    CUresult state;
    while ((state = Query(next_base_)) == CUDA_ERROR_NOT_READY) {
      if (MonotonicNs() > deadline) return;
    }
    const uint64_t after = MonotonicNs();
    if (state != CUDA_SUCCESS) return;
    if (after - before < best_width) {
      best_width = after - before;
      base_ns_ = before + (after - before) / 2;
      std::swap(base_, next_base_);
    }
  }
}

EventPair* EventPool::Take() noexcept {
  for (uint32_t word = 0; word < kPairs / 64; ++word) {
    uint64_t bits = free_[word].load(std::memory_order_relaxed);
    while (bits != 0) {
      const uint64_t lowest = bits & -bits;
      if (free_[word].compare_exchange_weak(bits, bits & ~lowest, std::memory_order_acquire)) {
        return &pairs_[word * 64 + static_cast<uint32_t>(std::countr_zero(lowest))];
      }
    }
  }
  return nullptr;
}

void EventPool::GiveBack(EventPair* pair) noexcept {
  const uint32_t index = IndexOf(pair);
  free_[index / 64].fetch_or(uint64_t{1} << index % 64, std::memory_order_release);
}

bool EventPool::RecordStart(EventPair* pair, CUstream stream, bool per_thread) noexcept {
  return StreamRecordsEvent(stream, per_thread, pair->start) == CUDA_SUCCESS;
}

bool EventPool::RecordEnd(EventPair* pair, CUstream stream, bool per_thread) noexcept {
  return StreamRecordsEvent(stream, per_thread, pair->end) == CUDA_SUCCESS;
}

void EventPool::Submit(EventPair* pair, uint64_t ticket) noexcept {
  pair->ticket = ticket;
  const uint32_t index = IndexOf(pair);
  submitted_[index / 64].fetch_or(uint64_t{1} << index % 64, std::memory_order_release);
}

// Fills the device's times, in nanoseconds of the host's clock. False: the driver does not tell them.
bool EventPool::FillTimes(const EventPair& pair, LaunchRecord* times) noexcept {
  float from_base_ms = 0, length_ms = 0;
  if (Elapsed(&from_base_ms, base_, pair.start) != CUDA_SUCCESS ||
      Elapsed(&length_ms, pair.start, pair.end) != CUDA_SUCCESS) {
    return false;
  }
  const int64_t start_ns = static_cast<int64_t>(base_ns_) +
                           static_cast<int64_t>(static_cast<double>(from_base_ms) * 1e6);
  times->device_start_ns = static_cast<uint64_t>(start_ns);
  times->device_end_ns =
      static_cast<uint64_t>(start_ns + static_cast<int64_t>(static_cast<double>(length_ms) * 1e6));
  times->flags |= kFlagDeviceTimed;
  return true;
}

bool EventPool::HasSubmitted() const noexcept {
  for (const auto& word : submitted_) {
    if (word.load(std::memory_order_relaxed) != 0) return true;
  }
  return false;
}

// Hands on the times of a submitted launch, or, if it has not ended, that there are none.
void EventPool::Deliver(const EventPair& pair, bool has_ended) noexcept {
  if (sink_ != nullptr) {
    float length_ms = 0;
    if (!has_ended || Elapsed(&length_ms, pair.start, pair.end) != CUDA_SUCCESS) return;
    return sink_(pair.ticket, static_cast<uint64_t>(static_cast<double>(length_ms) * 1e6));
  }
  LaunchRecord times{};
  times.kind = RecordKind::kDeviceTimes;
  times.launch_ticket = pair.ticket;
  if (has_ended && base_ns_ != 0) FillTimes(pair, &times);
  uint64_t ticket;
  PublishRecord(*ActiveRing(), times, &ticket);  // ring full: the launch stays untimed
}

uint32_t EventPool::Harvest(bool give_up) noexcept {
  if ((sink_ == nullptr && ActiveRing() == nullptr) || !HasSubmitted()) return 0;
  const ContextScope current(is_alive() ? reinterpret_cast<CUcontext>(context_) : nullptr);
  uint32_t left = 0;
  bool is_base_due = sink_ == nullptr && MonotonicNs() - base_ns_ >= kBaseLifeNs;
  for (uint32_t word = 0; word < kPairs / 64; ++word) {
    uint64_t bits = submitted_[word].load(std::memory_order_acquire);
    for (; bits != 0; bits &= bits - 1) {
      EventPair& pair = pairs_[word * 64 + static_cast<uint32_t>(std::countr_zero(bits))];
      // The events of a pool that is not alive are not asked about: its launches get a record without times.
      const CUresult state = is_alive() ? Query(pair.end) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
      if (state == CUDA_ERROR_NOT_READY && !give_up) {
        ++left;
        continue;
      }
      if (is_base_due && state == CUDA_SUCCESS) {  // once per harvest, because it may wait
        SetBase();
        is_base_due = false;
      }
      if (state == CUDA_SUCCESS && sink_ == nullptr && base_ns_ == 0 && !give_up) {  // SetBase failed; tried again later
        ++left;
        continue;
      }
      Deliver(pair, state == CUDA_SUCCESS);
      submitted_[word].fetch_and(~(bits & -bits), std::memory_order_relaxed);
      // The device may have yet to reach the events of a pair that was given up. Where they are recorded again, only
      // the new records count [CUDA Driver API, cuEventRecord].
      GiveBack(&pair);
    }
  }
  return left;
}

}  // namespace cupola::intercept
