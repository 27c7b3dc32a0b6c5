// What an application wants to be run: tasks, their order, the memory they use. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../support/checksum.h"

namespace pagoda {

struct Task {
  unsigned kind;     // index in the application's kinds
  unsigned threads;  // of a block
  unsigned size;     // in the kind's unit
  size_t in, out;    // offsets of its own input and output, multiples of 256
  unsigned in_bytes, out_bytes;
};

struct Workload {
  std::vector<Task> tasks;
  /// Ends of waves: tasks of a wave need those of the waves before, and not each other.
  std::vector<size_t> wave_ends;
  /// Where there are several waves: the tasks that each task needs.
  std::vector<std::vector<unsigned>> needs;
  size_t in_bytes = 0, out_bytes = 0;  // of all
  /// The output is one piece of memory that starts as a copy of the input; tasks have none of
  /// their own.
  bool in_place = false;
};

/// What every task reads and writes; the first member of the arguments of every kind.
struct Io {
  const char* in;
  char* out;
  unsigned in_bytes, out_bytes;
};

/// A task as what its inputs are made from.
struct Item {
  unsigned number;
  unsigned seed;
  unsigned size;

  uint32_t Random(unsigned which) const {
    return Mix(Mix(Mix(seed) + number) + which * 0x9e3779b9u);
  }
  /// 0 to below 1.
  float Share(unsigned which) const {
    return static_cast<float>(Random(which) >> 8) * (1.0f / (1 << 24));
  }
};

/// Where the memory that arguments point to begins: the device's or the host's.
struct Base {
  char *in, *out;
  const char* table;
};

/// A task with its arguments, as fused kernels read it. `host_in` and `host_out` are where a task
/// that does its own copies has them from and to, else null.
struct alignas(16) Record {
  char arguments[64];
  const char* host_in;
  char* host_out;
  unsigned kind, threads;
};

}  // namespace pagoda
