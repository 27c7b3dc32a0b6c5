// The memory that processes share to take turns on the simulated device: a file, mapped by all of
// them. Only the layout and its opening are here; token_queue.h says what the fields mean.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace cupola::sim {

/// What one process did, or all that used a file since it was made. Times in nanoseconds.
struct TokenCounters {
  uint64_t slices = 0;      ///< times the device was taken
  uint64_t handovers = 0;   ///< times it was given up because another process waited
  uint64_t waited_ns = 0;   ///< from asking for the device to having it
  uint64_t held_ns = 0;     ///< from having it to giving it up
  uint64_t recoveries = 0;  ///< dead processes found in the queue, holders and waiters
  uint64_t evictions = 0;   ///< stopped processes put out of the queue
  uint64_t unshared = 0;    ///< slices run without the token, the queue being full
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
    char boot_id[40];  ///< of the machine's start; owners of locks do not survive it
    uint64_t inode;    ///< of the file; those of a copied file belong to nobody
  };
  struct Totals {
    std::atomic<uint64_t> slices, handovers, waited_ns, held_ns, recoveries, evictions, unshared;
  };

  Header header;
  pthread_mutex_t lock;
  std::atomic<uint64_t> next_ticket;
  Totals totals;
  std::atomic<uint64_t> tickets[kNodes];
  std::atomic<uint32_t> waits_for[kNodes];
  std::atomic<uint32_t> bells[kNodes];
  std::atomic<int32_t> pids[kNodes];
  pthread_mutex_t turns[kNodes];
};

/// A mapping of a token's file. Movable, unmaps when destroyed.
class TokenMapping {
 public:
  /// Opens the file, making and filling it where it does not exist, is empty or is of an earlier
  /// start of the machine. Errors: kIo (cannot be opened, made or mapped; belongs to another user),
  /// kUnsupported (of another version), kDamaged (not a token's file).
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

/// The counters of all processes that use the file. Errors as TokenMapping::Open.
Result<TokenCounters> ReadTokenTotals(const std::string& path);

/// /dev/shm/cupola-sim-token-v<version>-<user id>, in /tmp where there is no /dev/shm.
std::string DefaultTokenPath();

}  // namespace cupola::sim
