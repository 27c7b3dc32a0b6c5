// LaunchSummary: launches added up by kernel, and the table that `cupola run --stats` prints.
// Owned by one thread.
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

  /// A table of text, a line for each kernel, the most device time first (the most launches where
  /// nothing was timed), then a line for graphs, captured, failed and dropped launches as far as
  /// there were any. Ends in a newline. `totals` is added up over all processes.
  std::string ToString(const LaunchTotals& totals) const;

 private:
  /// Grid and block.
  using Shape = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>;
  struct Kernel {
    uint64_t launches = 0;
    uint64_t timed = 0;      ///< launches with a device time
    uint64_t device_ns = 0;  ///< sum over those
    std::map<Shape, uint64_t> shapes;
  };

  std::map<std::string, Kernel, std::less<>> kernels_;  ///< by symbol
  uint64_t failed_ = 0;
};

}  // namespace cupola
