// RingWriter: the writing side of a file of launch records (profiles/launch_record.h has the layout
// and the protocol). Claim, fill and publish are lock-free and make no system call; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "profiles/launch_record.h"

namespace cupola::intercept {

/// Slots written ahead of need: the reader has had their lines, and a line that comes late holds up
/// every store behind it.
inline constexpr uint64_t kFetchAhead = 8;

/// Asks for the cache line of `address` to write to it. PREFETCHW takes the line from the reader's
/// core; __builtin_prefetch makes PREFETCHT0 of it where the compiler may not count on PREFETCHW,
/// and that leaves the line shared. Processors of x86-64 without it do nothing [Intel SDM vol. 2B].
inline void FetchToWrite(const void* address) noexcept {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
}

/// The lane of one thread, as that thread sees it. Used by that thread only.
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
  uint64_t tail_ = kLaneSlots;  // full for ever, until it is bound to a lane
  uint64_t head_seen_ = 0;
};

class RingWriter {
 public:
  /// Makes and maps `<folder>/<pid>.launches` (`<pid>.<n>.launches` where a program of this process
  /// id was there before, as after exec), mode 0600. Returns false, with a reason in `why`, if it
  /// cannot. Never called twice on one object.
  bool Open(const char* folder, const char** why) noexcept;

  /// A slot to fill, or null when the ring is full. Counted as dropped only where a launch is lost.
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

  /// Appends a name to the name bytes. Returns its offset, 0 when there is no room. The caller
  /// makes sure that only one thread is here.
  uint32_t AddName(std::string_view name) noexcept;

  /// The name at an offset that AddName gave; null for 0.
  const char* NameAt(uint32_t offset) const noexcept {
    return offset != 0 ? names_ + offset : nullptr;
  }

  /// A free lane for thread `thread_id`, which keeps it until FreeLane; where none is free, one
  /// that is always full. Lock-free, no system call.
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
  uint64_t names_ready_ = 0;  // name bytes that have blocks on the disk
  LaunchRecord* slots_ = nullptr;
  LaneWriter lanes_[kLanes];
  LaneWriter no_lane_;
  Lane full_lane_{};  // of no_lane_
};

}  // namespace cupola::intercept
