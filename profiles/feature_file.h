// What a process under `cupola profile` wrote down of its launches besides their records (the
// preloaded library, intercept/record/launch_features.h, or the CUPTI object), and how it becomes a
// profile. A text file, `.<pid>.<start_ns>.features`, one line each:
//
//   cupola-features 1
//   G arch sms threads blocks registers shared driver name   of the device; the limits are an SM's
//   K number registers static_shared n offset:bytes*n name   a kernel, before its first launch
//   L ticket kernel gx gy gz bx by bz shared input argument* a launch; an argument is its bits, "p"
// for a
//                                                            pointer into an allocation, "-" for
// neither
//   T ticket ns [start_ns]                                   its duration, where CUPTI measured it
//   X text                                                   why there are no durations
//
// Pure functions of text. A line that is cut, or makes no sense, is skipped and counted: the
// process may have been killed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "profiles/profile.h"

namespace cupola::profiles {

/// The duration of a launch and when it was made, as far as they are known.
struct LaunchTime {
  uint64_t ns = 0;
  uint64_t when = 0;  ///< ns since 1970
};

struct FeatureSummary {
  uint64_t launches = 0;     ///< described
  uint64_t timed = 0;        ///< of these, with a duration: they are in the profile
  uint64_t bad_lines = 0;
  std::string why_untimed;   ///< the X line; "" = none
};

/// Adds the launches of one file to `profile`. `time_of` knows the durations of tickets that have
/// no T line (by the launch records); those of T lines get `when` as their time.
FeatureSummary AddFeatures(std::string_view text, uint64_t when,
                           const std::function<std::optional<LaunchTime>(uint64_t)>& time_of,
                           Profile* profile);

}  // namespace cupola::profiles
