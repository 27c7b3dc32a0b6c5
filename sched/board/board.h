// The board of one GPU: the shared memory through which processes, and the daemon if there is one, tell each other who
// wants the GPU and who is to yield. `cupola serve` makes it and hands it to its clients as a file descriptor; a client
// maps it by BoardClient (board_client.h). A board works on without its daemon. Its layout is fixed and several
// processes use it at once: every field is an atomic with one writer unless it says otherwise. Times are of the
// daemon's CLOCK_MONOTONIC ("the board's clock"); a process in another time namespace converts its own by
// BoardClient::OnBoard. Design section 6.
//
// A client gets the GPU without a round trip. When it gets work it publishes `demand`, then sets its bit in the yield
// line of every board slot in its `may_take` mask and wakes that slot's agent. When its demand has ended it clears the
// bits (yield_protocol.h has these steps and their ordering argument). The daemon, at its reviews, computes `may_take`,
// sets its own bit (kDaemonBit) to enforce shares, and clears what dead processes left behind.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "device/runtime/preempt_control.h"
#include "sched/held_for.h"

namespace cupola::sched {

inline constexpr uint32_t kBoardMagic = 0x43555042;  // "CUPB"
inline constexpr uint32_t kBoardVersion = 5;
inline constexpr uint32_t kBoardSlots = 256;
/// The number by which the daemon requests a yield. The other requesters have their board slots' numbers.
inline constexpr uint32_t kDaemonBit = kBoardSlots;

/// The word that the GPU reads has 64 bits: one for each of the first kDirectSlots slots; kMoreRequests, which says
/// that some of the other slots request a yield (BoardSlot::more_requests says which); and kDaemonRequest for the
/// daemon.
inline constexpr uint32_t kDirectSlots = 62;
inline constexpr uint64_t kMoreRequests = uint64_t{1} << 62;
inline constexpr uint64_t kDaemonRequest = uint64_t{1} << 63;

inline constexpr uint32_t kMaskWords = kBoardSlots / 64;

/// A set of board slots, as a value.
struct SlotSet {
  uint64_t words[kMaskWords] = {};

  void Add(uint32_t slot) { words[slot / 64] |= uint64_t{1} << slot % 64; }
  void Remove(uint32_t slot) { words[slot / 64] &= ~(uint64_t{1} << slot % 64); }
  bool Has(uint32_t slot) const { return (words[slot / 64] >> slot % 64 & 1) != 0; }
  bool IsEmpty() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
  bool operator==(const SlotSet&) const = default;
};
static_assert(kMaskWords == 4, "SlotSet::IsEmpty");

/// A set of board slots in memory that several processes read. Its words are changed one by one, so a reader may see a
/// part of a change.
struct SharedSlotSet {
  std::atomic<uint64_t> words[kMaskWords];

  bool Has(uint32_t slot) const { return (words[slot / 64].load() >> slot % 64 & 1) != 0; }
  bool IsEmpty() const {
    uint64_t all = 0;
    for (const auto& word : words) all |= word.load(std::memory_order_relaxed);
    return all == 0;
  }
  SlotSet load() const {
    SlotSet set;
    for (uint32_t i = 0; i < kMaskWords; ++i) set.words[i] = words[i].load();
    return set;
  }
  void store(const SlotSet& set) {
    for (uint32_t i = 0; i < kMaskWords; ++i) words[i].store(set.words[i]);
  }
  /// Makes the set hold those of the first 64 slots whose bits are set in `first`, and no other.
  void store(uint64_t first) { store(SlotSet{.words = {first}}); }
};

enum class SlotState : uint32_t {
  kFree,
  kLive,   ///< belongs to process `pid`
  kLeft,   ///< its process says that it has left; the daemon will free the slot
};

/// What a process is able to do when it is asked to yield.
enum SlotCapability : uint32_t {
  kCanPreempt = 1,        ///< it has preemptible variants and a working agent
  kCanGate = 2,           ///< its streams wait at its gate while that is closed
  kSharesContext = 4,     ///< under MPS: launch priorities and spatial preemption work
};

/// One process. The slot has four 128-byte parts, by writer: the daemon, the process, anyone, and the process once more.
struct alignas(128) BoardSlot {
  // Written by the daemon when it admits the process.
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> pid;
  std::atomic<uint32_t> uid;
  std::atomic<int32_t> priority;      ///< higher runs first
  std::atomic<uint32_t> weight;       ///< share under FFS, >= 1
  std::atomic<uint32_t> paused;       ///< 1 = `cupola ctl pause` has paused the process
  SharedSlotSet may_take;             ///< the standing decision: slots that a demand of this one may ask to yield
  std::atomic<uint64_t> process_start;  ///< start time of the pid (proc(5), stat field 22)
  char name[40];                      ///< of the executable, NUL-terminated
  std::atomic<uint64_t> latency_bound_ns;  ///< 0 = none
  std::atomic<uint32_t> gate;         ///< 1 = open, 0 = closed; the word that cuStreamWaitValue32 waits for
  std::atomic<HeldFor> may_be_held;  ///< for whose sake the daemon may come to ask it to yield in its own name
  std::atomic<uint32_t> has_kernel_rules;  ///< 1 = its settings depend on the kernel that it launches
  std::atomic<uint32_t> reserved0;

  // Written by the process.
  alignas(128) std::atomic<uint32_t> capabilities;
  std::atomic<uint32_t> demand;       ///< odd while it has work on the GPU or waiting; +1 at each change
  std::atomic<uint64_t> demand_since_ns;    ///< when it last became odd, on the board's clock
  std::atomic<uint64_t> demand_until_ns;  ///< the lease, on the board's clock: from then on the demand counts as ended
  std::atomic<uint64_t> remaining_ns;       ///< predicted time that the launch at the head still needs
  std::atomic<uint32_t> sms_wanted;         ///< SMs that its launch needs; kAllSms = the whole GPU
  /// 1 = it has yielded what it was asked; a new request sets it to 0. Meaningful only while it is asked.
  std::atomic<uint32_t> stopped;
  std::atomic<uint64_t> launches;           ///< counter, for `cupola top`
  std::atomic<uint64_t> preemptions;        ///< counter, for `cupola top`
  std::atomic<uint64_t> resumes;            ///< counter, for `cupola top`
  std::atomic<uint64_t> gpu_ns;  ///< time for which launches that stop at blocks have had the GPU
  std::atomic<uint64_t> waited_ns;          ///< time for which it wanted the GPU and did not have it
  char kernel[40];                          ///< name of the kernel launched last; a reader may see a part of a change
  std::atomic<uint64_t> overhead_ns;        ///< predicted cost of stopping its launch; 0 = unknown

  // Written by any process that may take the GPU from this one.
  alignas(128) std::atomic<uint64_t> yield_requests;  ///< runtime::YieldLine::requests
  std::atomic<uint32_t> yield_sm_bound;               ///< runtime::YieldLine::sm_bound
  std::atomic<uint32_t> yield_reserved;
  std::atomic<uint32_t> wake;  ///< the agent's futex: +1 whenever yield_requests or gate changes
  std::atomic<uint32_t> agent_sleeps;  ///< written by the agent: 1 while it may be asleep on `wake`
  SharedSlotSet asked;                 ///< written by the process: slots that it has asked to yield
  SharedSlotSet more_requests;         ///< slots from kDirectSlots on that request a yield; see kMoreRequests
  std::atomic<uint32_t> not_now;      ///< written by the process: not 0 while nobody may ask it to yield
  /// Number of threads that may be about to set a bit of yield_requests: +1 before they read not_now, -1 when they have
  /// set the bit or seen that they may not.
  std::atomic<uint32_t> being_asked;
  // Written by the daemon.
  /// When the daemon last decided that the process has the GPU, on the board's clock.
  std::atomic<uint64_t> granted_ns;
  std::atomic<uint32_t> granted_demand;  ///< the `demand` for which it decided so; stored after granted_ns
  std::atomic<uint32_t> reserved1[5];

  // Written by the process, for `cupola top`.
  alignas(128) std::atomic<uint64_t> between_ns;  ///< GPU time of its launches that stop between kernels, as is expected
  std::atomic<uint64_t> unstoppable_ns;           ///< and of those that do not stop
};
static_assert(sizeof(BoardSlot) == 512);
static_assert(offsetof(BoardSlot, between_ns) == 384);
static_assert(offsetof(BoardSlot, granted_ns) == 352);
static_assert(offsetof(BoardSlot, capabilities) == 128 && offsetof(BoardSlot, yield_requests) == 256);
static_assert(sizeof(std::atomic<uint64_t>) == 8 && std::atomic<uint64_t>::is_always_lock_free);

/// The head of the shared memory. The slots follow from byte 4096 on.
struct alignas(128) BoardHeader {
  std::atomic<uint32_t> magic;
  std::atomic<uint32_t> version;
  std::atomic<uint32_t> slots;         ///< kBoardSlots
  std::atomic<uint32_t> daemon_pid;    ///< 0 once the daemon has left in order
  std::atomic<uint64_t> daemon_beat_ns;  ///< time of the daemon's last review, its sign of life, on the board's clock
  char gpu_uuid[64];                   ///< "GPU-..." or "SIM-0", NUL-terminated
  std::atomic<uint32_t> policy;        ///< for display
  std::atomic<uint64_t> epoch;         ///< FFS rounds so far
  std::atomic<uint32_t> attention;     ///< written by the daemon: 1 = clients are to ring when their demand changes
  std::atomic<uint32_t> sm_count;      ///< SMs of the GPU; 0 = unknown
  std::atomic<uint32_t> daemon_uid;
  std::atomic<uint32_t> spatial;  ///< 1 = processes that share a context ask each other only for the SMs that they need
  std::atomic<uint32_t> extra_sms;     ///< where spatial is 1: SMs that they ask for beside those
  std::atomic<uint32_t> decisions;     ///< +1 after each change of any slot's may_take or may_be_held
  /// Every slot that the daemon has ever given out is below this number; 0 = unknown.
  std::atomic<uint32_t> used_slots;
  std::atomic<uint64_t> clock_namespace;  ///< ClockNamespace() of the daemon; 0 = unknown
  // Written by anyone who has news for the daemon.
  alignas(128) std::atomic<uint32_t> bell;  ///< futex: +1 at each change that the daemon is to see
  std::atomic<uint32_t> bell_sleepers;      ///< 1 while a daemon thread may be asleep on `bell`
};
static_assert(sizeof(BoardHeader) <= 4096);

inline constexpr uint64_t kSlotsOffset = 4096;
inline constexpr uint64_t kBoardBytes = kSlotsOffset + kBoardSlots * sizeof(BoardSlot);

}  // namespace cupola::sched
