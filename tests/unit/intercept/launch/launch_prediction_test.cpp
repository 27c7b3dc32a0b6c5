#include "intercept/launch/launch_prediction.h"

#include <cstring>
#include <utility>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "intercept/facts/allocations.h"
#include "intercept/process/calls.h"
#include "intercept/images/variant.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_slots.h"
#include "models/train/plan_builder.h"

namespace cupola::intercept {

/// Two allocations, of 100 and of 50 bytes, in place of the driver's.
Allocation AllocationOf(uint64_t address) noexcept {
  if (address - 1'000 < 100) return {.base = 1'000, .bytes = 100};
  if (address - 2'000 < 50) return {.base = 2'000, .bytes = 50};
  return {.base = address};
}

/// There is no driver: what is tested here calls none.
extern "C" void* cupola_real[kCallCount];
void* cupola_real[kCallCount] = {};

namespace {

constexpr uint64_t kBegun = 5'000;

/// Neither a plan nor a history.
class Third final : public models::DurationModel {
 public:
  const char* name() const noexcept override { return "third"; }
  models::Prediction Predict(const models::LaunchFeatures& launch) const noexcept override {
    return {.ns = launch.grid[0] < 100 ? launch.grid[0] * 10 : 0};
  }
  void Observe(const models::LaunchFeatures& launch, uint64_t ns) noexcept override {
    observed.push_back({launch, ns});
  }
  std::vector<std::pair<models::LaunchFeatures, uint64_t>> observed;
};

/// A plan of the kernels "n", which takes 1000 ns and 3 times its integer argument, "bytes", which
/// takes 7 times its input bytes, and "none", of which it has no model.
class LaunchPredictionTest : public testing::Test {
 protected:
  LaunchPredictionTest() {
    models::PlanBuilder builder("gpu", models::Machine{.sms = 4});
    models::PlanKernel kernel{};
    kernel.batch = 1;
    builder.AddKernel("none", kernel, {});
    kernel.arguments = 1;
    kernel.argument[0] = {.index = 0, .bytes = 4, .offset = 0, .is_signed = 1};
    models::TrainedModel trained;
    trained.model.intercept_ns = 1'000;
    trained.model.floor_ns = 1;
    trained.terms.push_back({.variable = {models::kInteger0, models::kOne, models::kOne,
                                          models::kOne},
                             .is_hinge = 0, .coefficient = 3, .knot = 0});
    kernel.model = builder.AddModel(trained);
    builder.AddKernel("n", kernel, {});
    kernel.arguments = 0;
    trained.model.intercept_ns = 0;
    trained.terms = {{.variable = {models::kInputBytes, models::kOne, models::kOne, models::kOne},
                      .is_hinge = 0, .coefficient = 7, .knot = 0}};
    kernel.model_input = builder.AddModel(trained);
    builder.AddKernel("bytes", kernel, {});
    const std::string bytes = builder.Bytes();
    words_.resize((bytes.size() + 7) / 8);
    memcpy(words_.data(), bytes.data(), bytes.size());
    plan_ = *models::PlanView::Open(
        {reinterpret_cast<const std::byte*>(words_.data()), bytes.size()});
    launch_.params = params_;
    entry_.parameters = 1;
    entry_.parameter_bytes = sizeof(argument_);
    variant_.entry = &entry_;
    variant_.settled = true;
  }

  void Settle(const char* kernel) {
    variant_.plan_kernel = plan_.Find(kernel);
    variant_.plan = variant_.plan_kernel != nullptr ? &plan_ : nullptr;
    variant_.model = MakeModel(variant_.plan, variant_.plan_kernel, &variant_.history);
    static auto& never_freed = *new std::vector<models::DurationModel*>;
    never_freed.push_back(variant_.model);
  }

  ExpectedTime PredictionOf(uint32_t blocks) {
    launch_.grid[0] = blocks;
    return Predict(variant_, launch_, blocks);
  }

  void Complete(uint32_t blocks, uint64_t took, bool was_alone = true) {
    LaunchSlot slot;
    slot.variant = &variant_;
    slot.grid[0] = slot.total_blocks = blocks;
    slot.grid[1] = slot.grid[2] = slot.block[1] = slot.block[2] = 1;
    slot.block[0] = 32;
    slot.begun_ns = kBegun;
    slot.was_alone = was_alone;
    ObserveCompletion(slot, reinterpret_cast<const std::byte*>(&argument_), kBegun + took);
  }

  int32_t argument_ = 0;
  void* params_[1] = {&argument_};
  Variant variant_;
  Launch launch_{.grid = {1, 1, 1}, .block = {32, 1, 1}};
  store::KernelEntry entry_{};
  void* all_[5];

 private:
  std::vector<uint64_t> words_;
  models::PlanView plan_;
};

TEST_F(LaunchPredictionTest, AThirdModelIsAskedAndTold) {
  Third third;
  Settle("n");
  variant_.model = &third;
  EXPECT_EQ(PredictionOf(7).ns, 70u);
  EXPECT_TRUE(PredictionOf(7).is_known);
  argument_ = -6;
  Complete(8, 800);
  Complete(9, 900, /*was_alone=*/false);
  ASSERT_EQ(third.observed.size(), 1u);
  EXPECT_EQ(third.observed[0].first.grid[0], 8u);
  EXPECT_EQ(third.observed[0].first.integers[0], -6);
  EXPECT_EQ(third.observed[0].second, 800u);
  // Where it has no idea: by as many blocks of others.
  const ExpectedTime unknown = PredictionOf(512);
  EXPECT_FALSE(unknown.is_known);
  EXPECT_EQ(unknown.ns, 100u * 512);
}

TEST_F(LaunchPredictionTest, ThePlanComesBeforeTheHistory) {
  Settle("n");
  argument_ = 500;
  Complete(8, 800);
  EXPECT_EQ(PredictionOf(8).ns, 2'500u);
}

TEST_F(LaunchPredictionTest, TheHistoryAnswersWhereThePlanHasNoIdea) {
  for (const char* kernel : {"none", "not in the plan"}) {
    Settle(kernel);
    EXPECT_FALSE(PredictionOf(8).is_known) << kernel;
    Complete(8, 800);
    EXPECT_EQ(PredictionOf(8).ns, 800u) << kernel;
    EXPECT_TRUE(PredictionOf(8).is_known) << kernel;
    EXPECT_FALSE(PredictionOf(9).is_known) << kernel;
  }
}

// Each allocation once, by pointers anywhere in it; what is no pointer counts for nothing.
TEST_F(LaunchPredictionTest, InputBytesAreAskedForWhereThePlanWantsThem) {
  uint64_t arguments[] = {1'099, 2'000, 1'000, 1'100, 0};
  store::ParameterEntry parameters[5];
  for (uint32_t i = 0; i < 5; ++i) {
    parameters[i] = {.offset = 8 * i, .bytes = 8, .is_pointer = 0};
    all_[i] = &arguments[i];
  }
  entry_.parameters = 5;
  variant_.parameters = parameters;
  Settle("bytes");
  launch_.params = all_;
  EXPECT_EQ(PredictionOf(8).ns, 7u * 150);
  size_t bytes = sizeof(arguments);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  launch_.params = nullptr;
  launch_.extra = extra;
  EXPECT_EQ(PredictionOf(8).ns, 7u * 150);
  bytes = 8;
  EXPECT_EQ(PredictionOf(8).ns, 7u * 100) << "the others lie outside of the block";
  parameters[0].bytes = 4;
  EXPECT_EQ(PredictionOf(8).ns, 1u) << "too short for an address";
}

}  // namespace
}  // namespace cupola::intercept
