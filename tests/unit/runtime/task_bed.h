// A test bed for the MasterKernel on the stepped device: a host thread puts tasks into columns,
// launches the MasterKernel when none runs, and waits for the tasks; the bed checks all that must
// hold. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/sim/stepped/search.h"

namespace cupola::runtime {

/// A task that the host thread puts in.
struct BedTask {
  uint32_t column = 0;
  uint16_t body = 0;
  uint16_t threads = 32;
  uint32_t blocks = 1;
  bool barrier = false;
  uint32_t shared_bytes = 0;
  uint16_t after = 0;  ///< TaskHeader::after
  /// Number of the task whose results body 4 reads; the task comes after that one by `after`, or is
  /// put in after its end. -1: body 4 reads what the host has written.
  int reads = -1;
};

/// What the host thread does in a run.
struct BedCourse {
  uint32_t columns = 1;                 ///< of the TaskTable
  uint32_t executors = 2;               ///< executor warps of an MTB
  uint32_t awake = 1;                   ///< columns from which tasks are pulled when the kernel begins
  uint32_t idle_ns = 1u << 30;          ///< the kernel leaves by itself after so long without tasks
  std::vector<BedTask> tasks;           ///< in the order in which they are put in
  std::vector<uint64_t> leave_at_step;  ///< when the host asks the kernel to leave
  bool hurries = false;  ///< the kernel is to leave as soon as the blocks that run have ended
  /// When the host tells that to a kernel that may be leaving already; with `hurries_next`, to the
  /// launch behind it.
  std::vector<uint64_t> hurry_at_step;
  bool hurries_next = false;
  /// A kernel that left in a hurry is expected to have left some tasks to the next one.
  bool keeps_some = false;
  /// Each task is launched by itself, one behind the other; no MasterKernel runs.
  bool is_solo = false;
  std::vector<uint64_t> pause_ns;  ///< virtual time before the task of the same number
  /// When the host puts all columns but the first to sleep, as a thread does that has waited for
  /// all tasks while others put more in. A thread that waits for long wakes them.
  std::vector<uint64_t> sleep_at_step;
  bool sleeps_at_end = false;  ///< at the end columns are put to sleep, and the kernel leaves when idle
  /// Position of the first task of each column; all before it have run.
  uint32_t first = 0;
  uint64_t most_steps = 25'000;  ///< after which the run counts as one that does not end
};

/// `ptx`: of stepped_bodies.cu. The scenario checks that each thread of each task runs once, that the
/// host can read a task's results once it has read `done`, that no body finds anything wrong, that
/// there is no race and no deadlock, and that the kernel leaves when it is asked or idle.
sim::Scenario MakeTaskScenario(const std::string& ptx, const BedCourse& course);

}  // namespace cupola::runtime
