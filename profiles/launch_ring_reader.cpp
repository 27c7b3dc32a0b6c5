#include "profiles/launch_ring_reader.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cupola {
namespace {

// The layout of the file: four parts, each aligned to a page (4 KiB on x86-64).
constexpr uint64_t kPage = 4096;
constexpr uint64_t RoundUp(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
constexpr uint64_t kNamesOffset = RoundUp(sizeof(RecordsHeader));
constexpr uint64_t kSlotsOffset = kNamesOffset + RoundUp(kNameBytes);
constexpr uint64_t kLanesOffset = kSlotsOffset + RoundUp(kSlots * sizeof(LaunchRecord));
constexpr uint64_t kFileBytes = kLanesOffset + kLanes * kLaneSlots * sizeof(LaneRecord);

Error FileError(ErrorCode code, const std::string& path, std::string message) {
  return MakeError(code, std::move(message), Location{.file = path});
}

Error SystemError(const std::string& path, const char* what) {
  return FileError(ErrorCode::kIo, path, std::string(what) + ": " + std::strerror(errno));
}

/// Whether this reader understands `header`.
Status CheckHeader(const std::string& path, const RecordsHeader& header) {
  // The process that makes the file stores the magic last.
  const uint32_t magic = std::atomic_ref<uint32_t>(const_cast<uint32_t&>(header.magic))
                             .load(std::memory_order_acquire);
  if (magic == 0) return FileError(ErrorCode::kExhausted, path, "launch records not ready yet");
  if (magic != kRecordsMagic) {
    return FileError(ErrorCode::kDamaged, path, "not a file of launch records");
  }
  if (header.version != kRecordsVersion) {
    return FileError(ErrorCode::kUnsupported, path,
                     "launch records of version " + std::to_string(header.version) +
                         "; this cupola reads version " + std::to_string(kRecordsVersion));
  }
  if (header.slots != kSlots) {
    return FileError(ErrorCode::kDamaged, path,
                     "a ring of " + std::to_string(header.slots) + " slots, not " +
                         std::to_string(kSlots));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<LaunchRingReader>> LaunchRingReader::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return SystemError(path, "cannot open the launch records");
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return FileError(ErrorCode::kDamaged, path, "not a file of launch records");
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  // The header may be there before the rest of the file. It tells "not ready" from "cut short".
  uint32_t magic = 0;
  const bool has_magic = pread(fd, &magic, sizeof(magic), 0) == sizeof(magic);
  if (size < kFileBytes) {
    close(fd);
    if (!has_magic || magic == 0) {
      return FileError(ErrorCode::kExhausted, path, "launch records not ready yet");
    }
    return FileError(ErrorCode::kDamaged, path,
                     magic == kRecordsMagic ? "launch records cut short"
                                            : "not a file of launch records");
  }
  void* base = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    Error error = SystemError(path, "cannot map the launch records");
    close(fd);
    return error;
  }
  std::unique_ptr<LaunchRingReader> reader(
      new LaunchRingReader(path, fd, static_cast<uint8_t*>(base)));
  if (Status status = CheckHeader(path, *reader->header_); !status) {
    return std::move(status).error();
  }
  reader->pid_ = reader->header_->pid;
  reader->start_ns_ = reader->header_->start_ns;
  const char* executable = reader->header_->executable;
  reader->executable_.assign(executable, strnlen(executable, sizeof(reader->header_->executable)));
  return reader;
}

LaunchRingReader::LaunchRingReader(std::string path, int fd, uint8_t* base)
    : path_(std::move(path)),
      fd_(fd),
      base_(base),
      header_(reinterpret_cast<RecordsHeader*>(base)),
      slots_(reinterpret_cast<LaunchRecord*>(base + kSlotsOffset)),
      lane_slots_(reinterpret_cast<const LaneRecord*>(base + kLanesOffset)) {}

LaunchRingReader::~LaunchRingReader() {
  munmap(base_, kFileBytes);
  close(fd_);
}

Status LaunchRingReader::CheckSize() const {
  // Reading a mapped page beyond the end of its file raises a bus error, so the size is checked
  // before each drain. The folder is private to the user, so nobody shortens a file by accident
  // between this check and the read.
  struct stat info {};
  if (fstat(fd_, &info) != 0) return SystemError(path_, "cannot look at the launch records");
  if (static_cast<uint64_t>(info.st_size) < kFileBytes) {
    return FileError(ErrorCode::kDamaged, path_, "launch records cut short");
  }
  return {};
}

Result<size_t> LaunchRingReader::Drain(WriterState writer,
                                       const std::function<void(const Launch&)>& sink) {
  if (Status status = CheckSize(); !status) return std::move(status).error();
  size_t count = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    const Result<size_t> taken = DrainLane(i, sink);
    if (!taken) return taken;
    count += *taken;
  }
  const Result<size_t> taken = DrainRing(writer, sink);
  if (!taken) return taken;
  return count + *taken;
}

// Takes all records of a lane. Returns their number.
Result<size_t> LaunchRingReader::DrainLane(uint32_t index,
                                           const std::function<void(const Launch&)>& sink) {
  Lane& lane = header_->lanes[index];
  const uint64_t head = lane.head.load(std::memory_order_relaxed);  // only this reader writes it
  const uint64_t tail = lane.tail.load(std::memory_order_acquire);
  if (tail - head > kLaneSlots) {
    return FileError(ErrorCode::kDamaged, path_,
                     "records " + std::to_string(head) + " to " + std::to_string(tail) +
                         " do not fit lane " + std::to_string(index));
  }
  for (uint64_t at = head; at != tail; ++at) {
    sink(Copy(lane_slots_[size_t{index} * kLaneSlots + at % kLaneSlots]));
    // Release: the copy above is done before the writer may use this slot again.
    lane.head.store(at + 1, std::memory_order_release);
  }
  return static_cast<size_t>(tail - head);
}

// Takes the records of the ring that lie between head and the tail as it is now. Behind them, if
// the writer is gone, no device times follow any more: the launches that wait for theirs are handed
// to `sink` untimed. Returns the number of launches handed to `sink`.
Result<size_t> LaunchRingReader::DrainRing(WriterState writer,
                                           const std::function<void(const Launch&)>& sink) {
  uint64_t head = header_->head.load(std::memory_order_relaxed);  // only this reader writes it
  const uint64_t tail = header_->tail.load(std::memory_order_acquire);
  if (tail - head > kSlots) {
    return FileError(ErrorCode::kDamaged, path_,
                     "tickets " + std::to_string(head) + " to " + std::to_string(tail) +
                         " do not fit the ring");
  }
  size_t count = 0;
  for (; head != tail; ++head) {
    LaunchRecord& record = slots_[head % kSlots];
    const bool complete = record.sequence.load(std::memory_order_acquire) == head + 1;
    if (!complete && writer == WriterState::kAlive) break;
    if (complete) {
      count += Take(head, record, sink);
    } else {
      ++holes_;
    }
    // Release: the copy above is done before a writer may claim this slot again.
    header_->head.store(head + 1, std::memory_order_release);
  }
  while (writer == WriterState::kGone && !waiting_.empty()) count += HandOnOldest(sink);
  return count;
}

// Takes one record of the ring: a launch, which is handed to `sink` or waits in waiting_ for its
// device times; or device times, with which the launch that waits for them is handed to `sink`.
// Returns the number of launches handed over.
size_t LaunchRingReader::Take(uint64_t ticket, const LaunchRecord& record,
                              const std::function<void(const Launch&)>& sink) {
  if (record.kind == RecordKind::kDeviceTimes) {
    // The device times may belong to no launch here: it was handed on untimed, or its slot was a
    // hole.
    const auto entry = waiting_.find(record.launch_ticket);
    if (entry == waiting_.end()) return 0;
    if ((record.flags & kFlagDeviceTimed) != 0) {
      entry->second.device_start_ns = record.device_start_ns;
      entry->second.device_end_ns = record.device_end_ns;
      entry->second.flags |= kFlagDeviceTimed;
    }
    sink(entry->second);
    waiting_.erase(entry);
    return 1;
  }
  Launch launch = Copy(record);
  launch.ticket = ticket;
  if ((launch.flags & kFlagTimesFollow) == 0) {
    sink(launch);
    return 1;
  }
  launch.flags &= static_cast<uint16_t>(~kFlagTimesFollow);
  const size_t handed_on = waiting_.size() == kMostWaiting ? HandOnOldest(sink) : 0;
  waiting_.emplace(ticket, launch);
  return handed_on;
}

// Hands the launch that has waited longest for its device times to `sink`, untimed. Returns 1.
size_t LaunchRingReader::HandOnOldest(const std::function<void(const Launch&)>& sink) {
  sink(waiting_.begin()->second);
  waiting_.erase(waiting_.begin());
  return 1;
}

// The name at an offset in the name bytes; empty for 0 (unknown) and for an offset outside of them.
std::string_view LaunchRingReader::NameAt(uint32_t offset) const {
  if (offset == 0 || offset >= kNameBytes) return {};
  const char* name = reinterpret_cast<const char*>(base_ + kNamesOffset) + offset;
  return {name, strnlen(name, kNameBytes - offset)};
}

Launch LaunchRingReader::Copy(const LaunchRecord& record) const {
  Launch launch;
  launch.call_start_ns = record.call_start_ns;
  launch.call_end_ns = record.call_end_ns;
  launch.device_start_ns = record.device_start_ns;
  launch.device_end_ns = record.device_end_ns;
  launch.stream = record.stream;
  launch.context = record.context;
  launch.name = NameAt(record.name_offset);
  launch.thread_id = record.thread_id;
  std::memcpy(launch.grid, record.grid, sizeof(launch.grid));
  std::memcpy(launch.block, record.block, sizeof(launch.block));
  launch.shared_bytes = record.shared_bytes;
  launch.kernel_nodes = record.kernel_nodes;
  launch.result = record.result;
  launch.batch = record.batch;
  launch.flags = record.flags;
  launch.kind = record.kind;
  launch.door = record.door;
  return launch;
}

Launch LaunchRingReader::Copy(const LaneRecord& record) const {
  Launch launch;
  launch.call_start_ns = record.call_start_ns;
  launch.call_end_ns = record.call_start_ns + record.call_ns;
  launch.stream = record.stream;
  launch.context = record.context;
  launch.name = NameAt(record.name_offset);
  launch.thread_id = record.thread_id;
  std::memcpy(launch.grid, record.grid, sizeof(launch.grid));
  for (int i = 0; i < 3; ++i) launch.block[i] = record.block[i];
  launch.shared_bytes = record.shared_bytes;
  launch.flags = record.flags;
  launch.door = record.door;
  return launch;
}

LaunchTotals LaunchRingReader::totals() const {
  LaunchTotals totals;
  if (!CheckSize()) return totals;
  totals.launches = header_->launches.load(std::memory_order_relaxed);
  for (const Lane& lane : header_->lanes) {
    totals.launches += lane.tail.load(std::memory_order_relaxed);
  }
  totals.graph_launches = header_->graph_launches.load(std::memory_order_relaxed);
  totals.graph_kernel_nodes = header_->graph_kernel_nodes.load(std::memory_order_relaxed);
  totals.captured = header_->captured.load(std::memory_order_relaxed);
  totals.dropped = header_->dropped.load(std::memory_order_relaxed);
  return totals;
}

}  // namespace cupola
