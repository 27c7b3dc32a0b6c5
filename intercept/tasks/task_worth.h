// Whether tasks pay. As a task a kernel's body takes somewhat longer than by itself, and blocks of
// one launch share an SM; what a task saves is the launch. So where streams are in order behind
// long tasks, rather than the host behind its launches, plain launches are as fast or faster
// [measured: docs/launches-as-tasks.md, "How narrow"].
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace cupola::intercept::tasks {

/// Decides by how long the tasks of streams take, one after the other. No CUDA call, no clock of
/// its own: `now_ns` is any that goes on. Any thread; two that tell at the same time may lose one.
/// In one cache line: each launch asks.
class alignas(64) TaskWorth {
 public:
  /// A plain launch, or a copy, of the host's time; what a task of one block may take where one
  /// stream alone has tasks, and is no slower than plain by more than 2 %.
  static constexpr uint64_t kPlainCallNs = 3'000, kAloneNs = 9'000;
  /// A plain launch that is waited for at once, with a body of nothing; as a task it is 4 us.
  static constexpr uint64_t kWaitedForNs = 9'000;
  /// None are made for so long where they do not pay, kLonger times as long each time that they do
  /// not again, up to kMostQuiet times as long.
  static constexpr uint64_t kFirstQuietNs = 100'000'000, kLonger = 4, kMostQuiet = 20;
  /// Verdicts in a row that tasks do not pay, until none are made.
  static constexpr uint32_t kConvincing = 3;

  /// Tasks may take so long in streams of any number, in place of all this; 0: any time.
  void SetLimit(uint64_t ns) noexcept {
    is_set_ = true;
    set_ns_ = ns;
    if (ns == 0) trial_.store(0, std::memory_order_relaxed);
  }

  /// In place of kFirstQuietNs.
  void SetFirstQuiet(uint64_t ns) noexcept { first_quiet_ns_ = ns; }

  /// Number of the trial that is on: what tasks take is not known, neither at first nor when none
  /// were made for a while, so streams have few (task_trial.h). 0: none is.
  uint32_t Trial() const noexcept { return trial_.load(std::memory_order_relaxed); }

  /// No trials: what tasks take is seen where columns are full, and when they are waited for.
  void SkipTrials() noexcept {
    skips_trials_ = true;
    EndTrial();
  }

  void EndTrial() noexcept { trial_.store(0, std::memory_order_relaxed); }
  void BeginTrial() noexcept {
    if (skips_trials_) return;
    trial_.store(trials_.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Tasks pay.
  void Acquit() noexcept {
    against_.store(0, std::memory_order_relaxed);
    quiet_ns_.store(0, std::memory_order_relaxed);
    EndTrial();
  }

  /// They do not: none for a while, and then a trial.
  void Convict(uint64_t now_ns) noexcept {
    against_.store(0, std::memory_order_relaxed);
    const uint64_t quiet = std::clamp(kLonger * quiet_ns_.load(std::memory_order_relaxed),
                                      first_quiet_ns_, kMostQuiet * first_quiet_ns_);
    quiet_ns_.store(quiet, std::memory_order_relaxed);
    quiet_until_ns_.store(now_ns + quiet, std::memory_order_relaxed);
  }

  /// What a task may take where `streams` have tasks; `spreads`: of several blocks, which plain
  /// launches spread over SMs.
  uint64_t LimitNs(uint32_t streams, bool spreads) const noexcept {
    if (is_set_) return set_ns_ == 0 ? UINT64_MAX : set_ns_;
    const uint64_t batched = batched_ns_.load(std::memory_order_relaxed);
    if (streams == 1 && batched != 0) return batched;
    return std::max(streams * kPlainCallNs, spreads ? 0 : kAloneNs);
  }

  /// Launches into one stream go out in batches, at one in so many ns all together (batches/batches.h): as
  /// tasks they are not to take longer. 0: they do not.
  void SetBatched(uint64_t ns) noexcept { batched_ns_.store(ns, std::memory_order_relaxed); }

  /// A stream's tasks take at least, and at most so long each.
  void Tell(uint64_t now_ns, uint64_t least_ns, uint64_t most_ns, uint32_t streams,
            bool spreads) noexcept {
    const uint64_t limit = LimitNs(streams, spreads);
    if (most_ns <= limit) {
      Acquit();
    } else if (least_ns > limit) {
      if (against_.fetch_add(1, std::memory_order_relaxed) + 1 >= kConvincing) Convict(now_ns);
    }
  }

  /// One load where they do. `now` is called otherwise; `before_end` when none were made for long
  /// enough, before any thread is told that they pay again.
  template <typename Now, typename BeforeEnd>
  bool Pays(Now&& now, BeforeEnd&& before_end) noexcept {
    const uint64_t until = quiet_until_ns_.load(std::memory_order_acquire);
    if (until == 0) [[likely]]
      return true;
    if (now() < until) return false;
    before_end();
    quiet_until_ns_.store(0, std::memory_order_release);
    BeginTrial();
    return true;
  }

  /// Whether none are made for a while; until Pays has said otherwise.
  bool IsQuiet() const noexcept { return quiet_until_ns_.load(std::memory_order_acquire) != 0; }

 private:
  bool is_set_ = false, skips_trials_ = false;
  uint64_t set_ns_ = 0, first_quiet_ns_ = kFirstQuietNs;
  std::atomic<uint32_t> against_{0}, trial_{1}, trials_{1};
  std::atomic<uint64_t> quiet_ns_{0}, quiet_until_ns_{0};
  std::atomic<uint64_t> batched_ns_{0};
};

/// The process's.
extern TaskWorth worth;

}  // namespace cupola::intercept::tasks
