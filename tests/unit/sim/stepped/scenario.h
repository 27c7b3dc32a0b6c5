// Makes scenarios from PTX text for the tests of stepped mode: one kernel over some buffers. One
// thread.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "device/sim/stepped/search.h"

namespace cupola::sim {

/// A kernel `k` whose parameters are the addresses of buffers of words, all zero at first.
struct KernelUnderTest {
  std::string body;         ///< PTX statements; %a0, %a1... hold the buffers' addresses
  std::string shared = "";  ///< declarations of shared variables
  uint32_t buffers = 1;     ///< each of kWords 32-bit words
  Dim3 grid, block;
  bool cooperative = false;
  static constexpr uint32_t kWords = 64;
};

/// The buffers of the last run.
struct Buffers {
  std::vector<uint64_t> addresses;  ///< by buffer
  uint32_t Word(size_t buffer, size_t index) const {
    return reinterpret_cast<const uint32_t*>(addresses[buffer])[index];
  }
  /// Words 0 to count - 1 as text, such as "1 0 3".
  std::string Text(size_t buffer, size_t count) const;
};

/// A kernel of blocks of one thread each; block i runs threads[i]. It has two buffers: one that the
/// threads share, and one for what they have read.
KernelUnderTest Blocks(const std::vector<std::string>& threads);

std::string PtxOf(const KernelUnderTest& kernel);

/// A scenario that runs the kernel once; `check` sees the buffers.
Scenario ScenarioOf(const KernelUnderTest& kernel, std::shared_ptr<Buffers> buffers,
                    std::function<std::string(const Buffers&)> check);

/// Loads the kernel, allocates its buffers and returns the launch, which is not submitted yet.
GridLaunch Prepare(SteppedDevice& device, const KernelUnderTest& kernel, Buffers* buffers);

}  // namespace cupola::sim
