// The experiments of `cupola tune`: a program's kernels plain and as preemptible variants, run by
// run in turn, and interrupted from outside through a board of our own. Main thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/prepare_run.h"
#include "cli/profile_run.h"

namespace cupola {

/// A kernel at one shape: mangled name, grid, block, shared memory, as a text.
std::string ShapeOf(const TimedLaunch& launch);

/// What the variants with one L cost, by kernel.
struct VariantCost {
  double overhead_percent = 0;  ///< mean over the shapes of: median of the variant / of plain - 1
  size_t shapes = 0;            ///< that were seen in both forms
};

/// Whether every shape of a kernel that went out as a variant was seen in both forms, twice at
/// least.
bool BothFormsSeen(const std::vector<TimedLaunch>& launches);

/// From the launches of runs in both forms; variants among `plain` are passed over. Kernels that
/// never went out as a variant are absent.
std::map<std::string, VariantCost> CompareForms(const std::vector<TimedLaunch>& plain,
                                                const std::vector<TimedLaunch>& variant);

/// An interruption: asked to yield from `begin_ns` to `end_ns`, CLOCK_MONOTONIC.
struct Interruption {
  uint64_t begin_ns, end_ns;
};

/// What each interruption that ended inside of a launch added to it, besides the time that it held
/// the launch: by kernel, ns, the mean over a launch's interruptions. `usual` are launches without
/// any.
std::map<std::string, std::vector<uint64_t>> InterruptionCosts(
    const std::vector<TimedLaunch>& interrupted, const std::vector<Interruption>& interruptions,
    const std::vector<TimedLaunch>& usual);

/// The forms that a run may take.
struct FormOfRun {
  bool variant = false;                     ///< all launches that can be
  /// Not empty: every other launch of each of these kernels, the plain ones between them.
  std::vector<std::string> alternate = {};
  uint32_t batch = 1;                       ///< L
  uint64_t interrupt_every_ns = 0;          ///< 0 = not interrupted
  uint64_t interrupt_for_ns = 0;
};

/// Runs the program once. The variant is forced by CUPOLA_PREEMPT=always and CUPOLA_BATCH, plain by
/// CUPOLA_PREEMPT=off, taking turns by a plan of our own (CUPOLA_PLAN). `interruptions` (may be
/// null) gets those that were made.
Result<MeasuredRun> RunForm(const PreparedRun& run, const FormOfRun& form,
                            std::vector<Interruption>* interruptions);

}  // namespace cupola
