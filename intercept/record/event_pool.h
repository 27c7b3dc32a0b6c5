// EventPool: the event pairs of one context, and the launches whose pairs the device has not
// reached yet. device_timing.cpp makes one per context and never frees it. Taking, recording and
// submitting are lock-free and for any thread; only one thread at a time may harvest (the caller
// holds a mutex).
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>

#include "profiles/launch_record.h"

namespace cupola::intercept {

struct EventPair {
  CUevent start;
  CUevent end;
  uint64_t ticket;  ///< ticket of the launch's record in the ring; valid once submitted
};

/// Takes the length of a launch, in nanoseconds of device time, in place of the ring. `ticket` is that of Submit.
using LengthSink = void (*)(uint64_t ticket, uint64_t ns) noexcept;

class EventPool {
 public:
  static constexpr uint32_t kPairs = 1024;

  /// Makes the pool of `context`, whichever is current: two events for each of `pairs` <= kPairs, and, unless there is a
  /// `sink`, a non-blocking stream. Null when the driver refuses; then nothing is left of it. Does not wait for the device.
  static EventPool* Make(uint64_t context, bool is_green, uint32_t pairs = kPairs, LengthSink sink = nullptr) noexcept;

  uint64_t context() const noexcept { return context_; }
  /// It is the pool of a green context. Only threads on which the program makes that context current may harvest it.
  bool is_green() const noexcept { return is_green_; }
  bool is_alive() const noexcept { return state_.load(std::memory_order_acquire) == State::kAlive; }
  /// The context has ended: the pool is not used again, and another context may have the handle.
  bool has_ended() const noexcept { return state_.load(std::memory_order_acquire) == State::kEnded; }
  /// The context may be about to end: its events are not used any more, until Revive.
  void Pause() noexcept { state_.store(State::kPaused, std::memory_order_release); }
  /// The context did not end after all. Does nothing if it has ended.
  void Revive() noexcept {
    State expected = State::kPaused;
    state_.compare_exchange_strong(expected, State::kAlive, std::memory_order_release);
  }
  /// The context has ended, or certainly ends. For good.
  void End() noexcept { state_.store(State::kEnded, std::memory_order_release); }
  /// Destroys the events and the stream of a pool that is not alive, whose context still lives. The pool is of no use
  /// afterwards.
  void Destroy() noexcept;

  /// A free pair, or null when all are in use.
  EventPair* Take() noexcept;
  void GiveBack(EventPair* pair) noexcept;

  /// cuEventRecord on the program's stream; false when the driver refuses.
  bool RecordStart(EventPair* pair, CUstream stream, bool per_thread) noexcept;
  bool RecordEnd(EventPair* pair, CUstream stream, bool per_thread) noexcept;

  /// Both events are recorded and the launch is in the ring: the harvest will publish its times.
  void Submit(EventPair* pair, uint64_t ticket) noexcept;

  /// Publishes the times of the submitted launches that have ended. With `give_up`, or if the pool is not alive, it
  /// publishes for the others that no times will come. Their pairs are free again. Returns how many are left.
  uint32_t Harvest(bool give_up) noexcept;
  bool HasSubmitted() const noexcept;

 private:
  /// Ends a pool that Make could not finish. Always null.
  static EventPool* Drop(EventPool* pool) noexcept;
  /// Maps the device's clock to the host's anew, if the device reaches an event within 100 ms.
  void SetBase() noexcept;
  void Deliver(const EventPair& pair, bool has_ended) noexcept;
  bool FillTimes(const EventPair& pair, LaunchRecord* times) noexcept;
  uint32_t IndexOf(const EventPair* pair) const noexcept {
    return static_cast<uint32_t>(pair - pairs_);
  }

  uint64_t context_ = 0;
  bool is_green_ = false;
  LengthSink sink_ = nullptr;  ///< null: times are published in the ring
  enum class State : uint8_t { kAlive, kPaused, kEnded };
  std::atomic<State> state_{State::kAlive};
  CUstream base_stream_ = nullptr;
  CUevent base_ = nullptr;       ///< event whose time on the host's clock is base_ns_
  CUevent next_base_ = nullptr;  ///< event for the next mapping
  uint64_t base_ns_ = 0;         ///< host clock at base_, in nanoseconds; 0: there is none yet
  std::atomic<uint64_t> free_[kPairs / 64] = {};       ///< a bit for each pair
  std::atomic<uint64_t> submitted_[kPairs / 64] = {};  ///< a bit for each pair
  EventPair pairs_[kPairs] = {};
};

}  // namespace cupola::intercept
