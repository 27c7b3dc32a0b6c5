// The stream of launch records, which the preloaded library writes and a consumer reads.
//
// The library makes one file for each process, in the folder that CUPOLA_RECORDS names; both sides
// map it. Its parts, in this order and each aligned to a page, are:
//   RecordsHeader | name bytes [kNameBytes] | LaunchRecord slots [kSlots]
//                 | LaneRecord slots [kLanes][kLaneSlots]
// The threads of the process that launch are the writers (intercept/record/). One consumer in
// another process, a `cupola` command, reads (profiles/launch_ring_reader.h), also after the
// writing process was killed. A writer never waits: when the ring is full the record is dropped and
// counted.
//
// Lanes. A thread that launches takes a lane for itself, if one is free, and gives it back when it
// ends. Those of its launches go there that fit a LaneRecord (see there). A lane has one writer, so
// its protocol needs no read-modify-write and its slots stay in the writer's cache. The writer
// fills slot tail % kLaneSlots and stores tail + 1 with release order. The reader loads tail
// (acquire), copies, and stores head with release order. A full lane loses nothing: a record that
// does not go into the lane, for whatever reason, goes to the ring. So a thread's launches come in
// order, except for those that found the lane full.
//
// The ring, that is, the LaunchRecord slots. Its *tickets* number the records in it from 0. A
// writer loads `tail`. When tail - head >= kSlots it adds one to `dropped` and gives up. Otherwise
// it claims ticket tail by compare-exchange (tail -> tail + 1), fills slot ticket % kSlots and
// stores sequence = ticket + 1 with release order. The reader takes ticket t when slot t % kSlots
// has sequence == t + 1 (acquire), copies it, and then stores head = t + 1 with release order. A
// writer that was killed between claim and store leaves a hole, which the reader skips once the
// process is gone.
//
// Device times. A launch is published when its call has returned, so that it survives however the
// process ends. A launch that is timed has kFlagTimesFollow. A record of kDeviceTimes with its
// ticket follows when the device is done with it, or when the writer gives up. None follows when
// the process was killed before, or when the ring was full at that time.
#pragma once

#include <atomic>
#include <cstdint>

namespace cupola {

inline constexpr uint32_t kRecordsMagic = 0x4C505543;  // "CUPL"
inline constexpr uint32_t kRecordsVersion = 3;
inline constexpr uint64_t kNameBytes = 16u << 20;  ///< room for the names of kernels, in bytes
inline constexpr uint32_t kSlots = 1u << 16;       ///< records in the ring
inline constexpr uint32_t kLanes = 16;
inline constexpr uint32_t kLaneSlots = 1u << 12;   ///< records in a lane

/// What a record describes.
enum class RecordKind : uint8_t {
  kKernel = 1,        ///< one kernel launch
  kGraph = 2,         ///< one graph launch: `kernel_nodes` kernels inside it, counted apart
  kCapturedKernel = 3,  ///< a launch recorded into a graph that is being captured: nothing ran
  /// Not a launch: the device times of the launch of ticket `launch_ticket`. Only that, `flags` and
  /// `device_*_ns` are valid; without kFlagDeviceTimed in `flags` the launch stays untimed.
  kDeviceTimes = 4,
};

/// The call through which the program made the launch.
enum class LaunchDoor : uint8_t {
  kLaunchKernel = 1,             ///< cuLaunchKernel
  kLaunchKernelEx = 2,           ///< cuLaunchKernelEx
  kLaunchCooperative = 3,        ///< cuLaunchCooperativeKernel
  kLaunchCooperativeMulti = 4,   ///< cuLaunchCooperativeKernelMultiDevice
  kLaunchGraph = 5,              ///< cuGraphLaunch
  kLegacy = 6,                   ///< cuLaunch, cuLaunchGrid, cuLaunchGridAsync
};

enum LaunchFlag : uint16_t {
  kFlagPerThreadStream = 1,  ///< the _ptsz form, or stream handle 2 (per-thread default stream)
  kFlagLegacyStream = 2,     ///< stream handle 0 or 1 (legacy default stream)
  kFlagPackedArgs = 8,       ///< the arguments came packed, through `extra`
  kFlagCooperative = 16,
  kFlagDeviceTimed = 32,     ///< device_start_ns and device_end_ns are valid
  kFlagFailed = 64,          ///< the driver refused the launch: `result` is its CUresult
  kFlagTimesFollow = 128,    ///< a record of kDeviceTimes may follow
  kFlagPreemptible = 256,    ///< the launch went out as its preemptible or sliced variant; only
                             ///< records in the ring say so, not those in lanes
  kFlagGated = 512,          ///< the launch went out plain in a process whose streams have gates
  kFlagWayKnown = 1024,      ///< kFlagPreemptible and kFlagGated say how the launch went out; so in records of launches
                             ///< that were to be timed on the device, and in no others
};

/// One launch, in 128 bytes (two cache lines). Times are nanoseconds of CLOCK_MONOTONIC.
struct LaunchRecord {
  std::atomic<uint64_t> sequence;  ///< ticket + 1 once complete
  uint64_t call_start_ns;          ///< when the program called
  /// When the driver's call returned; call_start_ns where that was not measured.
  uint64_t call_end_ns;
  /// When the kernel started on the device, on the host's clock; valid with kFlagDeviceTimed.
  uint64_t device_start_ns;
  uint64_t device_end_ns;          ///< when it ended there; valid with kFlagDeviceTimed
  uint64_t stream;  ///< 0 = legacy default stream, else an id that is unique in the process
  uint64_t context;                ///< CUcontext handle
  uint32_t name_offset;            ///< NUL-terminated kernel name in the name bytes; 0 = unknown
  uint32_t thread_id;              ///< gettid() of the caller
  uint32_t grid[3];                ///< in blocks: x, y, z
  uint32_t block[3];               ///< in threads: x, y, z
  uint32_t shared_bytes;           ///< dynamic shared memory of a block
  uint32_t kernel_nodes;           ///< of kGraph: number of kernel nodes inside
  int32_t result;                  ///< CUresult
  uint16_t flags;                  ///< LaunchFlag
  RecordKind kind;
  LaunchDoor door;
  uint64_t launch_ticket;          ///< of kDeviceTimes: the ticket of its launch
  /// With kFlagPreemptible: the claim word (claim_word.h); 0 = the launch went out sliced.
  uint32_t batch;
  uint32_t reserved[3];
};
static_assert(sizeof(LaunchRecord) == 128);

/// A kernel launch that the driver accepted, that was not captured and that has no device times, in
/// one cache line. Launches whose block or stream does not fit its narrower members go to the ring.
struct alignas(64) LaneRecord {
  uint64_t call_start_ns;  ///< when the program called, CLOCK_MONOTONIC
  uint64_t context;        ///< CUcontext handle
  /// Host time in the driver's call, in ns, at most UINT32_MAX; 0 = not measured.
  uint32_t call_ns;
  uint32_t stream;         ///< as in LaunchRecord, like the members below
  uint32_t name_offset;
  uint32_t thread_id;
  uint32_t grid[3];
  uint32_t shared_bytes;
  uint16_t block[3];
  uint16_t flags;          ///< LaunchFlag
  LaunchDoor door;
};
static_assert(sizeof(LaneRecord) == 64);

/// The indexes of a lane. The lane has had `tail` launches in all.
struct Lane {
  alignas(64) std::atomic<uint64_t> tail;   ///< records written; written by the lane's thread
  /// gettid() of that thread; 0 = the lane is free; any thread may take a free one.
  std::atomic<uint32_t> owner;
  alignas(64) std::atomic<uint64_t> head;   ///< records consumed; written by the reader
};

struct RecordsHeader {
  uint32_t magic;                       ///< kRecordsMagic; stored last: 0 = the file is not ready
  uint32_t version;
  uint32_t pid;
  uint32_t slots;                       ///< kSlots of the writer
  uint64_t start_ns;                    ///< CLOCK_MONOTONIC when the file was made
  char executable[256];                 ///< /proc/self/exe, cut at 255 bytes
  alignas(64) std::atomic<uint64_t> tail;     ///< next ticket; any writer adds to it
  alignas(64) std::atomic<uint64_t> head;     ///< tickets consumed; written by the reader
  /// Launches lost because the ring was full; lost records of kDeviceTimes do not count.
  alignas(64) std::atomic<uint64_t> dropped;
  /// Kernel launches seen, recorded or not, without those in lanes.
  std::atomic<uint64_t> launches;
  std::atomic<uint64_t> graph_launches;
  std::atomic<uint64_t> graph_kernel_nodes;
  std::atomic<uint64_t> captured;             ///< launches that were recorded into graphs
  std::atomic<uint32_t> names_used;           ///< bytes used of the name bytes
  Lane lanes[kLanes];
};

}  // namespace cupola
