// Launches whose sizes are those of their allocations: the plan knows by these how long they take.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "models/train/plan_builder.h"
#include "tests/paths.h"
#include "tests/preempt/stopped_program.h"

namespace cupola::preempt_test {
namespace {

/// A plan of Fold, a microsecond without the input bytes and a tenth of a nanosecond for each of them with.
/// `with`: it has the model with them.
std::string PlanOfFold(bool with) {
  models::PlanBuilder plan("sim", models::Machine{.sms = 4});
  models::PlanKernel fold{};
  fold.batch = 1;
  models::TrainedModel trained;
  trained.model.floor_ns = 1;
  trained.model.intercept_ns = 1'000;
  fold.model = plan.AddModel(trained);
  trained.model.intercept_ns = 0;
  trained.terms.push_back({.variable = {models::kInputBytes, models::kOne, models::kOne,
                                        models::kOne},
                           .is_hinge = 0, .coefficient = 0.1, .knot = 0});
  if (with) fold.model_input = plan.AddModel(trained);
  plan.AddKernel("Fold", fold, {});
  return plan.Bytes();
}

// The small ones take less than CUPOLA_PREEMPT_ABOVE_US, the large ones more.
TEST(Sized, APlanPredictsByTheAllocation) {
  for (const bool with : {false, true}) {
    const BoardFile board;
    board.slot().may_be_held.store(sched::HeldFor::kAnyone);
    const std::string path = board.path() + ".plan";
    std::ofstream(path, std::ios::binary) << PlanOfFold(with);
    Program program({CUPOLA_SIZED_APP}, board, {{"CUPOLA_PLAN", path}, {"CUPOLA_PREEMPT", "auto"}});
    EXPECT_EQ(program.Wait(), 0) << program.output();
    const std::string expected =
        with ? "preemption: 8 launches preemptible" : "preemption: 0 launches preemptible";
    EXPECT_NE(program.output().find(expected), std::string::npos) << program.output();
    const std::string plain = with ? "9 launches plain: short" : "17 launches plain: short";
    EXPECT_NE(program.output().find(plain), std::string::npos) << program.output();
    unlink(path.c_str());
  }
}

}  // namespace
}  // namespace cupola::preempt_test
