// Applies the PTX memory model [PTX ISA 8] to a run. It finds which accesses are ordered by
// causality (barriers, release and acquire patterns with their scopes, ends of grids), which
// conflicting accesses are not (data races), and which older values a strong read may return where
// a fence is missing.
//
// Every thread has *knowledge*: for each other thread, the last of its epochs behind which it is
// ordered (a vector clock), and for each location the newest value that it must see. A release
// hands this knowledge on, and an acquire takes it over. Not modelled are values that come too
// early (load buffering), and writes that overtake each other in the order of one location. The
// stepped device owns the model; only the thread that steps it calls it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/sim/exec/observer.h"
#include "device/sim/stepped/chooser.h"

namespace cupola::sim {

using ThreadId = uint32_t;
constexpr uint32_t kHostBlock = 0xFFFFFFFFu;  ///< the "block" of host threads and streams

struct MemoryModelConfig {
  bool find_races = true;
  /// Strong reads may return older values, which the chooser selects. Without this, memory is
  /// sequentially consistent, which no GPU's memory is.
  bool stale_reads = false;
};

/// Two conflicting accesses that nothing orders, at least one of them weak or of too narrow a scope
/// [PTX ISA 8.9.1]. Also a read through a cache that is not coherent (Access::read_only) of bytes
/// that were written after the reading thread began, even if the two are ordered. Each pair of
/// sites is reported once.
struct Race {
  uint64_t address = 0;
  ThreadId threads[2] = {0, 0};
  uint64_t sites[2] = {0, 0};  ///< as the caller gave them
  bool writes[2] = {false, false};
  bool same_value = false;  ///< two writes of one value, which give the same result on every GPU
};

class MemoryModel {
 public:
  MemoryModel(const MemoryModelConfig& config, Chooser* chooser)
      : config_(config), chooser_(chooser) {}

  /// Adds a thread that starts with the knowledge of `parent`; the first thread has no parent.
  ThreadId AddThread(ThreadId parent, uint32_t block);
  /// Orders `to` behind everything that `from` has done.
  void Join(ThreadId to, ThreadId from);

  // Read, Write and Update are as in Observer. `site` says where the access is, for reports.

  /// With `latest`, reads the newest value. Returns whether an older value was read.
  bool Read(ThreadId thread, const Access& access, uint64_t site, void* value, bool latest);
  void Write(ThreadId thread, const Access& access, uint64_t site, const void* value);
  void Update(ThreadId thread, const Access& access, uint64_t site, const void* before,
              const void* after);
  void Fence(ThreadId thread, Order order, Scope scope);
  /// A barrier completes: the threads in `released` have arrived, those in `acquired` go on.
  void Barrier(std::span<const ThreadId> released, std::span<const ThreadId> acquired);

  /// The agent that makes the asynchronous copies of a thread, ordered behind what the thread has
  /// done.
  ThreadId Agent(ThreadId thread);
  void CommitCopies(ThreadId thread, bool bulk);
  void WaitForCopies(ThreadId thread, bool bulk, uint32_t pending);

  /// Forgets the accesses to memory that was freed, or was the shared memory of a block that ended.
  void Forget(uint64_t address, uint64_t bytes);

  const std::vector<Race>& races() const { return races_; }

 private:
  struct Knowledge {
    std::vector<uint32_t> epochs;  ///< by ThreadId: its last epoch that is known; missing: 0
    /// Location -> number of its newest message that the thread must see. Only with stale_reads.
    std::map<uint64_t, uint32_t> newest;
    void Take(const Knowledge& other);
  };
  using Snapshot = std::shared_ptr<const Knowledge>;

  /// A release pattern, with which a read of its message can synchronise [PTX ISA 8.8].
  struct Head {
    Snapshot known;        ///< the knowledge that it hands on
    uint32_t block = 0;    ///< of the releasing thread
    Scope scope = Scope::kSys;
    ThreadId thread = 0;   ///< the releasing thread
    uint32_t epoch = 0;    ///< in which that thread released
    /// Whether a thread that synchronises with this pattern has thereby also the knowledge of
    /// `older`.
    bool Covers(const Head& older) const;
  };
  /// A value that a location had, with the release patterns of which its write is a part.
  struct Message {
    uint32_t number = 0;  ///< in the order of the location
    uint64_t value = 0;
    std::vector<Head> heads;
  };
  /// The latest values of one location.
  struct History {
    uint32_t bytes = 0;            ///< size of the location
    std::deque<Message> messages;  ///< the newest is last; never empty
  };
  struct Thread {
    Knowledge known;
    Snapshot at_start;   ///< its knowledge when it began; null: none
    uint32_t epoch = 1;  ///< grows with each release
    uint32_t block = 0;
    // The next three are indexed by Scope.
    std::array<Head, 3> fenced;         ///< the last releasing fence of at least that scope
    std::array<Knowledge, 3> pending;   ///< what an acquiring fence of that scope takes over
    std::array<bool, 3> has_pending{};  ///< whether `pending` has anything
    /// That makes its asynchronous copies; 0: none yet.
    ThreadId agent = 0;
    std::array<std::deque<Snapshot>, 2> copies;  ///< committed groups; index 1: of bulk copies
  };
  /// An access to one 8-byte word, against which later accesses are checked.
  struct Entry {
    ThreadId thread = 0;
    uint32_t epoch = 0;  ///< of the thread, at the access
    uint8_t mask = 0;    ///< a bit for each byte of the word
    bool write = false;
    bool strong = false;
    bool read_only = false;
    Scope scope = Scope::kCta;
    uint64_t site = 0;
  };

  Snapshot Release(ThreadId thread);
  bool OrderedAtStart(const Entry& entry, ThreadId before) const;
  Scope Between(uint32_t block_a, uint32_t block_b) const;
  void Check(ThreadId thread, const Access& access, uint64_t site, bool write, bool same_value);
  void CheckWord(uint64_t word, Entry entry, bool same_value);
  void Report(uint64_t word, const Entry& first, const Entry& second, bool same_value);
  History* Find(uint64_t address, uint32_t bytes);
  History* FindOrMake(uint64_t address, uint32_t bytes, uint64_t value);
  void NoteSeen(Thread& thread, uint64_t address, const Message& message);
  void Append(Thread& thread, uint64_t address, History& history, uint64_t value,
              std::vector<Head> heads);
  Head HeadOf(ThreadId thread, Scope scope);
  std::vector<Head> HeadsOf(ThreadId thread, const Access& access);
  void Acquire(Thread& thread, const Access& access, const Message& message);
  bool ReadPiece(Thread& thread, const Access& access, uint8_t* value, bool latest);
  void WritePiece(ThreadId thread, const Access& access, const uint8_t* value);

  const MemoryModelConfig config_;
  Chooser* chooser_;
  std::deque<Thread> threads_;
  std::unordered_map<uint64_t, std::vector<Entry>> words_;  ///< address / 8 -> accesses
  std::map<uint64_t, History> histories_;                   ///< by address
  std::map<uint64_t, uint32_t> fenced_newest_;  ///< Knowledge::newest at the last fence.sc
  std::vector<Race> races_;
  std::set<std::tuple<uint64_t, uint64_t, bool, bool>> reported_;  ///< the pairs of sites in races_
};

}  // namespace cupola::sim
