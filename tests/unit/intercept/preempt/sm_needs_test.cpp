// SMs that a launch needs, and the table of what fits.
#include "intercept/preempt/sm_needs.h"

#include <memory>

#include <gtest/gtest.h>

#include "device/runtime/preempt_control.h"

namespace cupola::intercept::preempt {
namespace {

const void* Handle(uint64_t number) { return reinterpret_cast<const void*>(number); }

TEST(SmsFor, RoundsUpToWholeSms) {
  EXPECT_EQ(SmsFor(1, 8, 132), 1u);
  EXPECT_EQ(SmsFor(8, 8, 132), 1u);
  EXPECT_EQ(SmsFor(9, 8, 132), 2u);
  EXPECT_EQ(SmsFor(131 * 8, 8, 132), 131u);
}

TEST(SmsFor, TheWholeGpuIsAll) {
  EXPECT_EQ(SmsFor(131 * 8 + 1, 8, 132), runtime::kAllSms);
  EXPECT_EQ(SmsFor(132 * 8 + 1, 8, 132), runtime::kAllSms);
  EXPECT_EQ(SmsFor(uint64_t{1} << 40, 32, 132), runtime::kAllSms);  // no overflow
  EXPECT_EQ(SmsFor(1, 1, 1), runtime::kAllSms);
}

TEST(SmsFor, WhatIsNotKnownIsAll) { EXPECT_EQ(SmsFor(1, 0, 132), runtime::kAllSms); }

TEST(FitTable, KeepsWhatItIsTold) {
  const auto table = std::make_unique<FitTable>();
  EXPECT_EQ(table->Find(Handle(16), 128, 0), FitTable::kUnknown);
  table->Set(Handle(16), 128, 0, 16);
  table->Set(Handle(16), 256, 0, 8);
  table->Set(Handle(16), 128, 1024, 5);
  table->Set(Handle(32), 128, 0, 3);
  EXPECT_EQ(table->Find(Handle(16), 128, 0), 16u);
  EXPECT_EQ(table->Find(Handle(16), 256, 0), 8u);
  EXPECT_EQ(table->Find(Handle(16), 128, 1024), 5u);
  EXPECT_EQ(table->Find(Handle(32), 128, 0), 3u);
  EXPECT_EQ(table->Find(Handle(32), 256, 0), FitTable::kUnknown);
  table->Set(Handle(32), 128, 0, 4);
  EXPECT_EQ(table->Find(Handle(32), 128, 0), 4u);
  table->Clear();
  EXPECT_EQ(table->Find(Handle(16), 128, 0), FitTable::kUnknown);
}

TEST(FitTable, WhenItIsFullTheRestIsUnknownAndTheKnownStays) {
  const auto table = std::make_unique<FitTable>();
  uint32_t known = 0;
  for (uint64_t i = 1; i <= 4000; ++i) {
    table->Set(Handle(i * 256), 128, 0, static_cast<uint32_t>(i));
    known += table->Find(Handle(i * 256), 128, 0) == i;
  }
  EXPECT_GE(known, 700u);
  EXPECT_LE(known, 1024u);
  uint32_t still = 0;
  for (uint64_t i = 1; i <= 4000; ++i) still += table->Find(Handle(i * 256), 128, 0) == i;
  EXPECT_EQ(still, known);
}

}  // namespace
}  // namespace cupola::intercept::preempt
