// Looks at what Cupola needs of this machine, for `cupola doctor`. Main thread: it forks, to start the driver in a
// process of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cupola {

/// One thing that was looked at.
struct Finding {
  enum class State : uint8_t {
    kGood,
    kNote,     ///< Cupola works without it; `remedy` says how to have it
    kTrouble,  ///< something will not work as it is
  };
  std::string name;    ///< "driver"
  State state = State::kGood;
  std::string text;    ///< what was found, in one sentence
  std::string remedy;  ///< what to do; "" for kGood
};

/// Looks at Cupola's own files, the system, the device, the driver, the simulated device, the compiler, CUPTI, the
/// store, the arbiter, MPS, real-time priority and the environment. At most 20 s, most of which is the driver's start.
std::vector<Finding> ExamineMachine();

}  // namespace cupola
