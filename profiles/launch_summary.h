// LaunchSummary: adds up launches by kernel, and makes the table that `cupola run --stats` prints.
// One thread owns it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "profiles/launch_ring_reader.h"

namespace cupola {

class LaunchSummary {
 public:
  void Add(const Launch& launch);

  /// A table of text: a line for each kernel, the one with the most device time first (or the most
  /// launches where nothing was timed), then a line each for graphs, captured, failed and dropped
  /// launches, where there were any. Ends in a newline. `totals` is summed over all processes.
  std::string ToString(const LaunchTotals& totals) const;

 private:
  /// Grid and block.
  using Shape = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>;
  struct Kernel {
    uint64_t launches = 0;
    uint64_t timed = 0;      ///< launches with a device time
    uint64_t device_ns = 0;  ///< sum of their device times
    std::map<Shape, uint64_t> shapes;
  };

  std::map<std::string, Kernel, std::less<>> kernels_;  ///< by symbol, the mangled name
  uint64_t failed_ = 0;
};

}  // namespace cupola
