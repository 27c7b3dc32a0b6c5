// What the programs share: the kernel, the clock, the command line, a checksum. Plain CUDA,
// nothing of Cupola; one thread.
#pragma once

#include <cuda_runtime.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../../apps/support/check_runtime.h"
#include "../../apps/support/checksum.h"

constexpr int kThreads = 256;

/// `rounds` steps of a chain of dependent multiply-adds, a value a thread: a block of 2,000 rounds
/// takes about 20 us on a full H200.
static __global__ void Work(float* out, int rounds) {
  float a = threadIdx.x * 0.001f + blockIdx.x, c = 1.0001f;
  for (int i = 0; i < rounds; ++i) {
    a = a * c + 0.5f;
    c = c * 0.9999f + 1e-4f;
  }
  out[static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x] = a + c;
}

/// Nanoseconds of CLOCK_MONOTONIC, the same clock in all processes.
inline long NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000L + now.tv_nsec;
}

/// Reads `--name VALUE` pairs and flags; a wrong one ends the program with exit code 2.
class Arguments {
 public:
  Arguments(int argc, char** argv) : argc_(argc), argv_(argv) {}
  double Number(const char* name, double fallback) const {
    const int at = Find(name);
    if (at < 0) return fallback;
    char* end = nullptr;
    const double value = at + 1 < argc_ ? std::strtod(argv_[at + 1], &end) : 0;
    if (end == nullptr || end == argv_[at + 1]) {
      std::fprintf(stderr, "%s: %s needs a number\n", argv_[0], name);
      std::exit(2);
    }
    return value;
  }
  /// What stands behind `name`; null where it is not given.
  const char* Text(const char* name) const {
    const int at = Find(name);
    return at >= 0 && at + 1 < argc_ ? argv_[at + 1] : nullptr;
  }
  bool Has(const char* name) const { return Find(name) >= 0; }

 private:
  int Find(const char* name) const {
    for (int i = 1; i < argc_; ++i) {
      if (std::strcmp(argv_[i], name) == 0) return i;
    }
    return -1;
  }
  int argc_;
  char** argv_;
};

/// Nobody holds the other end of standard input any more.
inline bool InputEnded() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char byte;
  return poll(&input, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

constexpr size_t kWordBytes = 4096;

/// A word, 0 at first, that all processes share which map the file `path`; where that is null, one
/// of this process.
inline volatile unsigned* MapWord(const char* path) {
  const int file = path == nullptr ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const bool sized = path == nullptr || (file >= 0 && ftruncate(file, kWordBytes) == 0);
  const int flags = MAP_SHARED | (path == nullptr ? MAP_ANONYMOUS : 0);
  void* page = MAP_FAILED;
  if (sized) page = mmap(nullptr, kWordBytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (page == MAP_FAILED) {
    std::perror(path);
    std::exit(1);
  }
  if (file >= 0) close(file);
  return static_cast<volatile unsigned*>(page);
}

/// The checksum of `count` values in device memory.
inline unsigned long long ChecksumOf(const float* device, long count) {
  std::vector<float> values(count);
  CHECK(cudaMemcpy(values.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost));
  Checksum sum;
  sum.Add(values);
  return sum.value();
}

/// A stream that waits for no other, of the highest priority where `high`.
inline cudaStream_t MakeStream(bool high) {
  int least = 0, greatest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, high ? greatest : 0));
  return stream;
}

inline void PrintNumbers(const char* name, const std::vector<long>& values) {
  std::printf(", \"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) std::printf(i > 0 ? ",%ld" : "%ld", values[i]);
  std::printf("]");
}
