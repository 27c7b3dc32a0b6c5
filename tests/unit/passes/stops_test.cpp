// Each kernel stopped after every number of its blocks and resumed, in each form: the golden
// kernels of this folder, and those of the evaluation's programs (tests/apps/flep). What holds of
// every run is the bed's to check: memory as the plain kernel leaves it, each block once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/prng.h"
#include "device/runtime/preempt_control.h"
#include "tests/paths.h"
#include "tests/unit/passes/flep_kernels.h"
#include "tests/unit/passes/preempt_bed.h"
#include "tests/unit/passes/stop_chooser.h"

namespace cupola::passes {
namespace {

enum class Form {
  kTemporal,   ///< all leave, claims are of one block; one worker is in time, the others come late
  kAmortised,  ///< all leave, claims are of three blocks; others come late in what is stopped
  kTogether,   ///< the same, nobody late
  kSpatial,    ///< those on half of the SMs leave
};

constexpr StopChoices ChoicesFor(Form form) {
  return {.late_until = form == Form::kTemporal    ? 2u
                        : form == Form::kAmortised ? 1u
                                                   : 0u,
          .spread = form == Form::kSpatial};
}

uint32_t BlocksOf(const Subject& subject) {
  const sim::Dim3& grid = subject.golden.spec.grid;
  return grid.x * grid.y * grid.z;
}

Course CourseFor(const Subject& subject, Form form) {
  Course course;
  course.sm_count = StopChoices{}.sm_count;
  course.workers = course.resume_workers = 3;
  course.batch = 1;
  if (subject.facts.may_wait_on_blocks) {
    course.flags = 1;
  } else if (form != Form::kTemporal) {
    course.batch = form == Form::kSpatial ? 2 : 3;
  }
  if (form == Form::kSpatial && BlocksOf(subject) <= 6) {  // that some are claimed ahead
    course.workers = 2;
    course.batch = 1;
  }
  course.stride = BlocksOf(subject) >= 10 ? 2 : 1;
  course.single_blocks = 1;
  course.stale_reads = course.find_races = false;
  if (form == Form::kSpatial) course.bounds.assign(1, course.sm_count / 2);
  return course;
}

struct Stop {
  std::string wrong;  ///< what went wrong, "" if nothing
  Account account;
  std::vector<std::set<uint64_t>> sms;  ///< of the workers, by the number of resumes before
};

Stop StopAfter(const Subject& subject, Form form, uint32_t blocks, uint64_t seed) {
  Course course = CourseFor(subject, form);
  course.ask_at_block = {blocks};
  auto account = std::make_shared<Account>();
  StopChooser chooser(seed, ChoicesFor(form), &account->resumes);
  const auto failure = sim::RunOnce(MakeScenario(subject, course, account), &chooser);
  Stop stop{"", *account, chooser.sms()};
  if (failure) {
    stop.wrong =
        fmt::format("asked as {} blocks had begun, seed {}: {}", blocks, seed, failure->ToString());
  }
  return stop;
}

// Whether the launch was stopped after so many blocks. One worker at a time: had run so many when
// all had left. Several: was asked then, and had blocks left when those that were asked had left.
bool IsAfter(const Stop& stop, Form form, uint32_t blocks) {
  const auto& at = stop.account.resumed_at;
  if (at.empty()) return false;
  return ChoicesFor(form).late_until == 0 || at.front() == blocks;
}

// Stops the launch after 0, 1, 2... blocks; by several seeds where others begin the last ones
// before a worker hears of the request. What went wrong, "" if nothing.
std::string StopEverywhere(const Subject& subject, Form form) {
  constexpr uint64_t kMostSeeds = 32;
  const uint32_t total = BlocksOf(subject);
  for (uint32_t blocks = 0; blocks < total; ++blocks) {
    bool is_after = false;
    for (uint64_t seed = 1; seed <= kMostSeeds && !is_after; ++seed) {
      const Stop stop = StopAfter(subject, form, blocks, seed + kMostSeeds * blocks);
      if (!stop.wrong.empty()) return stop.wrong;
      is_after = IsAfter(stop, form, blocks);
      if (!is_after || form == Form::kSpatial) continue;
      for (const uint64_t sm : stop.sms[0]) {
        if (stop.sms[1].contains(sm)) return fmt::format("resumed on SM {}, seed {}", sm, seed);
      }
    }
    if (!is_after) return fmt::format("none of {} seeds stops after {} blocks", kMostSeeds, blocks);
  }
  return "";
}

// The same of slices: two, with the stop between them.
std::string CutEverywhere(const Subject& subject) {
  const uint32_t total = BlocksOf(subject);
  for (uint32_t blocks = 1; blocks < total; ++blocks) {
    const uint32_t slices[] = {blocks, total - blocks};
    const std::string wrong =
        RunSlices(subject, blocks, slices, {.find_races = false, .stale_reads = false});
    if (!wrong.empty()) return fmt::format("cut after {} blocks: {}", blocks, wrong);
  }
  return "";
}

// ---- golden kernels -------------------------------------------------------------------------

// Grids of 4 to 12 blocks, where the kernel takes any: others return early in their last blocks.
void MakeSmall(sim::GoldenKernel& kernel) {
  const std::map<std::string, sim::Dim3> grids = {
      {"dynamic_shared.ptx", {10, 1, 1}},  {"function_block_ids.ptx", {3, 3, 1}},
      {"no_parameters.ptx", {10, 1, 1}},   {"shared_tile.ptx", {10, 1, 1}},
      {"three_dimensions.ptx", {2, 3, 2}}, {"uneven_warps.ptx", {3, 1, 2}},
      {"variables.ptx", {10, 1, 1}},
  };
  const auto small = grids.find(kernel.name);
  if (small != grids.end()) kernel.spec.grid = small->second;
}

class GoldenStopsTest : public testing::TestWithParam<std::filesystem::path> {
 protected:
  void SetUp() override {
    auto golden = sim::ReadGoldenKernel(GetParam());
    ASSERT_TRUE(golden) << golden.error().ToString();
    MakeSmall(*golden);
    auto subject = MakeSubject(std::move(*golden));
    ASSERT_TRUE(subject) << subject.error().ToString();
    subject_ = std::move(*subject);
    ASSERT_EQ(subject_.facts.preemptible_refusal, "");
    ASSERT_EQ(subject_.facts.sliced_refusal, "");
  }
  Subject subject_;
};

TEST_P(GoldenStopsTest, Temporal) { EXPECT_EQ(StopEverywhere(subject_, Form::kTemporal), ""); }
TEST_P(GoldenStopsTest, Amortised) { EXPECT_EQ(StopEverywhere(subject_, Form::kAmortised), ""); }
TEST_P(GoldenStopsTest, Together) { EXPECT_EQ(StopEverywhere(subject_, Form::kTogether), ""); }
TEST_P(GoldenStopsTest, Spatial) { EXPECT_EQ(StopEverywhere(subject_, Form::kSpatial), ""); }
TEST_P(GoldenStopsTest, Sliced) { EXPECT_EQ(CutEverywhere(subject_), ""); }

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenStopsTest, testing::ValuesIn(PassKernelFiles()),
                         [](const auto& test) { return test.param.stem().string(); });

// ---- the evaluation's kernels ---------------------------------------------------------------

#ifdef CUPOLA_NVCC_KERNELS

Result<Subject> MakeFlepSubject(const std::string& name, uint32_t blocks) {
  auto kernel = MakeFlepKernel(name, blocks);
  if (!kernel) return kernel.error();
  return MakeSubject(std::move(*kernel));
}

class FlepStopsTest : public testing::TestWithParam<std::string> {
 protected:
  void Make(uint32_t blocks) {
    auto subject = MakeFlepSubject(GetParam(), blocks);
    ASSERT_TRUE(subject) << subject.error().ToString();
    subject_ = std::move(*subject);
    ASSERT_EQ(subject_.facts.preemptible_refusal, "");
    ASSERT_EQ(subject_.facts.sliced_refusal, "");
  }
  Subject subject_;
};

// Each block's results are its own: a block left out, or run as another, shows.
TEST_P(FlepStopsTest, BlocksLeaveSomethingOfTheirOwn) {
  Make(4);
  const auto& spec = subject_.golden.spec;
  size_t buffer = 0, outputs = 0;
  for (const sim::ArgSpec& arg : spec.args) {
    if (!arg.is_buffer) continue;
    const auto& after = subject_.expected[0][buffer++];
    if (after == arg.bytes) continue;
    ++outputs;
    const size_t part = after.size() / 8;
    for (size_t at = part; at + part <= after.size(); at += part) {
      EXPECT_NE(std::memcmp(&after[at], &after[at - part], part), 0) << "at byte " << at;
    }
  }
  EXPECT_GT(outputs, 0u);
}

TEST_P(FlepStopsTest, EverywhereInEachForm) {
  Make(4);
  for (const Form form : {Form::kTemporal, Form::kAmortised, Form::kSpatial}) {
    EXPECT_EQ(StopEverywhere(subject_, form), "") << "form " << static_cast<int>(form);
  }
  EXPECT_EQ(CutEverywhere(subject_), "");
}

// Of more blocks, several times in a run, by seed, with all that a memory may do.
TEST_P(FlepStopsTest, AgainAndAgain) {
  constexpr uint32_t kBlocks = 8;
  Make(kBlocks);
  uint32_t resumes = 0;
  for (uint64_t seed = 1; seed <= 2 && !HasFailure(); ++seed) {
    Prng random(seed);
    const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(random.Below(bound)); };
    Course course;
    course.sm_count = 3;
    course.workers = 2 + below(3);
    course.resume_workers = 1 + below(4);
    course.batch = 1 + below(4);
    course.stride = 1 + below(3);
    course.single_blocks = below(4);
    course.look_after_ns = below(2) * 2000;
    course.fresh_after_ns = course.look_after_ns / 2;
    course.has_watcher = below(2) == 0;
    for (uint32_t at = below(3); at < kBlocks; at += 1 + below(5)) {
      course.ask_at_block.push_back(at);
      course.bounds.push_back(below(2) == 0 ? runtime::kAllSms : 1 + below(2));
    }
    auto account = std::make_shared<Account>();
    sim::RandomChooser chooser(seed);
    const auto failure = sim::RunOnce(MakeScenario(subject_, course, account), &chooser);
    EXPECT_FALSE(failure) << "seed " << seed << ": " << failure->ToString();
    resumes += account->resumes;
  }
  EXPECT_GT(resumes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Kernels, FlepStopsTest, testing::ValuesIn(FlepKernels()),
                         [](const auto& test) { return test.param; });

#endif

// ---- planted bugs ---------------------------------------------------------------------------

// A bug of the side module, and the form whose stops find it.
struct StopBug {
  const char* name;
  const char* kernel;
  int form;  ///< a Form; kCut: of slices
  std::string before, after;
  const char* found;  ///< part of what is said
};

void PrintTo(const StopBug& bug, std::ostream* out) { *out << bug.name; }

constexpr int kCut = -1;
const StopBug kStopBugs[] = {
    {"LateWorkersDoNotLook", "plain", int(Form::kTemporal),
     "ld.relaxed.gpu.global.v2.u32 {%cupola_stop, %cupola_poll}, [%cupola_control];",
     "ld.relaxed.gpu.global.u32 %cupola_poll, [%cupola_control+4];\n\tmov.u32 %cupola_stop, 0;",
     "stops after"},
    {"ARangeHandedBackIsOneShort", "function_barrier", int(Form::kAmortised),
     "sub.u32 %cupola_end, %cupola_end, %cupola_current;",
     "sub.u32 %cupola_end, %cupola_end, %cupola_current;\n\tsub.u32 %cupola_end, %cupola_end, 1;",
     "unasked"},
    {"ARangeIsTakenByTwo", "two_warps", int(Form::kTogether),
     "atom.relaxed.gpu.global.exch.b64 %cupola_u1, [%cupola_u0+128], 0;",
     "ld.relaxed.gpu.global.u64 %cupola_u1, [%cupola_u0+128];", ""},
    {"WhoLeavesSomeSmsTellsNobody", "named_barriers", int(Form::kSpatial),
     "mov.u32 %cupola_t0, 1;\n\tst.shared.u32 [cupola_worker+64], %cupola_t0;",
     "mov.u32 %cupola_t0, 1;", "stops after"},
    {"SlicesBeginAtBlock0", "reductions", kCut, "add.u32 %cupola_x, %cupola_x, %cupola_t0;\n\tmov",
     "mov", "cut after 1"},
#ifdef CUPOLA_NVCC_KERNELS
    {"TheClaimAheadIsLost", "flep/spmv", int(Form::kTemporal),
     "\tsub.u32 %cupola_current, %cupola_ahead, %cupola_t0;",
     "\tbra.uni $cupola_tell_yield;\n\tsub.u32 %cupola_current, %cupola_ahead, %cupola_t0;",
     "unasked"},
    {"TheWorkerIsTakenForTheBlock", "flep/mm", int(Form::kSpatial),
     "ld.shared.v4.u32 {%cupola_x, %cupola_x_last, %cupola_y, %cupola_z}, [%cupola_place];",
     "ld.shared.v4.u32 {%cupola_x, %cupola_x_last, %cupola_y, %cupola_z}, [%cupola_place];\n"
     "\tmov.u32 %cupola_z, %ctaid.x;",
     ""},
#endif
};

Result<Subject> SubjectOf(const StopBug& bug) {
  const std::string name = bug.kernel;
#ifdef CUPOLA_NVCC_KERNELS
  if (name.starts_with("flep/")) return MakeFlepSubject(name.substr(5), 4);
#endif
  return MakeSubject(std::string(CUPOLA_SOURCE_DIR) + "/tests/golden/passes/kernels/" + name + ".ptx");
}

class StopBugTest : public testing::TestWithParam<StopBug> {};

TEST_P(StopBugTest, IsFound) {
  const StopBug& bug = GetParam();
  auto subject = SubjectOf(bug);
  ASSERT_TRUE(subject) << subject.error().ToString();
  ASSERT_GT(Replace(subject->side, bug.before, bug.after), 0u) << subject->side;
  const std::string found = bug.form == kCut
                                ? CutEverywhere(*subject)
                                : StopEverywhere(*subject, static_cast<Form>(bug.form));
  EXPECT_NE(found, "");
  EXPECT_NE(found.find(bug.found), found.npos) << found;
  RecordProperty("found", found);
}

INSTANTIATE_TEST_SUITE_P(Bugs, StopBugTest, testing::ValuesIn(kStopBugs),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace cupola::passes
