#include "base/result.h"

#include <memory>

#include <gtest/gtest.h>

namespace cupola {
namespace {

TEST(Result, HoldsAValueOrAnError) {
  Result<std::unique_ptr<int>> good = std::make_unique<int>(7);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*std::move(good).value(), 7);

  Result<int> bad = MakeError(ErrorCode::kDamaged, "entry runs past the end");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kDamaged);
}

TEST(Result, StatusIsOkByDefault) {
  EXPECT_TRUE(Status().ok());
  EXPECT_FALSE(Status(MakeError(ErrorCode::kIo, "disk full")).ok());
}

TEST(Error, SaysWhereInTextAndInBinary) {
  Error text =
      MakeError(ErrorCode::kDamaged, "expected ';'", {.file = "k.ptx", .line = 3, .column = 9});
  EXPECT_EQ(text.ToString(), "k.ptx:3:9: expected ';'");
  Error binary = MakeError(ErrorCode::kDamaged, "bad magic", {.file = "a.out", .offset = 0x1040});
  EXPECT_EQ(binary.ToString(), "a.out at offset 0x1040: bad magic");
  EXPECT_EQ(MakeError(ErrorCode::kIo, "no such file").ToString(), "no such file");
}

}  // namespace
}  // namespace cupola
