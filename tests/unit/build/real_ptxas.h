// A base for the tests' compilers: they call ptxas, except for what a test wants to be treated otherwise.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "device/compiler/build/compiler.h"
#include "tests/paths.h"

namespace cupola::build {

/// Compiles by ptxas. Precondition of its calls: there is a ptxas (RealPtxasTest).
class RealPtxas : public Compiler {
 public:
  RealPtxas() {
    Result<std::unique_ptr<Compiler>> found = FindCompiler({.ptxas = CUPOLA_PTXAS_PATH});
    if (found) real_ = *std::move(found);
  }
  const std::string& version() const override { return real_->version(); }
  Result<std::vector<uint8_t>> Compile(const CompileInput& input) const override { return real_->Compile(input); }

 private:
  std::unique_ptr<Compiler> real_;
};

/// A fixture whose tests are skipped where there is no ptxas.
class RealPtxasTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(CUPOLA_PTXAS_PATH).empty()) GTEST_SKIP() << "no ptxas";
  }
};

}  // namespace cupola::build
