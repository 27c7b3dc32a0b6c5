// Decides when launches are held back to go to the driver together, and when that pays. Pure: it calls no
// driver and reads no clock. Owned by batches.cpp, which calls it under its lock. docs/launches-in-batches.md.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cupola::intercept::batches {

/// The sizes of the graphs as which batches are launched, in launches.
inline constexpr uint32_t kGraphSizes[] = {32, 16, 8, 4};
/// How many graphs there are of each size. There is more than one because batches of 32 follow each other,
/// and a graph that is launched again while it runs waits on the device for itself.
inline constexpr uint32_t kGraphsOfSize[] = {4, 2, 2, 2};
inline constexpr uint32_t kMostHeld = kGraphSizes[0];    ///< launches are held back at a time, at most
inline constexpr uint32_t kLeastBatch = kGraphSizes[3];  ///< launches make a batch, at least

/// A row: launches of one stream that follow each other with no other call between them.
class BatchRow {
 public:
  static constexpr uint64_t kGapNs = 20'000;  ///< a longer pause of the program ends a row
  static constexpr uint64_t kHoldNs = 15'000;  ///< a batch that began so long ago is made with the next launch
  static constexpr uint32_t kUnforeseen = 16;  ///< after so many launches a row is held even after a short row

  /// Whether the launch that comes at `now_ns` is to be held: the previous row was long enough for a batch, or
  /// this one is long already.
  bool Holds(uint64_t now_ns) noexcept {
    if (now_ns - last_ns_ > kGapNs) End();
    last_ns_ = now_ns;
    return length_++ >= kUnforeseen || previous_ >= kLeastBatch;
  }

  /// Ends the row: another call came, or a launch that cannot be held, or one into another stream.
  void End() noexcept {
    if (length_ != 0) previous_ = length_;
    length_ = submitted_ = 0;
  }

  /// How many launches are held before they are submitted. Few at first, since the device waits for them.
  uint32_t Wanted() const noexcept {
    if (submitted_ == 0) return 8;
    return submitted_ < 24 ? 16 : kMostHeld;
  }
  /// Whether nothing of this row has been submitted yet.
  bool IsNew() const noexcept { return submitted_ == 0; }
  void AddSubmitted(uint32_t launches) noexcept { submitted_ += launches; }

  /// Called when the program paused with launches held back: the next row has to grow long before it is held.
  void StartAnew() noexcept { length_ = previous_ = submitted_ = 0; }

 private:
  uint32_t length_ = 0;     ///< launches in this row
  uint32_t previous_ = 0;   ///< launches in the previous row
  uint32_t submitted_ = 0;  ///< launches of this row that were submitted
  uint64_t last_ns_ = 0;    ///< time of the last launch
};

/// Decides whether batches pay: launches must follow each other so closely that the host is the bottleneck,
/// and must go out faster in batches than before.
class BatchWorth {
 public:
  static constexpr uint32_t kSampleLaunches = 64;     ///< launches in a sample
  static constexpr uint32_t kSamples = 4;             ///< samples in a row before batches begin
  static constexpr uint64_t kHostBoundNs = 8'000;     ///< longest mean time between launches of a sample
  static constexpr uint32_t kWindowLaunches = 1'024;  ///< launches in a window, after which batches are judged
  static constexpr uint32_t kFirstSkip = 128;         ///< length of the first pause of batches, in samples
  static constexpr uint32_t kMostSkip = 16'384;       ///< length of the longest one, in samples

  /// Reports a sample: kSampleLaunches launches of a thread into one stream took `ns`. True: batches may
  /// begin.
  bool AddSample(uint64_t ns) noexcept {
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

  /// Reports a window: kWindowLaunches launches took `ns`; `batched` of them were in graphs, and `late` times
  /// the program paused with launches held back. False: batches are to end for a while; whoever ends them calls Skip.
  bool JudgeWindow(uint64_t ns, uint32_t batched, uint32_t late) noexcept {
    constexpr uint32_t kMostLate = 8;
    ++windows_;
    const uint64_t plain_ns = plain_ns_ * (kWindowLaunches / kSampleLaunches);
    const bool pays = batched >= kWindowLaunches / 2 && late <= kMostLate && ns < plain_ns * 95 / 100;
    if (pays) {
      strikes_ = 0;
      return true;
    }
    return ++strikes_ < kStrikes;
  }

  /// Called when batches could not begin or do not pay. A number of samples, more each time, are ignored
  /// before they are tried again; only few if they have paid for long.
  void Skip() noexcept {
    constexpr uint32_t kLong = 16;
    pause_ = windows_ >= kLong || pause_ == 0 ? kFirstSkip : std::min(4 * pause_, kMostSkip);
    skip_ = pause_;
  }

 private:
  static constexpr uint32_t kStrikes = 2;  ///< windows in a row that do not pay, until batches end
  uint32_t skip_ = 0;      ///< samples that are still to be ignored
  uint32_t pause_ = 0;     ///< what skip_ was last set to
  uint32_t samples_ = 0;   ///< close samples in a row
  uint32_t windows_ = 0;   ///< since batches began
  uint32_t strikes_ = 0;   ///< windows in a row that did not pay
  uint64_t sum_ns_ = 0;    ///< of the samples in a row
  uint64_t plain_ns_ = 0;  ///< mean time of a sample before batches began
};

}  // namespace cupola::intercept::batches
