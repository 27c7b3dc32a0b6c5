// What every program here shares: a checksum of its output, reproducible inputs, and the verdict.
// Plain host code; no Cupola, no CUDA. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

/// FNV-1a, 64 bits, over all bytes added so far.
class Checksum {
 public:
  void Add(const void* data, size_t bytes) {
    const auto* p = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < bytes; ++i) value_ = (value_ ^ p[i]) * 0x100000001b3ull;
  }
  template <typename T>
  void Add(const std::vector<T>& values) {
    Add(values.data(), values.size() * sizeof(T));
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325ull;
};

/// A well-mixed function of `x`: the same inputs on every machine.
inline uint32_t Mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

/// The first argument as a size, or `fallback` where there is none.
inline int SizeArgument(int argc, char** argv, int fallback) {
  if (argc < 2) return fallback;
  const long size = std::strtol(argv[1], nullptr, 10);
  if (size > 0 && size <= 1L << 30) return static_cast<int>(size);
  std::fprintf(stderr, "usage: %s [SIZE]   (1 to 2^30, default %d)\n", argv[0], fallback);
  std::exit(2);
}

/// Prints the checksum, or complains where the result was wrong. Returns the exit code.
inline int Report(const char* program, bool correct, const Checksum& sum) {
  if (!correct) {
    std::fprintf(stderr, "%s: the result differs from the CPU reference (checksum %016llx)\n",
                 program, static_cast<unsigned long long>(sum.value()));
    return 1;
  }
  std::printf("%s: correct, checksum %016llx\n", program,
              static_cast<unsigned long long>(sum.value()));
  return 0;
}
