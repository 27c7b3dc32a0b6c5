// The gate that this process's device threads (SMs, copies) pass before they execute: open while
// the process has the device. Inside the process only; token.h opens and closes it.
//
// Device threads call Enter, Pause, Leave from any number of threads at once; one other thread (the
// token's) calls the rest. While the gate is open no call makes a system call or takes a lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace cupola::sim {

/// Told of what happens at a gate that is not open; called on device threads, must not block.
class GateOwner {
 public:
  virtual void OnDemand() = 0;  ///< a thread is about to wait at the gate
  virtual void OnQuiet() = 0;   ///< the last thread inside has left
 protected:
  ~GateOwner() = default;
};

class Gate {
 public:
  /// Closed at first.
  explicit Gate(GateOwner* owner) : owner_(owner) {}

  /// Blocks until the gate is open; the calling thread then counts as inside.
  void Enter() {
    inside_.fetch_add(1);
    if (state_.load() != State::kOpen) Wait();
  }
  void Leave() {
    if (inside_.fetch_sub(1) == 1 && state_.load() != State::kOpen) owner_->OnQuiet();
  }
  /// For a thread inside, wherever it can stop: blocks while the gate is closed. True if it did.
  bool Pause() { return state_.load(std::memory_order_relaxed) != State::kOpen && Wait(); }

  // --- the token's thread ---
  void Open();
  /// Lets the threads inside go on until `deadline_ns` of CLOCK_MONOTONIC; the first that looks
  /// later closes the gate.
  void CloseAt(uint64_t deadline_ns);
  void Close();
  bool is_closed() const { return state_.load() == State::kClosed; }
  /// No thread is inside. After Close() it stays so until Open().
  bool is_quiet() const { return inside_.load() == 0; }
  /// Blocks until a thread waits at the gate (true) or Interrupt() was called (false).
  bool WaitForDemand();
  void Interrupt();

 private:
  enum class State : uint8_t { kOpen, kClosing, kClosed };
  bool Wait();

  // Enter adds to `inside_` and then reads `state_`; Close writes `state_` and then reads
  // `inside_`; all of them sequentially consistent. So either the thread sees the gate closed, or
  // the closer sees the thread.
  std::atomic<State> state_{State::kClosed};
  std::atomic<uint64_t> deadline_ns_{0};
  alignas(64) std::atomic<uint32_t> inside_{0};
  GateOwner* const owner_;

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable opened_, demanded_;
  uint32_t waiting_ = 0;
  bool interrupted_ = false;
};

/// Nanoseconds of CLOCK_MONOTONIC, without a system call.
uint64_t MonotonicNs();

}  // namespace cupola::sim
