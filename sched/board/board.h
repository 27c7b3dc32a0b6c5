// The board of one GPU: shared memory through which processes, and the arbiter if there is one, tell
// each other who wants the GPU and who is to yield. Made by `cupola serve`, handed to clients as a
// file descriptor; a board works on without its daemon. Fixed layout, used from several processes:
// every field is an atomic with one writer unless it says otherwise. Times are of the daemon's
// CLOCK_MONOTONIC, which in another time namespace is another one (BoardClient::OnBoard). Design section 6.
//
// The way in, without a round trip: a client that gets work publishes `demand`, then sets its bit in the
// yield line of every slot in its `may_take` mask and wakes that slot's agent. When its demand has
// ended it clears the bits (yield_protocol.h has these steps and their ordering argument). The daemon
// reviews: it computes `may_take`, sets its own bit (kDaemonBit) to enforce shares, and clears what
// the dead left behind. A client learns of the board by BoardClient (board_client.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "device/runtime/preempt_control.h"
#include "sched/held_for.h"

namespace cupola::sched {

inline constexpr uint32_t kBoardMagic = 0x43555042;  // "CUPB"
inline constexpr uint32_t kBoardVersion = 4;
inline constexpr uint32_t kBoardSlots = 256;
/// Number of the daemon among those that ask a process to yield; the others have their slots' numbers.
inline constexpr uint32_t kDaemonBit = kBoardSlots;

/// The word that the GPU reads has 64 bits: one for each of the first slots, one that says that some
/// of the others ask (BoardSlot::more_requests says which), and one for the daemon.
inline constexpr uint32_t kDirectSlots = 62;
inline constexpr uint64_t kMoreRequests = uint64_t{1} << 62, kDaemonRequest = uint64_t{1} << 63;

inline constexpr uint32_t kMaskWords = kBoardSlots / 64;

/// A set of slots, as a value.
struct SlotSet {
  uint64_t words[kMaskWords] = {};

  void Add(uint32_t slot) { words[slot / 64] |= uint64_t{1} << slot % 64; }
  void Remove(uint32_t slot) { words[slot / 64] &= ~(uint64_t{1} << slot % 64); }
  bool Has(uint32_t slot) const { return (words[slot / 64] >> slot % 64 & 1) != 0; }
  bool IsEmpty() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
  bool operator==(const SlotSet&) const = default;
};
static_assert(kMaskWords == 4, "SlotSet::IsEmpty");

/// The same in memory that several processes read; words are changed one by one.
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
  /// Of the first 64 slots those whose bits are set, and no other.
  void store(uint64_t first) { store(SlotSet{.words = {first}}); }
};

enum class SlotState : uint32_t {
  kFree,
  kLive,   ///< belongs to process `pid`
  kLeft,   ///< its process says that it has left; the daemon will free it
};

/// What a launch may do to a process; what a process is able to do when asked.
enum SlotCapability : uint32_t {
  kCanPreempt = 1,        ///< has preemptible variants and a working agent
  kCanGate = 2,           ///< holds back its streams when its gate is closed
  kSharesContext = 4,     ///< under MPS: launch priorities and spatial sharing work
};

/// One process. Three 128-byte parts by writer: the process, the daemon, anyone.
struct alignas(128) BoardSlot {
  // Written by the daemon when it admits the process.
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> pid;
  std::atomic<uint32_t> uid;
  std::atomic<int32_t> priority;      ///< higher runs first
  std::atomic<uint32_t> weight;       ///< share under FFS, >= 1
  std::atomic<uint32_t> paused;       ///< by `cupola ctl pause`
  SharedSlotSet may_take;             ///< slots that a demand of this one may stop: standing decision
  std::atomic<uint64_t> process_start;  ///< start time of the pid (proc(5) stat field 22)
  char name[40];                      ///< of the executable, NUL-terminated
  std::atomic<uint64_t> latency_bound_ns;  ///< 0 = none
  std::atomic<uint32_t> gate;         ///< 1 open, 0 closed: word of cuStreamWaitValue32
  std::atomic<HeldFor> may_be_held;  ///< the daemon may come to ask it to yield in its own name
  std::atomic<uint32_t> has_kernel_rules;  ///< 1: its settings go by the kernel that it launches
  std::atomic<uint32_t> reserved0;

  // Written by the process.
  alignas(128) std::atomic<uint32_t> capabilities;
  std::atomic<uint32_t> demand;       ///< odd while it has work on the GPU or waiting: +1 at each change
  std::atomic<uint64_t> demand_since_ns;    ///< on the board's clock
  std::atomic<uint64_t> demand_until_ns;    ///< the lease: after it the demand counts as ended
  std::atomic<uint64_t> remaining_ns;       ///< predicted, of the launch at the head
  std::atomic<uint32_t> sms_wanted;         ///< SMs its launch needs; kAllSms = the whole GPU
  std::atomic<uint32_t> stopped;            ///< 1 once it has yielded what was asked; who asks anew
                                            ///< takes it back. Means something while it is asked
  std::atomic<uint64_t> launches;           ///< counters, for `cupola top`
  std::atomic<uint64_t> preemptions;
  std::atomic<uint64_t> resumes;
  std::atomic<uint64_t> gpu_ns;             ///< time its work has had the GPU
  std::atomic<uint64_t> waited_ns;          ///< time it wanted the GPU and did not have it
  char kernel[40];                          ///< name of the kernel launched last, may be torn
  std::atomic<uint64_t> overhead_ns;        ///< predicted cost of stopping its launch; 0 = unknown

  // Written by anyone who may take the GPU from this process.
  alignas(128) std::atomic<uint64_t> yield_requests;  ///< runtime::YieldLine::requests
  std::atomic<uint32_t> yield_sm_bound;               ///< runtime::YieldLine::sm_bound
  std::atomic<uint32_t> yield_reserved;
  std::atomic<uint32_t> wake;  ///< futex of the agent: +1 whenever yield_requests or gate changes
  std::atomic<uint32_t> agent_sleeps;  ///< by the agent: 1 while it may be asleep on `wake`
  SharedSlotSet asked;                 ///< by the process: slots that it has asked to yield
  SharedSlotSet more_requests;         ///< those of kDirectSlots and above that ask, for kMoreRequests
  std::atomic<uint32_t> not_now;      ///< by the process: not 0 while nobody may ask it to yield
  std::atomic<uint32_t> being_asked;  ///< threads that may be about to set a bit of yield_requests: +1
                                      ///< before they look at not_now, -1 when they have set it, or not
  // Written by the daemon.
  std::atomic<uint64_t> granted_ns;      ///< when it decided last that the process has the GPU, on the board's clock
  std::atomic<uint32_t> granted_demand;  ///< for which `demand` that was; stored behind granted_ns
  std::atomic<uint32_t> reserved1[5];
};
static_assert(sizeof(BoardSlot) == 384);
static_assert(offsetof(BoardSlot, granted_ns) == 352);
static_assert(offsetof(BoardSlot, capabilities) == 128 && offsetof(BoardSlot, yield_requests) == 256);
static_assert(sizeof(std::atomic<uint64_t>) == 8 && std::atomic<uint64_t>::is_always_lock_free);

/// The head of the shared memory; slots follow, from byte 4096.
struct alignas(128) BoardHeader {
  std::atomic<uint32_t> magic;
  std::atomic<uint32_t> version;
  std::atomic<uint32_t> slots;         ///< kBoardSlots
  std::atomic<uint32_t> daemon_pid;    ///< 0 once it has left in order
  std::atomic<uint64_t> daemon_beat_ns;  ///< on the board's clock, of its last review
  char gpu_uuid[64];                   ///< "GPU-..." or "SIM-0", NUL-terminated
  std::atomic<uint32_t> policy;        ///< for display
  std::atomic<uint64_t> epoch;         ///< FFS rounds so far
  std::atomic<uint32_t> attention;     ///< by the daemon: 1 = it wants to hear of changes of demand
  std::atomic<uint32_t> sm_count;      ///< SMs of the GPU; 0 = unknown
  std::atomic<uint32_t> daemon_uid;
  std::atomic<uint32_t> spatial;       ///< 1: those that share a context ask for the SMs they need
  std::atomic<uint32_t> extra_sms;     ///< and for so many more; 0 above: always for the whole GPU
  std::atomic<uint32_t> decisions;     ///< +1 behind a change of some slot's may_take or may_be_held
  std::atomic<uint32_t> used_slots;    ///< slots that the daemon ever gave are below it; 0 = unknown
  std::atomic<uint64_t> clock_namespace;  ///< ClockNamespace() of the daemon; 0 = unknown
  // Written by anyone who has news for the daemon.
  alignas(128) std::atomic<uint32_t> bell;  ///< futex: +1 at each change that the daemon is to see
  std::atomic<uint32_t> bell_sleepers;      ///< daemon threads that sleep on `bell`
};
static_assert(sizeof(BoardHeader) <= 4096);

inline constexpr uint64_t kSlotsOffset = 4096;
inline constexpr uint64_t kBoardBytes = kSlotsOffset + kBoardSlots * sizeof(BoardSlot);

}  // namespace cupola::sched
