#include "intercept/record/ring_writer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "intercept/process/fast_clock.h"

namespace cupola::intercept {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kNameChunk = 256u << 10;  // name bytes that get their disk blocks at a time
constexpr int kMostFilesOfAProcess = 64;     // file names that are tried for one process id

constexpr uint64_t PageUp(uint64_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }

// Where the parts of the file begin, in bytes: header, name bytes, slots of the ring, slots of all
// lanes. Each part begins on a page.
constexpr uint64_t kNamesAt = PageUp(sizeof(RecordsHeader));
constexpr uint64_t kSlotsAt = kNamesAt + PageUp(kNameBytes);
constexpr uint64_t kLanesAt = kSlotsAt + PageUp(kSlots * sizeof(LaunchRecord));
constexpr uint64_t kFileBytes = kLanesAt + kLanes * kLaneSlots * sizeof(LaneRecord);

// Makes the file under the first name that is free. Returns its descriptor, or -1 with errno set.
int MakeFile(const char* folder) {
  for (int attempt = 0; attempt < kMostFilesOfAProcess; ++attempt) {
    char path[4096];
    const int bytes =
        attempt == 0 ? snprintf(path, sizeof(path), "%s/%d.launches", folder, getpid())
                     : snprintf(path, sizeof(path), "%s/%d.%d.launches", folder, getpid(), attempt);
    if (bytes < 0 || static_cast<size_t>(bytes) >= sizeof(path)) {
      errno = ENAMETOOLONG;
      return -1;
    }
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

}  // namespace

bool RingWriter::Open(const char* folder, const char** why) noexcept {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < kFileBytes) {
    *why = "the limit on file sizes (ulimit -f) is below 30 MB";  // to exceed it raises SIGXFSZ
    return false;
  }
  const int file = MakeFile(folder);
  if (file < 0) {
    *why = strerror(errno);
    return false;
  }
  // The header, the first chunk of names and all slots get their disk blocks now: without them, a
  // write on a full disk would raise SIGBUS later.
  if (ftruncate(file, kFileBytes) != 0 || posix_fallocate(file, 0, kNamesAt + kNameChunk) != 0 ||
      posix_fallocate(file, kSlotsAt, kFileBytes - kSlotsAt) != 0) {
    *why = "no space for the file of launch records";
    close(file);
    return false;
  }
  void* memory = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) {
    *why = strerror(errno);
    return false;
  }
  char* base = static_cast<char*>(memory);
  names_ = base + kNamesAt;
  names_ready_ = kNameChunk;
  slots_ = reinterpret_cast<LaunchRecord*>(base + kSlotsAt);
#ifdef MADV_POPULATE_WRITE
  madvise(slots_, kFileBytes - kSlotsAt, MADV_POPULATE_WRITE);  // no page faults on the launch path
#endif
  header_ = new (base) RecordsHeader{};
  header_->version = kRecordsVersion;
  header_->pid = static_cast<uint32_t>(getpid());
  header_->slots = kSlots;
  header_->start_ns = MonotonicNs();
  const ssize_t bytes =
      readlink("/proc/self/exe", header_->executable, sizeof(header_->executable) - 1);
  header_->executable[bytes > 0 ? bytes : 0] = '\0';
  for (uint32_t i = 0; i < kLanes; ++i) {
    lanes_[i] = LaneWriter{};
    lanes_[i].slots_ = reinterpret_cast<LaneRecord*>(base + kLanesAt) + size_t{i} * kLaneSlots;
    lanes_[i].lane_ = &header_->lanes[i];
  }
  no_lane_ = LaneWriter{};
  no_lane_.lane_ = &full_lane_;
  header_->names_used.store(1, std::memory_order_relaxed);  // offset 0 means unknown
  // The magic is stored last, with release: a reader that sees it sees the rest.
  std::atomic_ref<uint32_t>(header_->magic).store(kRecordsMagic, std::memory_order_release);
  return true;
}

// Gives the next chunk of the name bytes its disk blocks; without them, a write on a full disk
// raises SIGBUS. Linux before 5.14 cannot be asked for that: there the names end with the first
// chunk.
bool RingWriter::ReadyNames(uint64_t end) noexcept {
  while (names_ready_ < end) {
#ifdef MADV_POPULATE_WRITE
    if (madvise(names_ + names_ready_, kNameChunk, MADV_POPULATE_WRITE) != 0) return false;
    names_ready_ += kNameChunk;
#else
    return false;
#endif
  }
  return true;
}

LaneWriter* RingWriter::TakeLane(uint32_t thread_id) noexcept {
  for (uint32_t i = 0; i < kLanes; ++i) {
    uint32_t nobody = 0;
    // Acquire, with FreeLane's release: this thread sees all that the lane's last thread did to it.
    // It goes on in the lane where that thread ended; the file has the lane's tail and head.
    if (!header_->lanes[i].owner.compare_exchange_strong(nobody, thread_id,
                                                         std::memory_order_acquire)) {
      continue;
    }
    lanes_[i].tail_ = header_->lanes[i].tail.load(std::memory_order_relaxed);
    lanes_[i].head_seen_ = header_->lanes[i].head.load(std::memory_order_acquire);
    return &lanes_[i];
  }
  return &no_lane_;
}

void RingWriter::FreeLane(LaneWriter* lane) noexcept {
  lane->lane_->owner.store(0, std::memory_order_release);
}

// `launches` in the header counts the kernel launches that are recorded in the ring. Those recorded
// in a lane are counted by the lane's tail, which only grows.
uint64_t RingWriter::LaunchesSeen() const noexcept {
  uint64_t launches = header_->launches.load(std::memory_order_relaxed);
  for (const Lane& lane : header_->lanes) launches += lane.tail.load(std::memory_order_relaxed);
  return launches;
}

// Only one thread at a time calls this, so that names_used is read without ordering. It is stored
// with release after the name's bytes: a reader that sees the new value sees the name.
uint32_t RingWriter::AddName(std::string_view name) noexcept {
  const uint32_t at = header_->names_used.load(std::memory_order_relaxed);
  if (name.empty() || name.size() >= kNameBytes - at) return 0;
  if (!ReadyNames(at + name.size() + 1)) return 0;
  memcpy(names_ + at, name.data(), name.size());
  names_[at + name.size()] = '\0';
  header_->names_used.store(at + static_cast<uint32_t>(name.size()) + 1, std::memory_order_release);
  return at;
}

}  // namespace cupola::intercept
