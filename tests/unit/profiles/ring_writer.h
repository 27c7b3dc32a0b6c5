// RingWriter: the writer's side of the protocol in profiles/launch_record.h, for tests of the reader.
// It was written a second time from that text alone, so that it does not share the product's errors.
// Write() may be called from several threads.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profiles/launch_record.h"

namespace cupola {

class RingWriter {
 public:
  static constexpr uint64_t kNames = 4096;
  static constexpr uint64_t kSlotsAt = kNames + kNameBytes;
  static constexpr uint64_t kLanesAt = kSlotsAt + uint64_t{kSlots} * sizeof(LaunchRecord);
  static constexpr uint64_t kBytes = kLanesAt + uint64_t{kLanes} * kLaneSlots * sizeof(LaneRecord);
  static_assert(sizeof(RecordsHeader) <= kNames);

  explicit RingWriter(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, kBytes) != 0) return;
    base_ = static_cast<uint8_t*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    RecordsHeader& h = header();
    h.version = kRecordsVersion;
    h.pid = static_cast<uint32_t>(getpid());
    h.slots = kSlots;
    h.start_ns = 1000;
    std::strcpy(h.executable, "/bin/program");
    h.names_used = 1;
    std::atomic_ref<uint32_t>(h.magic).store(kRecordsMagic, std::memory_order_release);
  }
  ~RingWriter() { munmap(base_, kBytes); }

  RecordsHeader& header() { return *reinterpret_cast<RecordsHeader*>(base_); }
  LaunchRecord& slot(uint64_t ticket) {
    return reinterpret_cast<LaunchRecord*>(base_ + kSlotsAt)[ticket % kSlots];
  }
  char* names() { return reinterpret_cast<char*>(base_ + kNames); }

  /// Adds a name and returns its offset. Not thread-safe.
  uint32_t AddName(const std::string& name) {
    const uint32_t at = header().names_used.fetch_add(static_cast<uint32_t>(name.size() + 1));
    std::memcpy(names() + at, name.c_str(), name.size() + 1);
    return at;
  }

  /// Has `fill(LaneRecord&)` write a record into a lane. False: the lane is full. One thread per lane.
  template <typename Fill>
  bool WriteLane(uint32_t index, Fill fill) {
    Lane& lane = header().lanes[index];
    const uint64_t tail = lane.tail.load();
    if (tail - lane.head.load() >= kLaneSlots) return false;
    auto* slots = reinterpret_cast<LaneRecord*>(base_ + kLanesAt) + uint64_t{index} * kLaneSlots;
    LaneRecord& record = slots[tail % kLaneSlots];
    record.door = LaunchDoor::kLaunchKernel;
    fill(record);
    lane.tail.store(tail + 1, std::memory_order_release);
    return true;
  }

  /// Claims a ticket. False: the ring is full; the record counts as dropped.
  bool Claim(uint64_t& ticket) {
    RecordsHeader& h = header();
    ticket = h.tail.load();
    do {
      if (ticket - h.head.load() >= kSlots) {
        h.dropped.fetch_add(1);
        return false;
      }
    } while (!h.tail.compare_exchange_weak(ticket, ticket + 1));
    return true;
  }

  /// Has `fill(LaunchRecord&)` write a claimed slot, and publishes it.
  template <typename Fill>
  void Complete(uint64_t ticket, Fill fill) {
    LaunchRecord& record = slot(ticket);
    record.kind = RecordKind::kKernel;
    record.door = LaunchDoor::kLaunchKernel;
    fill(record);
    record.sequence.store(ticket + 1, std::memory_order_release);
  }

  template <typename Fill>
  bool Write(Fill fill) {
    uint64_t ticket = 0;
    header().launches.fetch_add(1);
    if (!Claim(ticket)) return false;
    Complete(ticket, fill);
    return true;
  }

 private:
  uint8_t* base_ = nullptr;
};

}  // namespace cupola
