// When launches are held back to go to the driver together, and when that pays. Pure: no driver, no clock.
// One thread at a time. docs/launches-in-batches.md.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cupola::intercept::batches {

/// The sizes of graphs that batches are launched as, and how many graphs there are of each: one of 32 comes
/// behind one of 32, and who launches a graph again while it runs waits on the device for it.
inline constexpr uint32_t kGraphSizes[] = {32, 16, 8, 4};
inline constexpr uint32_t kGraphsOfSize[] = {4, 2, 2, 2};
inline constexpr uint32_t kMostHeld = kGraphSizes[0];
inline constexpr uint32_t kLeastBatch = kGraphSizes[3];

/// Launches of one stream that follow each other with no other call between them.
class BatchRow {
 public:
  static constexpr uint64_t kGapNs = 20'000;  ///< a longer pause of the program ends a row
  static constexpr uint64_t kHoldNs = 15'000;  ///< a launch is held so long, until the next one comes
  static constexpr uint32_t kUnforeseen = 16;  ///< a row of which nothing is known is held from here on

  /// A launch comes at `now_ns`. Whether it is to be held: the row before was long enough for a batch, or
  /// this one is long already.
  bool Holds(uint64_t now_ns) noexcept {
    if (now_ns - last_ns_ > kGapNs) End();
    last_ns_ = now_ns;
    return length_++ >= kUnforeseen || previous_ >= kLeastBatch;
  }

  /// Another call came, or a launch that cannot be held, or one into another stream.
  void End() noexcept {
    if (length_ != 0) previous_ = length_;
    length_ = submitted_ = 0;
  }

  /// How many are held before they are submitted. Few at first, since the device waits for them.
  uint32_t Wanted() const noexcept {
    if (submitted_ == 0) return 8;
    return submitted_ < 24 ? 16 : kMostHeld;
  }
  /// Nothing of this row has been submitted.
  bool IsNew() const noexcept { return submitted_ == 0; }
  void NoteSubmitted(uint32_t launches) noexcept { submitted_ += launches; }

  /// The program paused with launches held back: the next row has to grow long before it is held.
  void NoteLate() noexcept { length_ = previous_ = submitted_ = 0; }

 private:
  uint32_t length_ = 0, previous_ = 0;
  uint32_t submitted_ = 0;  ///< of this row
  uint64_t last_ns_ = 0;
};

/// Whether batches pay: launches follow each other so closely that the host is behind, and go out faster
/// than before.
class BatchWorth {
 public:
  static constexpr uint32_t kSampleLaunches = 64;
  static constexpr uint32_t kSamples = 4;          ///< in a row
  static constexpr uint64_t kHostBoundNs = 8'000;  ///< a launch takes so long at most, all together
  static constexpr uint32_t kWindowLaunches = 1'024;
  static constexpr uint32_t kFirstSkip = 128, kMostSkip = 16'384;  // samples

  /// kSampleLaunches launches of a thread into one stream took `ns`. True: batches may begin.
  bool NoteSample(uint64_t ns) noexcept {
    if (skip_ != 0) {
      --skip_;
      return false;
    }
    if (ns > kSampleLaunches * kHostBoundNs) {
      samples_ = 0;
      sum_ns_ = 0;
      return false;
    }
    sum_ns_ += ns;
    if (++samples_ < kSamples) return false;
    plain_ns_ = sum_ns_ / samples_;  // of kSampleLaunches
    samples_ = windows_ = strikes_ = 0;
    sum_ns_ = 0;
    return true;
  }

  /// kWindowLaunches launches took `ns`, of which `batched` were in graphs; `late` times the program paused
  /// with launches held back. False: batches are to end, for a while.
  bool NoteWindow(uint64_t ns, uint32_t batched, uint32_t late) noexcept {
    constexpr uint32_t kMostLate = 8;
    ++windows_;
    const uint64_t plain_ns = plain_ns_ * (kWindowLaunches / kSampleLaunches);
    const bool pays = batched >= kWindowLaunches / 2 && late <= kMostLate && ns < plain_ns * 95 / 100;
    if (pays) {
      strikes_ = 0;
      return true;
    }
    if (++strikes_ < kStrikes) return true;
    Skip();
    return false;
  }

  /// They could not begin, or do not pay: so many samples, and more each time, pass before they are tried
  /// again; few where they have paid for long.
  void Skip() noexcept {
    constexpr uint32_t kLong = 16;
    pause_ = windows_ >= kLong || pause_ == 0 ? kFirstSkip : std::min(4 * pause_, kMostSkip);
    skip_ = pause_;
  }

 private:
  static constexpr uint32_t kStrikes = 2;
  uint32_t skip_ = 0, pause_ = 0;
  uint32_t samples_ = 0, windows_ = 0, strikes_ = 0;
  uint64_t sum_ns_ = 0, plain_ns_ = 0;
};

}  // namespace cupola::intercept::batches
