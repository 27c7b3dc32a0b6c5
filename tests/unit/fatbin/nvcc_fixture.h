// A fixture for tests that build programs by nvcc while they run, in a folder that is removed with the
// test. The tests are skipped, with the reason, where no nvcc runs. Not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cupola::fatbin {

class NvccTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// A path in the test's folder.
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  /// Writes a source file; returns its path.
  std::string WriteSource(const std::string& name, const std::string& text) const;

  /// Runs "nvcc ARGS"; returns what it printed. A failure fails the test with that text.
  std::string Nvcc(const std::string& args) const;

  /// Compiles the small program of three kernels below with `flags` to `output`, linked unless the
  /// flags say otherwise. Returns what nvcc printed.
  std::string CompileSample(const std::string& flags, const std::string& output) const;

 private:
  std::string folder_;
};

}  // namespace cupola::fatbin
