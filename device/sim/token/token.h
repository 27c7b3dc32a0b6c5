// The token of the simulated device: this process's part in the time slices by which all processes
// of a user share one simulated GPU. The driver creates one per process. The token has a thread of
// its own, which starts when a device thread first waits at the gate. That thread queues for the
// device, and opens and closes the gate. It keeps the device while no other process wants it.
//
// Any thread may call the public methods. The owner must end the device threads that use the gate
// before it destroys the Token. A child of fork must not touch it, because the device belongs to
// the parent's thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "device/sim/token/gate.h"
#include "device/sim/token/shared_token.h"
#include "device/sim/token/token_queue.h"

namespace cupola::sim {

struct TokenOptions {
  std::string path = DefaultTokenPath();  ///< processes with the same file share one device
  uint64_t slice_ns = 2'000'000;          ///< how long the device is kept while others wait
};

class Token final : private GateOwner {
 public:
  explicit Token(TokenOptions options) : options_(std::move(options)), gate_(this) {}
  ~Token();
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;

  /// The gate for device threads. When the file cannot be used, the token says so in one line on
  /// standard error and opens the gate for good: the process then runs without sharing.
  Gate& gate() { return gate_; }

  /// The counters of this process. A slice in progress is in `slices` but not yet in `held_ns`.
  TokenCounters counters() const;

 private:
  void OnDemand() override;
  void OnQuiet() override;

  void Run();  ///< what the token's thread does
  /// Waits for demand and takes turns until the token ends. False when the shared memory is not
  /// usable.
  bool TakeTurns(TokenQueue& queue);
  /// Keeps the device, which this process has just got, until others want it and the slice is over,
  /// then leaves the queue. `asked_ns`: when the device was asked for (CLOCK_MONOTONIC). False when
  /// the shared memory is not usable.
  bool Hold(TokenQueue& queue, uint64_t asked_ns);
  bool AwaitDemandOfOthers(TokenQueue& queue, bool* has_waiters);
  /// Returns at the deadline, or earlier when the device threads have nothing to do.
  void AwaitEndOfSlice(TokenQueue& queue, uint64_t deadline_ns);
  /// Blocks until no device thread is inside the closed gate.
  void AwaitQuiet(TokenQueue& queue);
  void RunUnshared();
  /// Says why on standard error, and opens the gate for good.
  void FailOpen(const std::string& why);

  const TokenOptions options_;
  Gate gate_;
  std::atomic<bool> started_{false};     ///< the start of the thread has been tried
  pthread_t thread_{};                   ///< the token's thread; valid where has_thread_ is true
  std::atomic<bool> has_thread_{false};
  std::atomic<bool> stop_{false};        ///< the token ends: its thread must return
  std::optional<TokenMapping> mapping_;      ///< used by the token's thread only
  std::optional<TokenQueue> storage_;        ///< used by the token's thread only
  std::atomic<TokenQueue*> queue_{nullptr};  ///< for OnQuiet; set when storage_ has been set
  // Members of TokenCounters.
  std::atomic<uint64_t> slices_{0}, handovers_{0}, waited_ns_{0}, held_ns_{0}, recoveries_{0},
      evictions_{0}, unshared_{0};
};

}  // namespace cupola::sim
