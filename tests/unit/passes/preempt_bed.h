// A test bed for preemptible variants on the stepped device: a program's launches of one kernel, a
// host thread that asks them to yield and resumes them as the agent does, and checks of all that must
// hold. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/sim/stepped/search.h"
#include "tests/unit/passes/preempt_subject.h"

namespace cupola::passes {

/// What happens in a run. The parameters of the launch are those of runtime::PreemptParams.
struct Course {
  uint32_t workers = 2;               ///< of the first physical launch
  uint32_t batch = 3;                 ///< L: blocks that a worker claims at once
  uint32_t flags = 0;
  uint32_t stride = 2;                ///< of claims, if the grid has one dimension; else it is 1
  uint32_t single_blocks = 0;         ///< at least so many blocks at the end are claimed one by one
  uint32_t resume_workers = 2;        ///< workers of each resume
  uint32_t poll_period_ns = 50;
  uint32_t look_after_ns = 0;
  uint32_t fresh_after_ns = 0;
  uint32_t launches = 1;              ///< one after the other on one stream, with slots in turn
  std::vector<uint64_t> ask_at_step;  ///< when the host asks; it resumes when the launch has yielded
  /// In place of `ask_at_step`: the host asks when so many blocks of the first launch have begun.
  std::vector<uint32_t> ask_at_block;
  std::vector<uint32_t> bounds;       ///< SM bound of each request; kAllSms for those beyond the list
  /// A request is withdrawn after so many steps although the launch has not yielded.
  uint64_t withdraws_after = UINT64_MAX;
  sim::Granularity granularity = sim::Granularity::kWarp;
  bool stale_reads = true;            ///< reads may be stale, as the memory model allows
  bool find_races = true;             ///< look for races; with neither a run takes a fraction of the time
  bool has_watcher = false;           ///< physical launches of two and more workers have a watcher
  uint32_t sm_count = 2;
  uint32_t blocks_per_sm = 2;
};

/// How the last run of a scenario went; set by its check.
struct Account {
  uint64_t steps = 0;
  uint32_t resumes = 0;   ///< physical launches beyond the first of a launch
  uint32_t yields = 0;    ///< physical launches that ended before their launch was done
  uint32_t returned = 0;  ///< entries of the lists of returned blocks that were used
  /// How many blocks of the first launch had begun at each of its resumes. If all workers had left,
  /// these have all run.
  std::vector<uint32_t> resumed_at;
};

/// The scenario of a course. It checks that the buffers equal the plain run's and that the host can
/// read them once it has acquired `done`, that each block runs once, that counters, lists and host
/// words are as the protocol says, that no worker leaves unasked, and that there is no race and no
/// deadlock.
sim::Scenario MakeScenario(const Subject& subject, const Course& course,
                           std::shared_ptr<Account> account);

}  // namespace cupola::passes
