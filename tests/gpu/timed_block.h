// A block that takes a given time, in kernels that are to be stopped.
#pragma once

/// Returns after about `nanoseconds` of %globaltimer, or 20 s after the grid's first block began,
/// which notes when in `start_ns` (0 before): no kernel of these holds a GPU for longer.
__device__ inline void SpendTime(unsigned long long nanoseconds, unsigned long long* start_ns) {
  unsigned long long now, begin;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  if (threadIdx.x == 0) atomicCAS(start_ns, 0ull, begin);
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds && now - *start_ns < 20'000'000'000ull);
}
