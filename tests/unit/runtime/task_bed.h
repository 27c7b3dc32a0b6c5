// A bed for the MasterKernel: a host thread puts tasks into columns, launches the kernel when none
// runs and waits for what it has put in, on the stepped device; checks of all that must hold. One
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/sim/stepped/search.h"

namespace cupola::runtime {

struct BedTask {
  uint32_t column = 0;
  uint16_t body = 0;
  uint16_t threads = 32;
  uint32_t blocks = 1;
  bool barrier = false;
  uint32_t shared_bytes = 0;
  uint16_t after = 0;  ///< TaskHeader::after
  /// What body 4 reads: the results of that task, which it comes after by `after`, or is put in
  /// after its end; -1: what the host has written.
  int reads = -1;
};

struct BedCourse {
  uint32_t columns = 1, executors = 2;
  uint32_t awake = 1;                   ///< columns that are pulled from as the kernel begins
  uint32_t idle_ns = 1u << 30;          ///< the kernel leaves by itself after so long
  std::vector<BedTask> tasks;           ///< put in in this order
  std::vector<uint64_t> leave_at_step;  ///< when the host asks the kernel to leave
  bool hurries = false;  ///< it is to leave as soon as the blocks that run have ended
  /// When the host says so of one that may leave already; with `hurries_next` of the launch behind it.
  std::vector<uint64_t> hurry_at_step;
  bool hurries_next = false;
  /// A kernel that left in a hurry is expected to have left some tasks to the next.
  bool keeps_some = false;
  /// Each task is launched by itself, one behind the other; no MasterKernel runs.
  bool is_solo = false;
  std::vector<uint64_t> pause_ns;  ///< of virtual time before the task of the same number
  /// When the host puts all columns but the first to sleep, as a thread does that has waited for
  /// all tasks while others put more in. Who waits for long wakes them.
  std::vector<uint64_t> sleep_at_step;
  bool sleeps_at_end = false;  ///< then columns are put to sleep, and the kernel leaves when idle
  /// Position of the first task of each column; all before it have run.
  uint32_t first = 0;
  uint64_t most_steps = 25'000;
};

/// `ptx`: of stepped_bodies.cu. What is checked: each thread of each task once, its results
/// readable by the host once `done` was read, a body finds nothing wrong, no race, no deadlock, the
/// kernel leaves when it is asked or idle.
sim::Scenario MakeTaskScenario(const std::string& ptx, const BedCourse& course);

}  // namespace cupola::runtime
