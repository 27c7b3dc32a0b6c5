// The token of the simulated device: this process's part in the time slices by which all processes
// of a user share one simulated GPU. A thread of its own, made when a device thread first waits at
// the gate, queues for the device and opens and closes the gate; it keeps the device while nobody
// else wants it.
//
// Thread-safe. Whoever owns a Token destroys the device threads that use its gate first; a child of
// fork must not touch it (it does not have the device: the parent's thread has).
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
  std::string path = DefaultTokenPath();  ///< processes that name the same file share
  uint64_t slice_ns = 2'000'000;          ///< how long the device is kept while others wait
};

class Token final : private GateOwner {
 public:
  explicit Token(TokenOptions options) : options_(std::move(options)), gate_(this) {}
  ~Token();
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;

  /// What device threads pass. Opens for good, after one line on standard error, when the file
  /// cannot be used: the process then runs without sharing.
  Gate& gate() { return gate_; }

  /// Of this process. Slices in progress count as taken, not as held.
  TokenCounters counters() const;

 private:
  void OnDemand() override;
  void OnQuiet() override;

  void Run();
  /// False: the shared memory is not usable.
  bool TakeTurns(TokenQueue& queue);
  bool Hold(TokenQueue& queue, uint64_t asked_ns);
  bool AwaitDemandOfOthers(TokenQueue& queue, bool* has_waiters);
  void AwaitEndOfSlice(TokenQueue& queue, uint64_t deadline_ns);
  void AwaitQuiet(TokenQueue& queue);
  void RunUnshared();
  void FailOpen(const std::string& why);

  const TokenOptions options_;
  Gate gate_;
  std::atomic<bool> started_{false};
  pthread_t thread_{};
  std::atomic<bool> has_thread_{false};
  std::atomic<bool> stop_{false};
  std::optional<TokenMapping> mapping_;   ///< of the token's thread, as the queue
  std::optional<TokenQueue> storage_;
  std::atomic<TokenQueue*> queue_{nullptr};  ///< for OnQuiet; set once storage_ is
  std::atomic<uint64_t> slices_{0}, handovers_{0}, waited_ns_{0}, held_ns_{0}, recoveries_{0},
      evictions_{0}, unshared_{0};
};

}  // namespace cupola::sim
