// The experiments of `cupola tune`: a program whose launches take turns, plain and as preemptible
// variants, and one that is interrupted from outside through a board of our own. Main thread.
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

/// A kernel at one shape: mangled name, grid, block, shared memory, as a text.
std::string ShapeOf(const TimedLaunch& launch);

/// Without the first launch of each shape as a variant and the first one plain, in each process that
/// has more of that kind: they find caches cold, and the time of a first variant is also that of
/// loading it.
std::vector<TimedLaunch> WithoutCold(std::vector<TimedLaunch> launches);

/// Of the time of all launches of kernels with a variant, the part of those shapes that were launched
/// in each of `turns` at least so many times; 0: no launch went out as a variant. What a shape does
/// not do at its turn is not wanted of it: another L, or being a variant at all.
double ShareWithAllTurns(const std::vector<TimedLaunch>& launches,
                         const std::vector<uint32_t>& turns, size_t times);

/// By what was tried (profiles/claim_word.h), the smallest L first.
using Overheads = std::map<uint32_t, double, profiles::ClaimLess>;

/// By kernel and L: the mean over the shapes of median(variant) / median(plain) - 1, in percent. Of
/// shapes that were seen at least so many times in both forms; kernels without any are absent.
std::map<std::string, Overheads> CompareForms(
    const std::vector<TimedLaunch>& launches, size_t times);

/// Of what was tried, not empty, the one that stops soonest among those that stay clearly within the
/// bound: within half of it, since a few launches of each say no more than some tenths of a percent.
/// Where there is none, among those within the bound; where there is none either, the best one.
Overheads::const_iterator ChooseBatch(const Overheads& tried, double bound_percent);

/// An interruption: asked to yield from `begin_ns` to `end_ns`, CLOCK_MONOTONIC.
struct Interruption {
  uint64_t begin_ns;
  uint64_t stopped_ns;  ///< when it was seen to have stopped; 0 = it was not
  uint64_t end_ns;
};

/// What the interruptions of a launch added to it, besides the time that it was stopped: the work
/// not done while it drained, and what it took to go on. By kernel, a sample a launch, without
/// `when`; the mean of one interruption, below 0 where the launch happened to be that much faster
/// than usual. Of launches that were running when they were asked, and stopped each time. `usual`
/// are launches without any; those of the same shape and L are compared.
std::map<std::string, std::vector<profiles::PreemptionSample>> InterruptionCosts(
    const std::vector<TimedLaunch>& interrupted, const std::vector<Interruption>& interruptions,
    const std::vector<TimedLaunch>& usual);

/// How the program's kernels are launched in a run.
struct FormOfRun {
  /// Turns that the launches of each shape take: how the variant claims, or 0 = plain.
  std::vector<uint32_t> turns = {};
  /// Without turns: kernels that go out as variants, and how they claim.
  std::map<std::string, uint32_t> batches = {};
  uint64_t interrupt_every_ns = 0;  ///< 0 = not interrupted
  uint64_t interrupt_for_ns = 0;
};

/// Runs the program once, on a board of our own (CUPOLA_BOARD), with CUPOLA_PREEMPT=turns or with a
/// plan of our own (CUPOLA_PLAN). `interruptions` (may be null) gets those that were made.
Result<MeasuredRun> RunForm(const PreparedRun& run, const FormOfRun& form,
                            std::vector<Interruption>* interruptions);

}  // namespace cupola
