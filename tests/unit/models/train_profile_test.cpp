#include "models/train/train_profile.h"

#include <cstring>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "models/predict.h"

namespace cupola::models {
namespace {

constexpr char kAdd[] = "_Z10vector_addPKfS0_Pfi";
constexpr char kSparse[] = "_Z4spmvPKfPfi";

profiles::LaunchSample Launch(uint32_t n, uint64_t ns, uint64_t when) {
  profiles::LaunchSample sample;
  sample.when = when;
  sample.ns = ns;
  sample.grid[0] = (n + 255) / 256;
  sample.block[0] = 256;
  sample.input_bytes = uint64_t{n} * 12;
  sample.arguments = {{}, {}, {}, n};
  return sample;
}

profiles::Profile SampleProfile() {
  Prng random(5);
  profiles::Profile profile;
  profile.gpu = {1, "NVIDIA H200", "13.0", 90, 132, 2048, 32, 65536, 228 * 1024};
  auto& add = profile.kernels[{kAdd, ""}];
  add.registers = 16;
  add.parameters = {{0, 8, true}, {8, 8, true}, {16, 8, true}, {24, 4, false}};
  for (uint64_t i = 0; i < 100; ++i) {
    const auto n = static_cast<uint32_t>(1000 + random.Below(50'000'000));
    const double ns = (2500 + 0.0031 * n) * random.Uniform(0.99, 1.01);
    add.launches.push_back(Launch(n, static_cast<uint64_t>(ns), i));
  }
  for (uint64_t i = 0; i < 60; ++i) add.preemptions.push_back({i, i < 10 ? 1'000'000 : 30'000u});
  // What a sparse matrix takes depends on which it is: seven of them, many times.
  auto& sparse = profile.kernels[{kSparse, ""}];
  sparse.parameters = {{0, 8, true}, {8, 8, true}, {16, 4, false}};
  for (uint64_t i = 0; i < 10; ++i) sparse.preemptions.push_back({i, -20});
  sparse.tuned = profiles::TunedBatch{9, 12, 0.4, 0.5, true, 3000, {{12, 0.4}}};
  for (uint64_t i = 0; i < 140; ++i) {
    const auto rows = static_cast<uint32_t>(1000 + 1000 * (i % 7));
    const double ns = 1e5 * (1 + (i * i) % 7) * random.Uniform(0.99, 1.01);
    auto sample = Launch(rows, static_cast<uint64_t>(ns), i);
    sample.arguments = {{}, {}, rows};
    sparse.launches.push_back(sample);
  }
  return profile;
}

TEST(TrainProfile, MakesAPlanThatPredictsNewSizes) {
  const TrainedPlan trained = TrainProfile(SampleProfile(), "nvidia-h200", {});
  std::vector<uint64_t> words(trained.bytes.size() / 8 + 1);
  memcpy(words.data(), trained.bytes.data(), trained.bytes.size());
  const auto plan = PlanView::Open(
      {reinterpret_cast<const std::byte*>(words.data()), trained.bytes.size()});
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  const PlanKernel* add = plan->Find(kAdd);
  ASSERT_NE(add, nullptr);
  ASSERT_EQ(add->arguments, 1u);
  EXPECT_EQ(add->preemption_ns, 30'000u);  // the latest fifty
  const PlanKernel* sparse = plan->Find(kSparse);
  ASSERT_NE(sparse, nullptr);
  EXPECT_EQ(sparse->preemption_ns, 1000u);  // measured; 0 would say that it was not
  for (const uint32_t n : {200'000u, 7'654'321u, 44'000'000u}) {
    LaunchFeatures launch;
    launch.grid[0] = (n + 255) / 256;
    launch.block[0] = 256;
    float* pointer = nullptr;
    void* params[] = {&pointer, &pointer, &pointer, const_cast<uint32_t*>(&n)};
    ReadIntegers(*add, params, static_cast<uint32_t>(std::size(params)), nullptr, 0, &launch);
    const Prediction prediction = Predict(*plan, *add, launch);
    const double truth = 2500 + 0.0031 * n;
    EXPECT_NEAR(static_cast<double>(prediction.ns), truth, 0.02 * truth) << n;
    EXPECT_FALSE(prediction.extrapolated);
    launch.grid[0] *= 1000;
    EXPECT_TRUE(Predict(*plan, *add, launch).extrapolated);
  }
}

// Durations vary by more than a preemption costs: some launches are faster than usual although they
// were stopped. A mean of samples that are at least 0 would be 15 us here.
TEST(TrainProfile, ThePreemptionOverheadIsTheMeanOfAllThatWereMeasured) {
  profiles::Profile profile;
  auto& kernel = profile.kernels[{kAdd, ""}];
  for (uint64_t i = 0; i < 20; ++i) {
    kernel.preemptions.push_back({i, i % 2 == 0 ? 30'000 : -20'000, i < 10 ? 2u : 1u});
  }
  const KernelReport all = TrainProfile(profile, "g", {}).kernels[0];
  EXPECT_EQ(all.preemption_ns, 5'000u);
  EXPECT_EQ(all.preemptions, 30u);
  // The latest fifty: those of the launch that was stopped sixty times, and what came after it.
  kernel.preemptions[18] = {18, 40'000, 60};
  kernel.preemptions[19] = {19, -20'000, 1};
  const KernelReport latest = TrainProfile(profile, "g", {}).kernels[0];
  EXPECT_EQ(latest.preemptions, 61u);
  EXPECT_EQ(latest.preemption_ns, (60 * 40'000u - 20'000u) / 61);
}

TEST(TrainProfile, ChoosesHistoryWhereSizesSayNothing) {
  const TrainedPlan trained = TrainProfile(SampleProfile(), "nvidia-h200", {});
  ASSERT_EQ(trained.kernels.size(), 2u);
  const KernelReport& add = trained.kernels[0];
  EXPECT_EQ(add.name, kAdd);
  EXPECT_NE(add.model, "history");
  EXPECT_LT(add.mean_error, 0.01);
  EXPECT_GE(add.worst_error, add.mean_error);
  const KernelReport& sparse = trained.kernels[1];
  EXPECT_EQ(sparse.model, "history");
  EXPECT_LT(sparse.mean_error, 0.02);
  EXPECT_GT(sparse.ridge_error, 0.2);
  EXPECT_EQ(sparse.configurations, 7u);
  EXPECT_EQ(sparse.batch, 12u);
  EXPECT_EQ(sparse.block_ns, 3000u);
  EXPECT_TRUE(sparse.tuned);
}

TEST(TrainProfile, TheSameProfileGivesTheSameBytes) {
  EXPECT_EQ(TrainProfile(SampleProfile(), "g", {}).bytes,
            TrainProfile(SampleProfile(), "g", {}).bytes);
}

TEST(TrainProfile, AnEmptyProfileGivesAnEmptyPlan) {
  const TrainedPlan trained = TrainProfile({}, "g", {});
  std::vector<uint64_t> words(trained.bytes.size() / 8 + 1);
  memcpy(words.data(), trained.bytes.data(), trained.bytes.size());
  EXPECT_TRUE(PlanView::Open({reinterpret_cast<const std::byte*>(words.data()),
                              trained.bytes.size()}).ok());
}

}  // namespace
}  // namespace cupola::models
