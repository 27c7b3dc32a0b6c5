// A fixture that gives each test a fresh folder for a variant store, which is removed with the test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace cupola::store {

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "cupola-store-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    outer_ = name;
    folder_ = name + "/made/by/it";
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(outer_, ignored);
  }
  std::string At(const std::string& name) const { return folder_ + "/" + name; }

  std::string outer_;
  std::string folder_;
};

/// A key of the form that the store uses.
inline std::string KeyOf(char digit) { return std::string(64, digit); }

}  // namespace cupola::store
