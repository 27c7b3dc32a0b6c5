// Decides whether tasks pay. A task saves a launch, but a kernel's body takes somewhat longer as a
// task than by itself, and the blocks of one launch share an SM. So where long tasks are what holds
// streams up, rather than the host's launches, plain launches are as fast or faster
// [measured: docs/tasks.md, "When tasks pay"]. The process has one, `worth`: task_times.cpp reports to it
// what it measures, each launch asks it, and batches/ tell it how long launches take in batches.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/settings/variables.h"

namespace cupola::intercept::tasks {

/// Decides by how long each of a stream's tasks takes, which run one after the other. Makes no CUDA
/// call and reads no clock: `now_ns` is of any clock that only goes forward. Any thread; when two
/// threads tell it something at the same time, one of them may be lost. It is one cache line, since
/// each launch asks it.
class alignas(64) TaskWorth {
 public:
  /// Host time that a plain launch or a copy takes.
  static constexpr uint64_t kPlainCallNs = 3'000;
  /// Where only one stream has tasks, a task of one block may take this long: it is then at most 2
  /// % slower than a plain launch.
  static constexpr uint64_t kAloneNs = 9'000;
  /// A plain launch of an empty kernel that is waited for at once takes this long; as a task, 4 us.
  static constexpr uint64_t kWaitedForNs = 9'000;
  /// When tasks do not pay, none are made for this long.
  static constexpr uint64_t kFirstQuietNs = settings::Fallback("CUPOLA_TASK_QUIET_MS") * 1'000'000;
  /// Each time that they do not pay again, the pause is this many times longer.
  static constexpr uint64_t kLonger = 4;
  /// The longest pause, in units of the first one.
  static constexpr uint64_t kMostQuiet = 20;
  /// After this many verdicts in a row that tasks do not pay, no more are made for a while.
  static constexpr uint32_t kConvincing = 3;

  /// Replaces all limits below: a task may take `ns` however many streams there are; 0: any time.
  void SetLimit(uint64_t ns) noexcept {
    is_set_ = true;
    set_ns_ = ns;
    if (ns == 0) trial_.store(0, std::memory_order_relaxed);
  }

  /// Replaces kFirstQuietNs.
  void SetFirstQuiet(uint64_t ns) noexcept { first_quiet_ns_ = ns; }

  /// Number of the trial that is on, or 0. During a trial each stream may have only a few tasks
  /// (task_trial.h), because it is not known how long they take: at first, and again after a while
  /// without tasks.
  uint32_t Trial() const noexcept { return trial_.load(std::memory_order_relaxed); }

  /// Has no trials: how long tasks take is then only measured where columns are full and where the
  /// host waits for tasks.
  void SkipTrials() noexcept {
    skips_trials_ = true;
    EndTrial();
  }

  void EndTrial() noexcept { trial_.store(0, std::memory_order_relaxed); }
  void BeginTrial() noexcept {
    if (skips_trials_) return;
    trial_.store(trials_.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Says that tasks pay; ends the trial.
  void Acquit() noexcept {
    against_.store(0, std::memory_order_relaxed);
    quiet_ns_.store(0, std::memory_order_relaxed);
    EndTrial();
  }

  /// Says that tasks do not pay: none are made for a while, after which a trial begins (Pays).
  void Convict(uint64_t now_ns) noexcept {
    against_.store(0, std::memory_order_relaxed);
    const uint64_t quiet = std::clamp(kLonger * quiet_ns_.load(std::memory_order_relaxed),
                                      first_quiet_ns_, kMostQuiet * first_quiet_ns_);
    quiet_ns_.store(quiet, std::memory_order_relaxed);
    quiet_until_ns_.store(now_ns + quiet, std::memory_order_relaxed);
  }

  /// How long a task may take where `streams` streams have tasks. `spreads`: it has several blocks,
  /// which a plain launch would spread over SMs.
  uint64_t LimitNs(uint32_t streams, bool spreads) const noexcept {
    if (is_set_) return set_ns_ == 0 ? UINT64_MAX : set_ns_;
    const uint64_t batched = batched_ns_.load(std::memory_order_relaxed);
    if (streams == 1 && batched != 0) return batched;
    return std::max(streams * kPlainCallNs, spreads ? 0 : kAloneNs);
  }

  /// Launches into one stream go out in batches, which take `ns` for each launch
  /// (batches/batches.h); as tasks they may take no longer. 0: they do not go out in batches.
  void SetBatched(uint64_t ns) noexcept { batched_ns_.store(ns, std::memory_order_relaxed); }

  /// Reports a measurement: each of a stream's tasks takes at least `least_ns` and at most
  /// `most_ns`, while `streams` streams have tasks.
  void Tell(uint64_t now_ns, uint64_t least_ns, uint64_t most_ns, uint32_t streams,
            bool spreads) noexcept {
    const uint64_t limit = LimitNs(streams, spreads);
    if (most_ns <= limit) {
      Acquit();
    } else if (least_ns > limit) {
      if (against_.fetch_add(1, std::memory_order_relaxed) + 1 >= kConvincing) Convict(now_ns);
    }
  }

  /// Whether tasks may be made. Costs one load if they may; otherwise calls `now`. When the pause
  /// has lasted long enough, calls `before_end` before any thread is told that tasks pay again.
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

  /// Whether the pause lasts in which no tasks are made. Only Pays ends it.
  bool IsQuiet() const noexcept { return quiet_until_ns_.load(std::memory_order_acquire) != 0; }

 private:
  bool is_set_ = false;                      ///< SetLimit was called
  bool skips_trials_ = false;                ///< SkipTrials was called
  uint64_t set_ns_ = 0;                      ///< of SetLimit; 0: any time
  uint64_t first_quiet_ns_ = kFirstQuietNs;  ///< length of the first pause
  std::atomic<uint32_t> against_{0};         ///< verdicts in a row that tasks do not pay
  std::atomic<uint32_t> trial_{1};           ///< number of the trial that is on; 0: none
  std::atomic<uint32_t> trials_{1};          ///< trials so far
  std::atomic<uint64_t> quiet_ns_{0};        ///< length of the last pause; 0 once tasks have paid
  std::atomic<uint64_t> quiet_until_ns_{0};  ///< end of the present pause; 0: there is none
  std::atomic<uint64_t> batched_ns_{0};      ///< of SetBatched
};

/// The one of this process.
extern TaskWorth worth;

}  // namespace cupola::intercept::tasks
