#include "models/train/arguments.h"

#include <gtest/gtest.h>

namespace cupola::models {
namespace {

using enum ParameterKind;

TEST(Arguments, KindsComeFromTheName) {
  EXPECT_EQ(KindsFromName("_Z10vector_addPKfS0_Pfi"),
            (std::vector{kPointer, kPointer, kPointer, kInteger}));
  EXPECT_EQ(KindsFromName("_Z1kfdjlmb"),
            (std::vector{kOther, kOther, kUnsigned, kInteger, kUnsigned, kUnsigned}));
  EXPECT_TRUE(KindsFromName("_Z1kv").empty());
  // void saxpy<float>(int, float, float const*, float*)
  EXPECT_EQ(KindsFromName("_Z5saxpyIfEviT_PKS0_PS0_"),
            (std::vector{kInteger, kOther, kPointer, kPointer}));
  // f(void (*)(int, int), std::pair<int, int>)
  EXPECT_EQ(KindsFromName("_Z1fPFviiESt4pairIiiE"), (std::vector{kOther, kOther}));
  EXPECT_TRUE(KindsFromName("plain_c_name").empty());
}

profiles::KernelProfile Kernel(std::vector<profiles::Parameter> parameters,
                               std::vector<std::vector<std::optional<uint64_t>>> launches) {
  profiles::KernelProfile kernel;
  kernel.parameters = std::move(parameters);
  uint64_t ns = 1000;
  for (auto& arguments : launches) {
    profiles::LaunchSample sample;
    sample.ns = ns += 1000;
    sample.arguments = std::move(arguments);
    kernel.launches.push_back(std::move(sample));
  }
  return kernel;
}

TEST(Arguments, OnlyIntegersThatVaryAreChosen) {
  const auto kernel = Kernel({{0, 8, true}, {8, 4, false}, {12, 4, false}, {16, 4, false}},
                             {{{}, 10, 7, 0x3f800000}, {{}, 20, 7, 0x40000000}});
  // extern "C": the float is told by its bits, the constant by being one.
  const auto chosen = ChooseIntegers("kernel", kernel);
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0].index, 1);
  EXPECT_EQ(chosen[0].offset, 8u);
  EXPECT_EQ(IntegerValue(chosen[0], 0xFFFFFFFF), -1);
}

TEST(Arguments, TheNameOverrulesTheLook) {
  // k(float*, float, unsigned int): the float looks like a small number, the integer like a float.
  const auto kernel = Kernel({{0, 8, true}, {8, 4, false}, {12, 4, false}},
                             {{{}, 1, 0xF0000000}, {{}, 2, 0xF0000001}});
  const auto chosen = ChooseIntegers("_Z1kPffj", kernel);
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0].index, 2);
  EXPECT_EQ(IntegerValue(chosen[0], 0xF0000000), 0xF0000000);
}

TEST(Arguments, TheMostTellingAreKept) {
  std::vector<profiles::Parameter> parameters;
  for (uint32_t i = 0; i < 12; ++i) parameters.push_back({i * 4, 4, false});
  std::vector<std::vector<std::optional<uint64_t>>> launches;
  for (uint64_t run = 0; run < 6; ++run) {
    std::vector<std::optional<uint64_t>> arguments;
    for (uint64_t i = 0; i < 12; ++i) {
      // The first four follow badly.
      arguments.push_back(i < 4 ? (run * 7 + i) % 3 : run * (i + 1));
    }
    launches.push_back(arguments);
  }
  const auto chosen = ChooseIntegers("kernel", Kernel(parameters, launches));
  ASSERT_EQ(chosen.size(), kMostIntegers);
  EXPECT_EQ(chosen.front().index, 4);
}

}  // namespace
}  // namespace cupola::models
