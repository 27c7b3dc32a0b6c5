// LaunchRingReader: the consumer's side of one launch-record file (profiles/launch_record.h).
//
// Owned by one thread. The writer is another process, alive or gone; nothing it leaves in the file,
// and no file of another kind, can crash the reader: what breaks the format is an Error.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "profiles/launch_record.h"

namespace cupola {

inline constexpr uint64_t kNoTicket = ~uint64_t{0};

/// One launch record, copied out of the ring. `name` is valid while the reader lives; empty = the
/// kernel has no known name. The other fields are those of LaunchRecord, joined with the device
/// times that followed; kFlagTimesFollow is gone.
struct Launch {
  uint64_t call_start_ns = 0;
  uint64_t call_end_ns = 0;
  uint64_t device_start_ns = 0;
  uint64_t device_end_ns = 0;
  uint64_t stream = 0;
  uint64_t context = 0;
  std::string_view name;
  uint32_t thread_id = 0;
  uint32_t grid[3] = {};
  uint32_t block[3] = {};
  uint32_t shared_bytes = 0;
  uint32_t kernel_nodes = 0;
  int32_t result = 0;
  uint32_t batch = 0;  ///< claim_word.h
  uint16_t flags = 0;
  RecordKind kind = RecordKind::kKernel;
  LaunchDoor door = LaunchDoor::kLaunchKernel;
  uint64_t ticket = kNoTicket;  ///< its place in the ring; kNoTicket: it came through a lane
};

/// Counters that the writer keeps for itself; they count what was dropped from the ring, too.
struct LaunchTotals {
  uint64_t launches = 0;            ///< kernel launches
  uint64_t graph_launches = 0;
  uint64_t graph_kernel_nodes = 0;  ///< kernels inside launched graphs
  uint64_t captured = 0;            ///< launches recorded into graphs
  uint64_t dropped = 0;             ///< records lost because the ring was full
};

/// Whether the writer may still complete a claimed slot.
enum class WriterState : uint8_t {
  kAlive,  ///< an incomplete slot ends the drain: it will be completed
  kGone,   ///< an incomplete slot is a hole that a killed thread left: it is skipped
};

class LaunchRingReader {
 public:
  /// Launches that wait for their device times, at most: about 9 MB.
  static constexpr size_t kMostWaiting = 1u << 16;

  /// Maps the file at `path`. kExhausted: the writer has not finished making it, try again later.
  /// kDamaged: not a launch-record file, or cut short. kUnsupported: of another version. kIo.
  static Result<std::unique_ptr<LaunchRingReader>> Open(const std::string& path);

  ~LaunchRingReader();
  LaunchRingReader(const LaunchRingReader&) = delete;
  LaunchRingReader& operator=(const LaunchRingReader&) = delete;

  /// Takes every complete record, lane after lane and then the ring, each oldest first, and frees
  /// its slot. Hands each launch to `sink` and returns how many it handed on. A launch whose device
  /// times follow waits for them, here; it goes untimed when the writer gave up, when it is gone,
  /// or as the oldest of kMostWaiting. At most one ring's worth a call, so that a busy writer
  /// cannot hold the caller. kDamaged: the file was cut short, or its tickets make no sense; the
  /// reader is of no more use then.
  Result<size_t> Drain(WriterState writer, const std::function<void(const Launch&)>& sink);

  uint32_t pid() const { return pid_; }
  /// CLOCK_MONOTONIC when the writer made the file, in ns.
  uint64_t start_ns() const { return start_ns_; }
  /// The program's path, as the writer saw it; cut at 255 bytes.
  const std::string& executable() const { return executable_; }
  /// Slots that a killed thread had claimed and not completed.
  uint64_t holes() const { return holes_; }
  /// What the writer has counted so far.
  LaunchTotals totals() const;

 private:
  LaunchRingReader(std::string path, int fd, uint8_t* base);
  Status CheckSize() const;
  std::string_view NameAt(uint32_t offset) const;
  Launch Copy(const LaunchRecord& record) const;
  Launch Copy(const LaneRecord& record) const;
  Result<size_t> DrainLane(uint32_t index, const std::function<void(const Launch&)>& sink);
  Result<size_t> DrainRing(WriterState writer, const std::function<void(const Launch&)>& sink);
  size_t Take(uint64_t ticket, const LaunchRecord& record,
              const std::function<void(const Launch&)>& sink);
  size_t HandOnOldest(const std::function<void(const Launch&)>& sink);

  std::string path_;
  int fd_;
  uint8_t* base_;
  RecordsHeader* header_;
  LaunchRecord* slots_;
  const LaneRecord* lane_slots_;  ///< [kLanes][kLaneSlots]
  uint32_t pid_ = 0;
  uint64_t start_ns_ = 0;
  std::string executable_;
  uint64_t holes_ = 0;
  std::map<uint64_t, Launch> waiting_;  ///< for device times, by ticket; at most kMostWaiting
};

}  // namespace cupola
