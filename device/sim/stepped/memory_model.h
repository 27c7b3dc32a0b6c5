// What the PTX memory model [PTX ISA 8] says of a run: which accesses are ordered by causality
// (barriers, release and acquire patterns with their scopes, ends of grids), which conflicting ones
// are not (data races), and which older values a strong read may return where a fence is missing.
//
// Every thread carries what it *knows*: per other thread, up to which of its epochs it is ordered
// behind it (a vector clock), and per location the newest value that it may no longer miss.
// Releases hand this on, acquires take it up. Not modelled: values that come too early (load
// buffering), and writes that overtake each other in the order of one location. Plain state, one
// thread.
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
  /// Strong reads may return older values, as the chooser says. Otherwise memory is sequentially
  /// consistent, which no GPU is.
  bool stale_reads = false;
};

/// Two conflicting accesses that nothing orders, at least one of them weak or of too narrow a scope
/// [PTX ISA 8.9.1]; or a read through a cache that is not coherent (Access::read_only) of what was
/// written after its thread began, however that is ordered. One per pair of sites.
struct Race {
  uint64_t address = 0;
  ThreadId threads[2] = {0, 0};
  uint64_t sites[2] = {0, 0};  ///< as given by the caller
  bool writes[2] = {false, false};
  bool same_value = false;  ///< two writes of one value: no GPU makes a difference
};

class MemoryModel {
 public:
  MemoryModel(const MemoryModelConfig& config, Chooser* chooser)
      : config_(config), chooser_(chooser) {}

  /// A thread that starts knowing what `parent` knows; the first one has no parent.
  ThreadId AddThread(ThreadId parent, uint32_t block);
  /// `to` is ordered behind all that `from` did.
  void Join(ThreadId to, ThreadId from);

  /// As in Observer. `site` says where, for reports. `latest`: read the newest value. Returns
  /// whether an older value was read.
  bool Read(ThreadId thread, const Access& access, uint64_t site, void* value, bool latest);
  void Write(ThreadId thread, const Access& access, uint64_t site, const void* value);
  void Update(ThreadId thread, const Access& access, uint64_t site, const void* before,
              const void* after);
  void Fence(ThreadId thread, Order order, Scope scope);
  /// `released` arrived, `acquired` go on.
  void Barrier(std::span<const ThreadId> released, std::span<const ThreadId> acquired);

  /// The agent that makes the asynchronous copies of a thread, ordered behind what the thread did.
  ThreadId Agent(ThreadId thread);
  void CommitCopies(ThreadId thread, bool bulk);
  void WaitForCopies(ThreadId thread, bool bulk, uint32_t pending);

  /// The memory is no longer what it was (freed, or of a block that ended).
  void Forget(uint64_t address, uint64_t bytes);

  const std::vector<Race>& races() const { return races_; }

 private:
  struct Knowledge {
    std::vector<uint32_t> epochs;         ///< per thread; missing: 0
    std::map<uint64_t, uint32_t> newest;  ///< of stale_reads: location -> number of its message
    void Take(const Knowledge& other);
  };
  using Snapshot = std::shared_ptr<const Knowledge>;

  /// What a read of a message can synchronise with [PTX ISA 8.8]: release patterns.
  struct Head {
    Snapshot known;
    uint32_t block = 0;
    Scope scope = Scope::kSys;
    ThreadId thread = 0;  ///< that released,
    uint32_t epoch = 0;   ///< when
    /// Whoever synchronises with this one need not with `older`.
    bool Covers(const Head& older) const;
  };
  /// A value that a location had.
  struct Message {
    uint32_t number = 0;
    uint64_t value = 0;
    std::vector<Head> heads;
  };
  struct History {
    uint32_t bytes = 0;
    std::deque<Message> messages;  ///< the newest last, never empty
  };
  struct Thread {
    Knowledge known;
    Snapshot at_start;  ///< what it knew when it began; null: nothing
    uint32_t epoch = 1;
    uint32_t block = 0;
    std::array<Head, 3> fenced;        ///< at the last releasing fence of at least that scope
    std::array<Knowledge, 3> pending;  ///< what an acquiring fence of that scope takes up
    std::array<bool, 3> has_pending{};
    ThreadId agent = 0;                          ///< 0: none yet
    std::array<std::deque<Snapshot>, 2> copies;  ///< committed groups, [bulk]
  };
  /// An access that later ones are held against, within one 8-byte word.
  struct Entry {
    ThreadId thread = 0;
    uint32_t epoch = 0;
    uint8_t mask = 0;  ///< of bytes
    bool write = false;
    bool strong = false;
    bool read_only = false;
    Scope scope = Scope::kCta;
    uint64_t site = 0;
  };

  Snapshot Release(ThreadId thread);
  bool Ordered(const Entry& entry, ThreadId before) const;
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
  std::unordered_map<uint64_t, std::vector<Entry>> words_;
  std::map<uint64_t, History> histories_;
  std::map<uint64_t, uint32_t> fenced_newest_;  ///< what the last fence.sc knew
  std::vector<Race> races_;
  std::set<std::tuple<uint64_t, uint64_t, bool, bool>> reported_;
};

}  // namespace cupola::sim
