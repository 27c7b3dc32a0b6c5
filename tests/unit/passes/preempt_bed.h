// A bed for preemptible variants: a program's launches of one kernel on the stepped device, a host
// thread that asks them to yield and resumes them as the agent does, and checks of all that must
// hold. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/sim/stepped/search.h"
#include "tests/unit/passes/preempt_subject.h"

namespace cupola::passes {

struct Course {
  uint32_t workers = 2, batch = 3, flags = 0;
  uint32_t stride = 2;                ///< of claims, where the grid has one dimension; else 1
  uint32_t single_blocks = 0;         ///< at least so many at the end are claimed one by one
  uint32_t resume_workers = 2;
  uint32_t poll_period_ns = 50;
  uint32_t look_after_ns = 0, fresh_after_ns = 0;
  uint32_t launches = 1;              ///< one after the other on one stream, slots by turns
  std::vector<uint64_t> ask_at_step;  ///< when the host asks; it resumes once that has worked
  /// Instead: the host asks once so many blocks of the first launch have begun.
  std::vector<uint32_t> ask_at_block;
  std::vector<uint32_t> bounds;           ///< of the asks, kAllSms where there are fewer
  uint64_t withdraws_after = UINT64_MAX;  ///< steps after which an ask is withdrawn though it has not
                                          ///< worked
  sim::Granularity granularity = sim::Granularity::kWarp;
  bool stale_reads = true, find_races = true;  ///< neither: the run takes a fraction of the time
  bool has_watcher = false;           ///< of physical launches of two workers and more
  uint32_t sm_count = 2, blocks_per_sm = 2;
};

/// How the last run of a scenario went; set by its check.
struct Account {
  uint64_t steps = 0;
  uint32_t resumes = 0;   ///< physical launches beyond the first of a launch
  uint32_t yields = 0;    ///< physical launches that ended before their launch was done
  uint32_t returned = 0;  ///< places of the lists that were used
  /// How many blocks of the first launch had begun at each of its resumes: where all had left, run.
  std::vector<uint32_t> resumed_at;
};

/// The scenario of a course. What is checked: buffers equal to the plain run's and readable by the
/// host once it has acquired `done`, each block once, counters, lists and host words as the
/// protocol says, nobody leaves unasked, no race, no deadlock.
sim::Scenario MakeScenario(const Subject& subject, const Course& course,
                           std::shared_ptr<Account> account);

}  // namespace cupola::passes
