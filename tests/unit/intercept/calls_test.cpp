#include "intercept/process/calls.h"

#include <gtest/gtest.h>

namespace cupola::intercept {
namespace {

TEST(MatchesName, TheWholeNameWithoutAStar) {
  EXPECT_TRUE(MatchesName("cuMemcpy", "cuMemcpy"));
  EXPECT_FALSE(MatchesName("cuMemcpy", "cuMemcpyAsync"));
  EXPECT_FALSE(MatchesName("cuMemcpyAsync", "cuMemcpy"));
  EXPECT_FALSE(MatchesName("", "cuMemcpy"));
}

TEST(MatchesName, WhatBeginsSoWithOne) {
  EXPECT_TRUE(MatchesName("cuMemcpy*", "cuMemcpyAsync"));
  EXPECT_TRUE(MatchesName("cuMemcpy*", "cuMemcpy"));
  EXPECT_TRUE(MatchesName("*", "cuMemcpy"));
  EXPECT_FALSE(MatchesName("cuMemcpy*", "cuMemcp"));
  EXPECT_FALSE(MatchesName("cuMemcpy*", "cuMemset"));
  EXPECT_FALSE(MatchesName("cuMem*Async", "cuMemcpyAsync"));  // at the end only
}

}  // namespace
}  // namespace cupola::intercept
