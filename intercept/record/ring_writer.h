// RingWriter: the writing side of a file of launch records (profiles/launch_record.h has the layout
// and the protocol). The process has one (record/recorder.h). Any thread may claim, fill and
// publish a slot; that is lock-free and makes no system call.
#pragma once

#include <cstdint>
#include <string_view>

#include "profiles/launch_record.h"

namespace cupola::intercept {

/// How many slots ahead cache lines are fetched. The reader's core has the lines of free slots, and
/// a line that comes late holds up every store behind it.
inline constexpr uint64_t kFetchAhead = 8;

/// Fetches the cache line of `address` for a write. PREFETCHW takes the line from the reader's
/// core. __builtin_prefetch is not used: the compiler makes PREFETCHT0 of it when it may not rely
/// on PREFETCHW, and that leaves the line shared. x86-64 processors without PREFETCHW do nothing
/// [Intel SDM vol. 2B].
inline void FetchToWrite(const void* address) noexcept {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
}

/// The writing side of one lane. Used only by the thread that has the lane.
class LaneWriter {
 public:
  /// The slot for the thread's next launch, or null when the lane is full.
  LaneRecord* NextSlot() noexcept {
    if (tail_ - head_seen_ >= kLaneSlots) [[unlikely]] {
      // Acquire: the reader has copied a slot before it moves head past it.
      head_seen_ = lane_->head.load(std::memory_order_acquire);
      if (tail_ - head_seen_ >= kLaneSlots) return nullptr;
    }
    FetchToWrite(&slots_[(tail_ + kFetchAhead) % kLaneSlots]);
    return &slots_[tail_ % kLaneSlots];
  }
  /// Hands the slot that NextSlot gave to the reader.
  void Publish() noexcept { lane_->tail.store(++tail_, std::memory_order_release); }

 private:
  friend class RingWriter;
  LaneRecord* slots_ = nullptr;
  Lane* lane_ = nullptr;
  uint64_t tail_ = kLaneSlots;  ///< launches written so far; this value: full, bound to no lane yet
  uint64_t head_seen_ = 0;      ///< Lane::head when it was last read
};

class RingWriter {
 public:
  /// Makes and maps `<folder>/<pid>.launches`, mode 0600; `<pid>.<n>.launches` if there is a file
  /// of this process id already, as after exec. Returns false, with a reason in `why`, if that
  /// fails. Called once in a process; a forked child calls it anew.
  bool Open(const char* folder, const char** why) noexcept;

  /// A slot to fill, or null when the ring is full. A launch (`is_launch`) then counts as dropped.
  LaunchRecord* Claim(uint64_t* ticket, bool is_launch = true) noexcept {
    uint64_t tail = header_->tail.load(std::memory_order_relaxed);
    do {
      // Acquire: the reader has copied a slot before it moves head past it.
      if (tail - header_->head.load(std::memory_order_acquire) >= kSlots) [[unlikely]] {
        if (is_launch) header_->dropped.fetch_add(1, std::memory_order_relaxed);
        return nullptr;
      }
    } while (!header_->tail.compare_exchange_weak(tail, tail + 1, std::memory_order_relaxed));
    LaunchRecord* const ahead = &slots_[(tail + kFetchAhead) % kSlots];
    FetchToWrite(ahead);
    FetchToWrite(reinterpret_cast<char*>(ahead) + 64);
    *ticket = tail;
    return &slots_[tail % kSlots];
  }

  /// Hands a filled slot to the reader.
  static void Publish(LaunchRecord* slot, uint64_t ticket) noexcept {
    slot->sequence.store(ticket + 1, std::memory_order_release);
  }

  /// Appends a name to the name bytes. Returns its offset; 0 when there is no room. One caller at a
  /// time.
  uint32_t AddName(std::string_view name) noexcept;

  /// The name at an offset that AddName gave; null for 0.
  const char* NameAt(uint32_t offset) const noexcept {
    return offset != 0 ? names_ + offset : nullptr;
  }

  /// A free lane for thread `thread_id`, which keeps it until FreeLane; if none is free, one that
  /// is always full. Lock-free, no system call.
  LaneWriter* TakeLane(uint32_t thread_id) noexcept;
  /// The lane's thread has made its last launch.
  static void FreeLane(LaneWriter* lane) noexcept;

  /// Kernel launches seen so far.
  uint64_t LaunchesSeen() const noexcept;

  RecordsHeader& header() noexcept { return *header_; }

 private:
  bool ReadyNames(uint64_t end) noexcept;

  RecordsHeader* header_ = nullptr;
  char* names_ = nullptr;
  uint64_t names_ready_ = 0;  ///< name bytes that have blocks on the disk
  LaunchRecord* slots_ = nullptr;
  LaneWriter lanes_[kLanes];
  LaneWriter no_lane_;  ///< for threads that get no lane; always full
  Lane full_lane_{};    ///< the lane that no_lane_ writes
};

}  // namespace cupola::intercept
