// The memory through which processes take turns on the simulated device: a file that all of them
// map. This header has only its layout and how it is opened; token_queue.h says how the fields are
// used. The token's thread opens the mapping; a mapping may be made from any thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace cupola::sim {

/// Counters of one process, or of all processes that have used a file since it was made.
struct TokenCounters {
  uint64_t slices = 0;      ///< how often the device was taken
  uint64_t handovers = 0;   ///< how often it was given up because another process waited
  uint64_t waited_ns = 0;   ///< sum of the times from asking for the device to having it
  uint64_t held_ns = 0;     ///< sum of the times from having it to giving it up
  uint64_t recoveries = 0;  ///< dead processes found in the queue, holders and waiters
  uint64_t evictions = 0;   ///< stopped processes that were removed from the queue
  uint64_t unshared = 0;    ///< slices run without the token, because the queue was full
};

struct SharedToken {
  static constexpr uint64_t kMagic = 0x4e4b544c50554331;  // "1CUPLTKN" as bytes
  static constexpr uint32_t kVersion = 2;
  static constexpr uint32_t kNodes = 1024;
  static constexpr uint32_t kNone = ~0u;

  struct Header {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes;  ///< sizeof(SharedToken)
    char boot_id[40];  ///< id of the machine's start, which owners of locks do not survive
    uint64_t inode;    ///< of the file: the locks in a copy of the file belong to nobody
  };
  struct Totals {
    std::atomic<uint64_t> slices, handovers, waited_ns, held_ns, recoveries, evictions, unshared;
  };

  Header header;
  pthread_mutex_t lock;               ///< robust; held for changes of tickets and waits_for
  std::atomic<uint64_t> next_ticket;
  Totals totals;                      ///< as TokenCounters, of all processes
  std::atomic<uint64_t> tickets[kNodes];    ///< 0: the node is not in the queue
  std::atomic<uint32_t> waits_for[kNodes];  ///< the node of the predecessor; kNone: none
  std::atomic<uint32_t> bells[kNodes];      ///< changed to wake the node's process
  std::atomic<int32_t> pids[kNodes];        ///< the process of the node
  pthread_mutex_t turns[kNodes];            ///< robust; owned by the thread of the node's process
};

/// A mapping of a token's file. Movable; the destructor unmaps it.
class TokenMapping {
 public:
  /// Opens the file. Makes and fills it where it does not exist, is empty, or is from an earlier
  /// start of the machine. Errors: kIo (it cannot be opened, made or mapped, or belongs to another
  /// user), kUnsupported (another version), kDamaged (not a token's file).
  static Result<TokenMapping> Open(const std::string& path);
  TokenMapping(TokenMapping&& other) noexcept : shared_(other.shared_) { other.shared_ = nullptr; }
  TokenMapping& operator=(TokenMapping&&) = delete;
  ~TokenMapping();

  SharedToken& operator*() const { return *shared_; }
  SharedToken* operator->() const { return shared_; }
  SharedToken* get() const { return shared_; }

 private:
  explicit TokenMapping(SharedToken* shared) : shared_(shared) {}
  SharedToken* shared_;
};

/// The counters of all processes that have used the file. Errors as TokenMapping::Open.
Result<TokenCounters> ReadTokenTotals(const std::string& path);

/// /dev/shm/cupola-sim-token-v<version>-<user id>; the same name in /tmp where there is no
/// /dev/shm.
std::string DefaultTokenPath();

}  // namespace cupola::sim
