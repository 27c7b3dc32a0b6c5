// One run of a program under measurement: its launches, what they depend on and how long they took,
// as a profile. Also what `cupola tune` measures with. Main thread, one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/prepare_run.h"
#include "profiles/profile.h"

namespace cupola {

/// How durations are measured.
enum class MeasureWith : uint8_t {
  kAuto,    ///< CUPTI on a GPU, where it can be had and the program does not use it; else events
  kCupti,   ///< the activity records of CUPTI; Cupola is not in front of the driver then
  kEvents,  ///< events around each launch; on the simulated device they have its clock
};

/// One timed launch, for comparisons.
struct TimedLaunch {
  std::string kernel;             ///< mangled
  uint32_t grid[3], block[3], shared_bytes;
  uint64_t start_ns, end_ns;      ///< on the device, CLOCK_MONOTONIC
  uint32_t process;               ///< pid
  uint32_t batch;                 ///< L of the preemptible variant that it went out as; 0 = plain
};

struct MeasuredRun {
  profiles::Profile profile;
  int status = 0;               ///< wait status of the program
  uint64_t launches = 0;        ///< described
  uint64_t timed = 0;           ///< of these, with a duration: in the profile
  uint64_t unseen = 0;          ///< launches in graphs, and those dropped
  std::vector<TimedLaunch> timeline;  ///< by events only; in the order in which kernels ended
  bool by_cupti = false;
  std::string remark;           ///< why something was not measured; "" = nothing to say
};

/// Runs the program of the command line (RunProgram()) to its end. `variables` are added to its
/// environment. kNotFound, kIo: it could not be started, or its records not be kept.
Result<MeasuredRun> MeasureRun(const PreparedRun& run, MeasureWith with,
                               std::vector<std::pair<std::string, std::string>> variables);

/// Nanoseconds since 1970.
uint64_t UnixNs();

/// Ends the command where the profile `named` ("" = that of the GPU, in the profiles' folder) cannot be written, or
/// what is there cannot be added to: to be called before a program is run for it.
void RequireWritable(const std::string& named);

/// Where the profile of a GPU lies: `named`, else <ProfilesFolder>/<gpu>.json. kNotFound: there is
/// no such folder to be had (no $HOME).
Result<std::string> ProfilePath(const std::string& named, const profiles::Profile& profile);

}  // namespace cupola
