// The feature file: what a process under `cupola profile` wrote of its launches besides their
// records, and how that becomes a profile. The preloaded library writes it
// (intercept/record/launch_features.h), or the CUPTI object; `cupola profile` reads it. It is a
// text file, `.<pid>.<start_ns>.features`, with one line for each entry:
//
//   cupola-features 1
//   G arch sms threads blocks registers shared driver name
//       the device; the limits are those of an SM
//   K number registers static_shared n offset:bytes*n name
//       a kernel, before its first launch
//   L ticket kernel gx gy gz bx by bz shared input argument*
//       a launch; an argument is its bits, "p" for a pointer into an allocation, "-" for neither
//   T ticket ns [start_ns]
//       the duration of a launch, where CUPTI measured it
//   X text
//       why there are no durations
//
// Pure functions of text. A line that is cut, or makes no sense, is skipped and counted, because
// the process may have been killed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "profiles/profile.h"

namespace cupola::profiles {

/// The duration of a launch, and when it was made.
struct LaunchTime {
  uint64_t ns = 0;    ///< duration
  uint64_t when = 0;  ///< ns since 1970
};

struct FeatureSummary {
  uint64_t launches = 0;     ///< launches described
  uint64_t timed = 0;        ///< of these, launches with a duration; only they go into the profile
  uint64_t bad_lines = 0;
  std::string why_untimed;   ///< text of the X line; "" = there is none
};

/// Adds the launches of one file to `profile`. `time_of` gives the duration of a ticket without a T
/// line, as the launch records have it. A launch with a T line gets `when` as its time.
FeatureSummary AddFeatures(std::string_view text, uint64_t when,
                           const std::function<std::optional<LaunchTime>(uint64_t)>& time_of,
                           Profile* profile);

}  // namespace cupola::profiles
