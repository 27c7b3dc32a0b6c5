// LaunchRingReader: the consumer's side of one file of launch records (profiles/launch_record.h).
//
// One thread owns it. The writer is another process, alive or gone. Nothing that the writer leaves
// in the file, and no file of another kind, can crash the reader: what breaks the format is an
// Error.
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

/// One launch record, copied out of the ring or a lane. `name` is valid as long as the reader
/// lives; it is empty where the kernel has no known name. The other fields are those of
/// LaunchRecord, joined with the device times that followed; kFlagTimesFollow is cleared.
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
  uint32_t batch = 0;  ///< the claim word (claim_word.h)
  uint16_t flags = 0;
  RecordKind kind = RecordKind::kKernel;
  LaunchDoor door = LaunchDoor::kLaunchKernel;
  uint64_t ticket = kNoTicket;  ///< its place in the ring; kNoTicket = it came through a lane
};

/// The writer's own counters. They also count records that were dropped from the ring.
struct LaunchTotals {
  uint64_t launches = 0;            ///< kernel launches
  uint64_t graph_launches = 0;
  uint64_t graph_kernel_nodes = 0;  ///< kernels inside launched graphs
  uint64_t captured = 0;            ///< launches recorded into graphs
  uint64_t dropped = 0;             ///< records lost because the ring was full
};

/// Whether the writer may still complete a claimed slot.
enum class WriterState : uint8_t {
  kAlive,  ///< an incomplete slot ends the drain, because it will be completed
  kGone,   ///< an incomplete slot is a hole that a killed thread left, and is skipped
};

class LaunchRingReader {
 public:
  /// The largest number of launches that wait for their device times; they take about 9 MB.
  static constexpr size_t kMostWaiting = 1u << 16;

  /// Maps the file at `path`. kExhausted: the writer has not finished making it; try again later.
  /// kDamaged: it is not a file of launch records, or it is cut short. kUnsupported: it is of
  /// another version. kIo: the system refused.
  static Result<std::unique_ptr<LaunchRingReader>> Open(const std::string& path);

  ~LaunchRingReader();
  LaunchRingReader(const LaunchRingReader&) = delete;
  LaunchRingReader& operator=(const LaunchRingReader&) = delete;

  /// Takes every complete record, lane after lane and then the ring, each oldest first, and frees
  /// its slot. Hands each launch to `sink` and returns how many it handed over. A launch whose
  /// device times follow waits for them in the reader. It goes untimed when the writer gave up or
  /// is gone, or when it is the oldest of kMostWaiting. Each call takes at most one ring's worth,
  /// so that a busy writer cannot hold the caller. kDamaged: the file was cut short, or its tickets
  /// make no sense; the reader is of no use after that.
  Result<size_t> Drain(WriterState writer, const std::function<void(const Launch&)>& sink);

  uint32_t pid() const { return pid_; }
  /// CLOCK_MONOTONIC in ns when the writer made the file.
  uint64_t start_ns() const { return start_ns_; }
  /// The path of the program, as the writer saw it, cut at 255 bytes.
  const std::string& executable() const { return executable_; }
  /// Slots that a killed thread had claimed and not completed.
  uint64_t holes() const { return holes_; }
  /// The writer's counters so far.
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
  /// Launches that wait for device times, by ticket; at most kMostWaiting.
  std::map<uint64_t, Launch> waiting_;
};

}  // namespace cupola
