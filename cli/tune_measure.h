// The experiments of `cupola tune`. In one, the launches of a program take turns between plain and preemptible
// launches. In the other, its preemptible launches are asked to yield through a board that we made. RunForm is for the
// main thread; the other functions are pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/prepare_run.h"
#include "cli/profile_run.h"
#include "profiles/claim_word.h"

namespace cupola {

/// The shape of a launch as text: mangled name of the kernel, grid, block, shared memory.
std::string ShapeOf(const TimedLaunch& launch);

/// Removes the first preemptible and the first plain launch of each shape in each process, if the process has more of
/// that kind. The first ones find caches cold, and the time of a first preemptible launch includes loading the
/// variant.
std::vector<TimedLaunch> WithoutCold(std::vector<TimedLaunch> launches);

/// A share of the time of all launches of kernels that have a variant: the share of those shapes that were launched in
/// each of `turns` at least `times` times. A turn that a shape does not take, because it goes out with another L or
/// plain, is not required of that shape. 0 when there was no preemptible launch.
double ShareWithAllTurns(const std::vector<TimedLaunch>& launches,
                         const std::vector<uint32_t>& turns, size_t times);

/// Claim word that was tried (profiles/claim_word.h) -> overhead in percent; the smallest L comes first.
using Overheads = std::map<uint32_t, double, profiles::ClaimLess>;

/// For each kernel and claim word: the mean over the shapes of median(preemptible) / median(plain) - 1, in percent.
/// Only shapes that were launched at least `times` times in both forms count; kernels without such shapes are absent.
std::map<std::string, Overheads> CompareForms(
    const std::vector<TimedLaunch>& launches, size_t times);

/// Chooses from what was tried, which must not be empty, the claim word that stops soonest among those that are clearly
/// within the bound. That means within half of it, because a few launches of each are exact only to some tenths of a
/// percent. Where there is none, chooses among those within the bound; where there is none either, the one with the
/// least overhead.
Overheads::const_iterator ChooseBatch(const Overheads& tried, double bound_percent);

/// One request to yield, from `begin_ns` to `end_ns`. Times are CLOCK_MONOTONIC.
struct Interruption {
  uint64_t begin_ns;
  uint64_t stopped_ns;  ///< when the process was seen to have stopped; 0: it was not seen
  uint64_t end_ns;
};

/// The time that one interruption adds to a launch, besides the time for which the launch was stopped: work that is
/// not done while its workers leave, and the resume. For each kernel there is one sample per launch, without `when`;
/// it is the mean over the launch's interruptions, and below 0 where the launch happened to be that much faster than
/// usual. Only launches count that ran when they were asked to yield, and that stopped each time. `usual` has launches
/// without interruptions; those of the same shape and claim word are compared.
std::map<std::string, std::vector<profiles::PreemptionSample>> InterruptionCosts(
    const std::vector<TimedLaunch>& interrupted, const std::vector<Interruption>& interruptions,
    const std::vector<TimedLaunch>& usual);

/// How the program's kernels are launched in a run.
struct FormOfRun {
  /// The turns that the launches of each shape take: a claim word for a preemptible launch, or 0 for a plain one.
  std::vector<uint32_t> turns = {};
  /// Used when `turns` is empty: kernels that go out as preemptible launches -> claim word.
  std::map<std::string, uint32_t> batches = {};
  uint64_t interrupt_every_ns = 0;  ///< time between requests to yield; 0: no requests
  uint64_t interrupt_for_ns = 0;    ///< duration of a request
};

/// Runs the program once on a board that we make (CUPOLA_BOARD), with CUPOLA_PREEMPT=turns, or with a plan that we
/// make (CUPOLA_PLAN) when `form.turns` is empty. `interruptions` (may be null) gets the requests that were made.
Result<MeasuredRun> RunForm(const PreparedRun& run, const FormOfRun& form,
                            std::vector<Interruption>* interruptions);

}  // namespace cupola
