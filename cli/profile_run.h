// Runs a program once and measures it: the result is a profile of its launches, with what they depend on and how long
// they took. `cupola profile` and `cupola tune` use it, on the main thread, one run at a time.
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
  kAuto,    ///< CUPTI on a GPU, where CUPTI is there and the program does not use it; else events
  kCupti,   ///< activity records of CUPTI; Cupola is then not in front of the driver
  kEvents,  ///< events around each launch; on the simulated device their times are those of its clock
};

/// One timed launch, for comparisons.
struct TimedLaunch {
  std::string kernel;     ///< mangled
  uint32_t grid[3];       ///< blocks
  uint32_t block[3];      ///< threads
  uint32_t shared_bytes;  ///< dynamic shared memory
  uint64_t start_ns;      ///< on the device, CLOCK_MONOTONIC
  uint64_t end_ns;        ///< on the device, CLOCK_MONOTONIC
  uint32_t process;       ///< pid
  uint32_t batch;         ///< for a preemptible launch: its claim word (profiles/claim_word.h); 0: plain
};

struct MeasuredRun {
  profiles::Profile profile;
  int status = 0;         ///< wait status of the program
  uint64_t launches = 0;  ///< number of launches in the records
  uint64_t timed = 0;     ///< number of these that have a duration and are in the profile
  uint64_t unseen = 0;    ///< number of kernels in graphs and of dropped records
  std::vector<TimedLaunch> timeline;  ///< only with events; in the order in which the kernels ended
  bool by_cupti = false;
  std::string remark;     ///< why something was not measured; "" if there is nothing to say
};

/// Runs the program of the command line (RunProgram()) to its end, with `variables` added to its environment. Errors:
/// kNotFound, kIo when it could not be started or its records could not be kept.
Result<MeasuredRun> MeasureRun(const PreparedRun& run, MeasureWith with,
                               std::vector<std::pair<std::string, std::string>> variables);

/// Nanoseconds since 1970.
uint64_t UnixNs();

/// Ends the command where the profile `named` ("": that of the GPU, in the folder of profiles) cannot be written, or
/// where the existing one cannot be merged with. To be called before a program is run for the profile.
void RequireWritable(const std::string& named);

/// The path of a GPU's profile: `named` if it is not "", else <ProfilesFolder>/<gpu>.json. Error: kNotFound when there
/// is no folder of profiles, because $HOME is not set.
Result<std::string> ProfilePath(const std::string& named, const profiles::Profile& profile);

}  // namespace cupola
