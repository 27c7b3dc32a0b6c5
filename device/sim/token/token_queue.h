// A first-in, first-out queue of processes in shared memory; who is at its head has the device. A
// killed process leaves it at once, wherever it stood.
//
// All calls of one TokenQueue must come from one thread that lives as long as the process may want
// the device: robust mutexes belong to threads, and a thread's death frees them. Only Ring() may
// come from others.
//
// How it works. An entry is a *node*: a ticket, and a robust mutex, its *turn*.
//   1. The thread of a process in the queue owns its node's turn from before its ticket is set
//      until after it is cleared.
//   2. The entry with the smallest ticket is the head. Every other entry's thread waits for the
//      turn of its predecessor, the entry with the next smaller ticket. Waits follow falling
//      tickets, so there is no cycle, and the head waits for nobody.
//   3. Whoever gets a predecessor's turn learns one of two things. The ticket is cleared: it left.
//      The ticket is still there: by 1 its thread is dead, and the ticket is cleared for it. Either
//      way the new predecessor is looked up.
//   4. Tickets and waits_for change only under `lock`, and each change of the queue is one store: a
//      process killed in the middle leaves nothing to repair.
//   5. A node is taken for a new entry only when it has no ticket, no entry waits for it and its
//      turn is free, so an entry never waits for the turn of one behind it.
// A stopped process (SIGSTOP, a debugger, a frozen control group) is put out of the queue by whoever waits
// for it, when its turn has come: its ticket is cleared, its turn stays its own until it runs again, sees
// that, and enters anew. Frozen is who is still though its bell is rung: whoever has the device has a
// thread that waits for the bell, or runs.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/result.h"
#include "device/sim/token/shared_token.h"

namespace cupola::sim {

class TokenQueue {
 public:
  enum class Outcome : uint8_t {
    kDone,
    kFull,         ///< Join: no node is free
    kLeft,         ///< Wait: no longer in the queue, `stop` was set or others put it out
    kUnusable,     ///< the memory is damaged, or its lock is stuck
  };

  /// Most entries at a time. With N entries at most N nodes have tickets and N are waited for.
  static constexpr uint32_t kMostEntries = SharedToken::kNodes / 2 - 4;

  TokenQueue(SharedToken* shared, std::atomic<bool>* stop) : shared_(*shared), stop_(*stop) {}
  /// Leaves the queue. The memory must stay mapped until here: what owns a lock in memory that is
  /// gone cannot be freed of it by its death.
  ~TokenQueue() {
    if (node_ != SharedToken::kNone) static_cast<void>(Leave());
  }
  TokenQueue(const TokenQueue&) = delete;
  TokenQueue& operator=(const TokenQueue&) = delete;

  /// Enters at the end.
  Outcome Join();
  /// Blocks until at the head.
  Outcome Wait();
  /// Gives up the place. Harmless when others put this entry out.
  Outcome Leave();

  /// Whether another entry waits behind the head that this process is; asked of the shared memory.
  Outcome CheckWaiters(bool* has_waiters);
  /// Others put this entry out, because its process was stopped.
  bool is_evicted() const;

  /// A word that changes when somebody begins to wait for this process, or Ring() is called.
  uint32_t bell() const;
  /// Blocks until the bell's word is no longer `value`, at most until `deadline_ns` of
  /// CLOCK_MONOTONIC (0: for ever). May return early.
  void WaitForBell(uint32_t value, uint64_t deadline_ns) const;
  /// Any thread.
  void Ring();

  uint64_t recoveries() const { return recoveries_; }
  uint64_t evictions() const { return evictions_; }

 private:
  class Guard;
  /// Whether a process has been still for some looks.
  class Stillness {
   public:
    bool SeemsFrozen(int32_t pid);

   private:
    uint64_t switches_ = 0;
    int calls_ = 0, looks_ = 0;
  };
  Outcome WaitForTurn(uint32_t node, uint64_t ticket);
  uint32_t Predecessor(uint64_t ticket) const;
  uint32_t Entries() const;
  void ClearDead();
  bool IsFree(uint32_t node) const;
  void RingNode(uint32_t node);
  bool EvictIfStopped(uint32_t node, uint64_t ticket, Stillness& stillness);

  SharedToken& shared_;
  std::atomic<bool>& stop_;
  std::atomic<uint32_t> node_{SharedToken::kNone};
  uint64_t ticket_ = 0;
  uint64_t recoveries_ = 0, evictions_ = 0;
};

}  // namespace cupola::sim
