// Side modules with a bug put in: each is found by the bed of the preemption tests, which finds
// nothing in the module as it is.
#include <gtest/gtest.h>

#include "base/prng.h"
#include "tests/paths.h"
#include "tests/unit/passes/preempt_bed.h"

namespace cupola::passes {
namespace {

struct Bug {
  const char* name;
  const char* kernel;  ///< of tests/golden/passes/kernels
  std::string before, after;
  const char* found;  ///< part of what the bed must say
  uint32_t launches = 1;
  bool withdrawn = false;  ///< where requests are withdrawn before all have heard of them
  bool steady = false;     ///< where claims are run one behind the other
};

void PrintTo(const Bug& bug, std::ostream* out) { *out << bug.name; }

// What stands in the worker's text, and what a bug makes of it.
const Bug kBugs[] = {
    {"NoFenceBeforeCompleted", "shared_tile",
     "fence.acq_rel.sys;\n\tatom.relaxed.gpu.global.add.u32 %cupola_t0, [%cupola_slot+4]",
     "atom.relaxed.gpu.global.add.u32 %cupola_t0, [%cupola_slot+4]", "data race"},
    {"NoFenceBeforeDone", "shared_tile",
     "fence.acq_rel.sys;\n\tst.relaxed.sys.global.u32 [%cupola_slot+8]",
     "st.relaxed.sys.global.u32 [%cupola_slot+8]", "data race"},
    {"StopOfAnyTag", "plain",
     "setp.ne.u32 %cupola_p1, %cupola_t0, %cupola_tag;\n\t@%cupola_p1 bra $cupola_stay;",
     "setp.eq.u32 %cupola_p1, %cupola_t0, 0;\n\t@%cupola_p1 bra $cupola_stay;", ""},
    {"HandedBackTwice", "plain",
     "atom.relaxed.gpu.global.cas.b64 %cupola_u2, [%cupola_u0+128], 0, %cupola_u1;",
     "atom.relaxed.gpu.global.cas.b64 %cupola_u2, [%cupola_u0+136], 0, %cupola_u1;\n"
     "\tatom.relaxed.gpu.global.cas.b64 %cupola_u2, [%cupola_u0+128], 0, %cupola_u1;",
     "", 1},
    {"NotHandedBack", "plain", "@%cupola_p1 bra $cupola_hand_back;",
     "@%cupola_p1 bra $cupola_tell_yield;", "unasked"},
    {"ClaimAheadDropped", "plain", "\tsub.u32 %cupola_current, %cupola_ahead, %cupola_t0;",
     "\tbra.uni $cupola_tell_yield;\n\tsub.u32 %cupola_current, %cupola_ahead, %cupola_t0;",
     "unasked"},
    {"EndedBeforeCompleted", "shared_tile", "$cupola_leave:\n\t@%cupola_p0 bra $cupola_gone;\n",
     "$cupola_leave:\n\t@%cupola_p0 bra $cupola_gone;\n"
     "\tld.param.u64 %cupola_u0, [cupola_launch+16];\n"
     "\tld.param.u32 %cupola_t0, [cupola_launch+64];\n"
     "\tmul.wide.u32 %cupola_u1, %cupola_t0, 4;\n"
     "\tadd.s64 %cupola_u0, %cupola_u0, %cupola_u1;\n"
     "\tld.param.u32 %cupola_tag, [cupola_launch+68];\n"
     "\tst.release.sys.global.u32 [%cupola_u0+8], %cupola_tag;\n",
     "", 2},
    {"ExitsWithoutOrder", "plain", "atom.acq_rel.gpu.global.inc.u32",
     "atom.relaxed.gpu.global.inc.u32", "", 2},
    {"OnePlaceForRanges", "shared_tile",
     "xor.b32 %cupola_t0, %cupola_place, 16;\n\tst.shared.v4.u32 [%cupola_t0],",
     "mov.u32 %cupola_t0, %cupola_place;\n\tst.shared.v4.u32 [%cupola_t0],", "", 1},
    {"RangeBeyondItsRow", "three_dimensions", "min.u32 %cupola_blocks, %cupola_blocks, %cupola_t0;",
     "", "", 1},
    {"RangeCountedAsOne", "plain", "add.u32 %cupola_run, %cupola_run, %cupola_blocks;",
     "add.u32 %cupola_run, %cupola_run, 1;", "", 1},
    {"RangeBeyondItsClaim", "plain", "sub.u32 %cupola_blocks, %cupola_end, %cupola_current;",
     "sub.u32 %cupola_blocks, %cupola_total, %cupola_current;", "", 1},
    {"TakenAsIfInOrder", "plain", "@%cupola_p1 bra $cupola_interleave;", "", "", 1},
    {"InterleavedToTheEnd", "plain",
     "setp.ge.u32 %cupola_p1, %cupola_current, %cupola_t1;\n\t@%cupola_p1 bra $cupola_publish;", "",
     "", 1},
    {"RangesNextToEachOther", "plain",
     "mad.lo.u32 %cupola_next_last, %cupola_t2, %cupola_t1, %cupola_next_x;",
     "add.u32 %cupola_next_last, %cupola_t2, %cupola_next_x;", "", 1},
    {"NextOfBatchIsNext", "shared_tile",
     "@%cupola_p1 add.u32 %cupola_next_x, %cupola_next_x, %cupola_t3;", "", "", 1},
    {"RangeCountedTwice", "plain", "add.u32 %cupola_run, %cupola_run, %cupola_blocks;",
     "add.u32 %cupola_run, %cupola_run, %cupola_blocks;\n"
     "\tadd.u32 %cupola_run, %cupola_run, %cupola_blocks;",
     ""},
    {"NobodyDrains", "early_return_barriers", "\tbrx.idx %cupola_resume, $cupola_resumes;",
     "\t@%cupola_p2 brx.idx %cupola_resume, $cupola_resumes;", "", 1},
    // Lanes that have returned and others of their warp would wait in two places.
    {"PartsMeetWhereTheBarrierWas", "early_return_barriers",
     "setp.ne.u32 %cupola_p1, %cupola_n0, -1;\n\t@%cupola_p1 bra $cupola_meet;", "",
     "at two barriers", 1},
    {"NoMeeting", "shared_tile", "bar.warp.sync -1;\n\tbar.sync 0;\n\tsetp",
     "bar.warp.sync -1;\n\tsetp", "", 1},
    {"NoMeetingWhereNothingIsShared", "two_warps", "bar.warp.sync -1;\n\tbar.sync 0;\n\txor",
     "bar.warp.sync -1;\n\txor", "", 1},
    {"BlocksOfARangeAtATime", "shared_tile",
     "setp.ne.or.u32 %cupola_p1, %cupola_x, %cupola_x_last, %cupola_p0;\n"
     "\t@%cupola_p1 bra $cupola_join;",
     "setp.ne.u32 %cupola_p1, %cupola_x, %cupola_x_last;\n"
     "\t@%cupola_p1 bra $cupola_next_of_range;\n\t@%cupola_p0 bra $cupola_join;",
     "data race", 1},
    {"DecidesWithinRange", "shared_tile",
     "setp.ne.or.u32 %cupola_p1, %cupola_x, %cupola_x_last, %cupola_p0;\n"
     "\t@%cupola_p1 bra $cupola_join;",
     "@%cupola_p0 bra $cupola_join;", "", 1},
    {"ReadsWithinRange", "shared_tile",
     "setp.ne.u32 %cupola_p1, %cupola_x, %cupola_x_last;\n"
     "\t@%cupola_p1 bra $cupola_next_of_range;",
     "", "", 1},
    {"LastBlockOfRangeLeftOut", "plain",
     "sub.u32 %cupola_t2, %cupola_blocks, 1;\n\tmad.lo.u32 %cupola_next_last",
     "sub.u32 %cupola_t2, %cupola_blocks, 2;\n\tmad.lo.u32 %cupola_next_last", "", 1},
    {"SteadyRangeNotCounted", "plain", "\tadd.u32 %cupola_run, %cupola_run, %cupola_steady;\n", "",
     "", 1, false, true},
    {"SteadyClaimOfOne", "plain",
     "atom.relaxed.gpu.global.add.u32 %cupola_ahead, [%cupola_slot+0], %cupola_steady;",
     "atom.relaxed.gpu.global.add.u32 %cupola_ahead, [%cupola_slot+0], 1;", "", 1, false, true},
    {"SteadyBeyondTheLast", "plain",
     "setp.ge.or.u32 %cupola_p1, %cupola_next_last, %cupola_t0, %cupola_p1;", "", "", 1, false,
     true},
    {"TakenTwice", "plain", "atom.relaxed.gpu.global.exch.b64 %cupola_u1, [%cupola_u0+128], 0;",
     "ld.relaxed.gpu.global.u64 %cupola_u1, [%cupola_u0+128];", "", 1},
    {"PlacesOverwritten", "plain", "@%cupola_p1 bra $cupola_put;",
     "st.relaxed.gpu.global.u64 [%cupola_u0+128], %cupola_u1;", "", 1},
    {"WatchesOnAlone", "uneven_warps", "setp.eq.u32 %cupola_p1, %cupola_t1, %cupola_t2;",
     "setp.ne.u32 %cupola_p1, 0, 0;", "no end", 1, true},
    {"AllWatch", "plain", "setp.ne.or.u32 %cupola_p1, %cupola_t1, 0, %cupola_p1;", "", ""},
    // Whoever waits for a block waits for ever when the worker that has claimed it leaves.
    {"ClaimsAheadWhatIsWaitedFor", "look_back",
     "setp.ge.or.u32 %cupola_p1, %cupola_seen, %cupola_total, %cupola_p1;",
     "setp.ge.u32 %cupola_p1, %cupola_seen, %cupola_total;", "unasked", 1},
    {"HandsBackWhatIsWaitedFor", "look_back",
     "setp.ne.u32 %cupola_p1, %cupola_t0, 0;\n\t@%cupola_p1 mov.u32 %cupola_count, 1;",
     "setp.ne.u32 %cupola_p1, %cupola_t0, 0;", "nothing can go on", 1},
    {"CopiesLandLate", "async_copy", "$cupola_tail:\n\tcp.async.wait_all;\n", "$cupola_tail:\n",
     "data race", 1},
};

// Runs courses of many shapes until one fails; "" where none does.
std::string Search(const Subject& subject, const Bug& bug, uint32_t courses) {
  for (uint64_t seed = 1; seed <= courses; ++seed) {
    Prng random(seed);
    Course course;
    course.workers = 1 + static_cast<uint32_t>(random.Below(3));
    course.resume_workers = 1 + static_cast<uint32_t>(random.Below(6));
    course.batch = (bug.steady ? 1 : 2) + static_cast<uint32_t>(random.Below(3));
    course.stride = 1 + static_cast<uint32_t>(random.Below(3));
    course.flags = subject.facts.may_wait_on_blocks ? 1 : 0;
    course.has_watcher = seed % 3 == 0 && course.flags == 0;
    course.single_blocks = static_cast<uint32_t>(random.Below(6));
    course.launches = bug.launches;
    course.poll_period_ns = random.Below(2) == 0 ? 25 : 250;
    course.look_after_ns = random.Below(2) == 0 ? 0 : 20000;
    course.fresh_after_ns = course.look_after_ns;
    if (bug.steady) {
      course.stride = 1;
      course.single_blocks = 0;
      course.poll_period_ns = 20000;
      course.look_after_ns = 20000;
      course.fresh_after_ns = 0;
    }
    course.granularity = seed % 2 == 0 ? sim::Granularity::kThread : sim::Granularity::kWarp;
    uint64_t at = 0;
    for (int i = 0; i < 6; ++i) {
      course.ask_at_step.push_back(at += random.Below(300));
      course.bounds.push_back(random.Below(3) != 0 ? 0xFFFF : 1);
    }
    if (bug.withdrawn) {
      course.has_watcher = true;
      course.workers = 2 + static_cast<uint32_t>(random.Below(3));
      course.withdraws_after = random.Below(80);
    }
    sim::RandomChooser chooser(seed);
    const auto failure =
        sim::RunOnce(MakeScenario(subject, course, std::make_shared<Account>()), &chooser);
    if (failure) return failure->what + " (course " + std::to_string(seed) + ")";
  }
  return "";
}

class PlantedBugTest : public testing::TestWithParam<Bug> {};

TEST_P(PlantedBugTest, IsFound) {
  const Bug& bug = GetParam();
  auto subject = MakeSubject(
      std::string(CUPOLA_SOURCE_DIR) + "/tests/golden/passes/kernels/" + bug.kernel + ".ptx",
      bug.launches);
  ASSERT_TRUE(subject) << subject.error().ToString();
  ASSERT_EQ(Search(*subject, bug, 3), "");
  ASSERT_GT(Replace(subject->side, bug.before, bug.after), 0u) << subject->side;
  const std::string found = Search(*subject, bug, 150);
  EXPECT_NE(found, "");
  EXPECT_NE(found.find(bug.found), found.npos) << found;
  RecordProperty("found", found);
}

INSTANTIATE_TEST_SUITE_P(Bugs, PlantedBugTest, testing::ValuesIn(kBugs),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace cupola::passes
