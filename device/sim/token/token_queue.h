// A first-in, first-out queue of processes in shared memory. The process at its head has the simulated
// device. A killed process leaves the queue at once, wherever it stood.
//
// The Token owns the TokenQueue. All calls must come from one thread that lives as long as the process
// may want the device, because robust mutexes belong to threads and a thread's death frees them. Only
// Ring() may come from other threads.
//
// How it works. An entry is a *node*: a ticket, and a robust mutex, its *turn*.
//   1. The thread of a process in the queue owns its node's turn from before its ticket is set
//      until after it is cleared.
//   2. The entry with the smallest ticket is the head. Every other entry's thread waits for the
//      turn of its predecessor, the entry with the next smaller ticket. Waits follow falling
//      tickets, so there is no cycle, and the head waits for nobody.
//   3. A thread that gets its predecessor's turn finds one of two states. If the ticket is cleared,
//      the predecessor left. If the ticket is still there, the predecessor's thread is dead by 1, and
//      this thread clears the ticket. Either way it then looks up its new predecessor.
//   4. Tickets and waits_for change only under `lock`, and each change of the queue is one store, so a
//      process that is killed in the middle leaves nothing to repair.
//   5. A node is used for a new entry only when it has no ticket, no entry waits for it and its
//      turn is free, so an entry never waits for the turn of one behind it.
// A process at the head may be stopped (by SIGSTOP, a debugger, or a frozen control group). The process
// that waits for it then removes it from the queue: it clears the ticket. The stopped process keeps its
// turn until it runs again; it then sees that its ticket is cleared, and enters anew. A process counts as
// frozen if none of its threads runs although its bell was rung: a process that has the device and is not
// frozen has a thread that waits for the bell, or runs.
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
    kFull,         ///< of Join: no node is free
    kLeft,         ///< of Wait: `stop` was set, or others removed this entry from the queue
    kUnusable,     ///< the memory is damaged, or its lock is stuck
  };

  /// The most entries at a time. With N entries, at most N nodes have tickets and N are waited for.
  static constexpr uint32_t kMostEntries = SharedToken::kNodes / 2 - 4;

  /// Both pointers must outlive the queue. Once *stop is true, Wait returns kLeft.
  TokenQueue(SharedToken* shared, std::atomic<bool>* stop) : shared_(*shared), stop_(*stop) {}
  /// Leaves the queue. The memory must still be mapped: when a thread dies, the system cannot free a
  /// lock that it owns in memory which is no longer mapped.
  ~TokenQueue() {
    if (node_ != SharedToken::kNone) static_cast<void>(Leave());
  }
  TokenQueue(const TokenQueue&) = delete;
  TokenQueue& operator=(const TokenQueue&) = delete;

  /// Enters the queue at its end.
  Outcome Join();
  /// Blocks until this process is at the head.
  Outcome Wait();
  /// Leaves the queue. Harmless when others have removed this entry.
  Outcome Leave();

  /// For the process at the head: sets whether another entry waits behind it.
  Outcome CheckWaiters(bool* has_waiters);
  /// Whether others removed this entry from the queue because its process was stopped.
  bool is_evicted() const;

  /// A word that changes when another process begins to wait for this one, or Ring() is called.
  uint32_t bell() const;
  /// Blocks until the bell's word is no longer `value`, but at most until `deadline_ns`
  /// (CLOCK_MONOTONIC; 0: for ever). May return early.
  void WaitForBell(uint32_t value, uint64_t deadline_ns) const;
  /// Wakes the thread that waits for this process's bell. Any thread.
  void Ring();

  uint64_t recoveries() const { return recoveries_; }
  uint64_t evictions() const { return evictions_; }

 private:
  class Guard;
  /// Looks at a process from time to time and tells whether it seems frozen.
  class Stillness {
   public:
    bool SeemsFrozen(int32_t pid);

   private:
    uint64_t switches_ = 0;  ///< context switches of its threads, as of the last look
    int calls_ = 0;          ///< of SeemsFrozen
    int looks_ = 0;          ///< looks in a row at which no thread had run
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
  std::atomic<uint32_t> node_{SharedToken::kNone};  ///< of this process; kNone: not in the queue
  uint64_t ticket_ = 0;
  uint64_t recoveries_ = 0;  ///< TokenCounters::recoveries
  uint64_t evictions_ = 0;   ///< TokenCounters::evictions
};

}  // namespace cupola::sim
