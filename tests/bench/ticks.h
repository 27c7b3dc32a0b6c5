// The time stamp counter's rate, for benches that time single calls with it.
#pragma once

#include <x86intrin.h>

#include <cstdint>
#include <ctime>

/// Ticks of the time stamp counter in a nanosecond of CLOCK_MONOTONIC. Takes 50 ms.
inline double TicksOfANanosecond() {
  timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  const uint64_t ticks = __rdtsc();
  double ns = 0;
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
    ns = static_cast<double>(now.tv_sec - start.tv_sec) * 1e9 +
         static_cast<double>(now.tv_nsec - start.tv_nsec);
  } while (ns < 50e6);
  return static_cast<double>(__rdtsc() - ticks) / ns;
}
