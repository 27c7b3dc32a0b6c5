// The gate that the device threads of this process (SMs, copies) pass before they execute. It is
// open while the process has the simulated device. The Token (token.h) owns it, opens it and closes
// it; other processes do not see it.
//
// Any number of device threads may call Enter, Pause and Leave at the same time. One other thread,
// that of the token, makes the other calls. While the gate is open, no call makes a system call or
// takes a lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace cupola::sim {

/// Gets the events at a gate that is not open. Device threads make the calls; they must not block.
class GateOwner {
 public:
  virtual void OnDemand() = 0;  ///< a thread is about to wait at the gate
  virtual void OnQuiet() = 0;   ///< the last thread inside has left
 protected:
  ~GateOwner() = default;
};

class Gate {
 public:
  /// The gate begins closed.
  explicit Gate(GateOwner* owner) : owner_(owner) {}

  /// Blocks until the gate is open; the calling thread then counts as inside.
  void Enter() {
    inside_.fetch_add(1);
    if (state_.load() != State::kOpen) Wait();
  }
  void Leave() {
    if (inside_.fetch_sub(1) == 1 && state_.load() != State::kOpen) owner_->OnQuiet();
  }
  /// To be called by a thread inside, wherever it can stop. Blocks while the gate is closed, and
  /// returns whether it did.
  bool Pause() { return state_.load(std::memory_order_relaxed) != State::kOpen && Wait(); }

  // --- for the token's thread only ---
  void Open();
  /// Lets the threads inside go on until `deadline_ns` (CLOCK_MONOTONIC). The first thread that
  /// calls Enter or Pause later closes the gate.
  void CloseAt(uint64_t deadline_ns);
  void Close();
  bool is_closed() const { return state_.load() == State::kClosed; }
  /// Whether no thread is inside. Once true after Close(), it stays true until Open().
  bool is_quiet() const { return inside_.load() == 0; }
  /// Blocks until a thread waits at the gate (true) or Interrupt() was called (false).
  bool WaitForDemand();
  void Interrupt();

 private:
  enum class State : uint8_t { kOpen, kClosing, kClosed };
  bool Wait();

  // Enter adds to `inside_` and then reads `state_`. Whoever closes the gate writes `state_` and
  // then reads `inside_`. All four accesses are sequentially consistent, so either the thread sees
  // the gate closed, or the closer sees the thread.
  std::atomic<State> state_{State::kClosed};
  std::atomic<uint64_t> deadline_ns_{0};         ///< of CloseAt
  alignas(64) std::atomic<uint32_t> inside_{0};  ///< number of threads inside
  GateOwner* const owner_;

  std::mutex mutex_;                  ///< guards the members that follow
  std::condition_variable opened_;    ///< notified when the gate opens
  std::condition_variable demanded_;  ///< notified when a thread waits, and by Interrupt
  uint32_t waiting_ = 0;              ///< number of threads that wait at the gate
  bool interrupted_ = false;
};

/// The time of CLOCK_MONOTONIC in nanoseconds, without a system call.
uint64_t MonotonicNs();

}  // namespace cupola::sim
