// The MasterKernel on the stepped device: interleavings by seed, and bugs planted in its text that
// a search must find. Only RandomChooser: it is fair, and a scheduler polls for ever.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "base/settings/variables.h"
#include "base/prng.h"
#include "device/runtime/task_record.h"
#include "planted_bugs.h"
#include "tests/paths.h"
#include "tests/unit/runtime/task_bed.h"

namespace cupola::runtime {
namespace {

// tests/unit/runtime/plant.py: of stepped_bodies.cu, as it is or with a bug.
std::string Ptx(const std::string& name) {
  std::ifstream file(std::string(CUPOLA_STEPPED_PTX_FOLDER) + "/" + name + ".ptx");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

sim::SearchResult Search(const BedCourse& course, uint64_t seeds, uint64_t first = 1,
                         const std::string& ptx = Ptx("none")) {
  return sim::SearchSeeds(MakeTaskScenario(ptx, course), first, seeds);
}

void ExpectWell(const BedCourse& course, uint64_t seeds, uint64_t first = 1) {
  const sim::SearchResult result = Search(course, seeds, first);
  EXPECT_FALSE(result.failure) << result.failure->ToString();
}

// Tasks of all bodies that fit; barriers and shared memory are scarce in some courses.
BedCourse RandomCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course;
  course.columns = 1 + random.Below(2);
  course.awake = course.columns;
  course.executors = 1 + random.Below(4);
  // Many small blocks side by side, or few of any size.
  const bool small = random.Below(3) == 0;
  if (small) course.executors = 4;
  const uint32_t most_threads = small ? 32 : 32 * course.executors, count = 3 + random.Below(5);
  for (uint32_t i = 0; i < count; ++i) {
    BedTask task{.column = static_cast<uint32_t>(random.Below(course.columns)),
                 .body = static_cast<uint16_t>(random.Below(4))};
    task.threads = static_cast<uint16_t>(1 + random.Below(most_threads));
    task.blocks = 1 + random.Below(3);
    task.barrier = task.body == 1 || task.body == 2;
    if (task.body >= 2) {
      // Up to all of the arena (1 KiB).
      task.shared_bytes = task.threads * 4u;
      if (random.Below(4) == 0) task.shared_bytes = 1024;
    }
    course.tasks.push_back(task);
  }
  return course;
}

// More blocks than the arena has room for, of all sizes.
BedCourse CrowdedCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course;
  course.executors = 4;
  for (uint32_t i = 0; i < 24; ++i) {
    course.tasks.push_back({.body = 3,
                            .threads = static_cast<uint16_t>(1 + random.Below(2)),
                            .shared_bytes = 16u << random.Below(7)});
  }
  return course;
}

// Chains of tasks, each of which reads what the one before it wrote, or the host, or a task of any
// column that has ended.
BedCourse ChainedCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course;
  course.columns = course.awake = 1 + random.Below(2);
  course.executors = 1 + random.Below(4);
  std::vector<std::vector<int>> columns(course.columns);  // of each the tasks
  // Of those with shared memory the scheduler finds out itself when they can start.
  const uint64_t scheduled = 2 * random.Below(3);
  const uint16_t threads = random.Below(2) == 0 ? 20 : 40;
  for (int i = 0; i < 10; ++i) {
    BedTask task{.column = static_cast<uint32_t>(random.Below(course.columns)), .body = 4};
    task.threads = threads;
    if (random.Below(4) < scheduled) task.shared_bytes = 16;
    std::vector<int>& before = columns[task.column];
    if (!before.empty() && random.Below(4) != 0) {
      task.after = static_cast<uint16_t>(1 + random.Below(std::min<uint64_t>(3, before.size())));
      task.reads = before[before.size() - task.after];
    } else if (i > 0 && random.Below(2) == 0) {
      task.reads = static_cast<int>(random.Below(static_cast<uint64_t>(i)));
    }
    before.push_back(i);
    course.tasks.push_back(task);
  }
  return course;
}

// The first runs until the last has, the ones between wait for the first.
BedCourse HeldCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course;
  course.executors = 3;
  course.tasks.push_back({.body = 5});
  const auto count = static_cast<uint16_t>(1 + random.Below(6));
  for (uint16_t i = 1; i <= count; ++i) course.tasks.push_back({.body = 0, .after = i});
  course.tasks.push_back({.body = 6});
  return course;
}

// The first holds all shared memory until the last has run, the ones between want some of it.
BedCourse HeldRoomCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course;
  course.executors = 3;
  course.tasks.push_back({.body = 5, .shared_bytes = 1024});
  const uint64_t count = 1 + random.Below(4);
  for (uint64_t i = 0; i < count; ++i) {
    course.tasks.push_back({.body = 3, .threads = 2, .shared_bytes = 16u << random.Below(7)});
  }
  course.tasks.push_back({.body = 6});
  return course;
}

// Rows of tasks that go on by themselves, and others, which come while these run: executors are
// handed tasks by the scheduler and by each other.
BedCourse BusyCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course;
  course.executors = 4;
  const int rows = 1 + static_cast<int>(random.Below(2));
  uint64_t at = 0;
  for (int i = 0; i < 16; ++i) {
    BedTask task{.body = 4, .threads = 20};
    if (i >= rows && random.Below(3) != 0) {
      task.after = static_cast<uint16_t>(rows);
      task.reads = i - rows;
    }
    course.tasks.push_back(task);
    course.pause_ns.push_back(at += random.Below(5'000));
  }
  return course;
}

// More rows of tasks than executors: what can go on when a task ends is left to the scheduler,
// while others end.
BedCourse QueuedCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course;
  course.executors = 2 + random.Below(3);
  const int rows = 2 * static_cast<int>(course.executors);
  const uint16_t threads = random.Below(4) == 0 ? 40 : 20;
  for (int i = 0; i < 4 * rows; ++i) {
    BedTask task{.body = 4, .threads = threads};
    if (i >= rows) {
      task.after = static_cast<uint16_t>(rows);
      task.reads = i - rows;
    }
    course.tasks.push_back(task);
  }
  return course;
}

// Tasks of all forms that come alone, when the column has been quiet, now and then two at once.
BedCourse LonelyCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course = RandomCourse(seed);
  course.columns = course.awake = 1;
  const auto most_threads = static_cast<uint16_t>(32 * course.executors);
  while (course.tasks.size() < 12) course.tasks.push_back({.body = 0});
  uint64_t at = 0;
  for (BedTask& task : course.tasks) {
    task.column = 0;
    if (random.Below(2) == 0) {
      task = {.body = 0, .threads = static_cast<uint16_t>(1 + random.Below(most_threads))};
    }
    if (random.Below(3) != 0) at += 20'000 + random.Below(20'000);
    course.pause_ns.push_back(at);
  }
  return course;
}

TEST(MasterKernel, RunsOneTask) { ExpectWell({.tasks = {{}}}, 20); }

TEST(MasterKernel, AColumnIsARing) {
  BedCourse course;
  course.executors = 3;
  course.most_steps = 1'000'000;
  for (uint32_t i = 0; i < 2 * kTaskRows + 10; ++i) {
    course.tasks.push_back({.threads = static_cast<uint16_t>(1 + i % 96)});
  }
  ExpectWell(course, 1);
}

// One chain, longer than a column.
BedCourse RingCourse() {
  BedCourse course;
  course.executors = 3;
  course.most_steps = 2'000'000;
  for (int i = 0; i < static_cast<int>(kTaskRows) + 20; ++i) {
    course.tasks.push_back(
        {.body = 4, .threads = 33, .after = static_cast<uint16_t>(i == 0 ? 0 : 1), .reads = i - 1});
  }
  return course;
}

TEST(MasterKernel, AChainGoesRoundTheRing) {
  BedCourse course = RingCourse();
  ExpectWell(course, 1);
  course.first = 0 - kTaskRows;
  ExpectWell(course, 1);
}

// Asked at any time to leave: what was put in before, while it leaves or after is run, by this one
// or the next.
BedCourse LeavingCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course = RandomCourse(seed);
  for (uint64_t at = 0; at < 3; ++at) course.leave_at_step.push_back(random.Below(2500));
  std::sort(course.leave_at_step.begin(), course.leave_at_step.end());
  return course;
}

// It leaves when it is idle, and comes back.
BedCourse IdleCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course = RandomCourse(seed);
  course.idle_ns = 5'000;
  uint64_t at = 0;
  for (size_t i = 0; i < course.tasks.size(); ++i) {
    course.pause_ns.push_back(at += random.Below(60'000));
  }
  return course;
}

// Chains, some of them cut by a request to leave.
BedCourse ChainedOrCutCourse(uint64_t seed) {
  BedCourse course = ChainedCourse(seed);
  if (seed % 4 == 0) course.leave_at_step = {(1 + seed % 24) * 50, (1 + seed % 24) * 100};
  return course;
}

// At the end, while columns may not have noticed yet that they have nothing to do; and while tasks
// run, which nobody needs to wake a column for.
BedCourse SleepingCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course = RandomCourse(seed);
  course.columns = course.awake = 2;
  for (size_t i = 0; i < course.tasks.size(); ++i) course.tasks[i].column = i % 2;
  for (uint64_t at = 0; at < 4; ++at) course.sleep_at_step.push_back(at * 400 + random.Below(400));
  course.sleeps_at_end = true;
  course.idle_ns = 5'000;
  course.most_steps = 100'000;
  return course;
}

// Left in a hurry at any time, some of their blocks begun: tasks of all forms, in order, go on
// where they were.
BedCourse HurriedCourse(uint64_t seed) {
  using MakeCourse = BedCourse (*)(uint64_t);
  constexpr MakeCourse kCourses[] = {RandomCourse, ChainedCourse, CrowdedCourse, BusyCourse};
  BedCourse course = kCourses[seed % 4](seed);
  Prng random(seed + 1'000'000);
  course.hurries = true;
  course.most_steps = 200'000;
  if (seed % 4 == 0) {
    for (BedTask& task : course.tasks) task.blocks += static_cast<uint32_t>(random.Below(4));
  }
  for (uint64_t at = 0; at < 4; ++at) course.leave_at_step.push_back(random.Below(2500));
  std::sort(course.leave_at_step.begin(), course.leave_at_step.end());
  return course;
}

// Rows of tasks, and blocks of which there is room for one and a part: what waits for a task, or
// for its own warps, when the hurry comes.
BedCourse HurriedRowsCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course;
  course.executors = 4;
  course.hurries = true;
  course.most_steps = 200'000;
  const bool in_rows = seed % 2 == 0;
  for (int i = 0; i < 20; ++i) {
    BedTask task{.body = 1, .threads = 96, .barrier = true};
    if (in_rows) task = {.body = 4, .threads = 20, .after = static_cast<uint16_t>(i > 1 ? 2 : 0)};
    if (in_rows && i > 1) task.reads = i - 2;
    course.tasks.push_back(task);
  }
  for (uint64_t at = 1; at < 6; ++at) course.leave_at_step.push_back(400 * at + random.Below(400));
  return course;
}

// Of many tasks that one executor runs one after the other.
BedCourse LongCourse(uint64_t seed) {
  BedCourse course;
  course.executors = 1;
  course.hurries = course.keeps_some = true;
  course.most_steps = 100'000;
  course.leave_at_step = {600 + seed % 10 * 40};
  for (uint32_t i = 0; i < kTaskRows; ++i) course.tasks.push_back({.body = 0, .blocks = 6});
  return course;
}

// The same, asked to leave before, of one column or of the second of two: the hurry reaches what
// leaves, be it said of the launch behind it.
BedCourse LongLeavingCourse(uint64_t seed) {
  BedCourse course = LongCourse(seed);
  course.hurries = false;
  course.hurries_next = seed / 2 % 2 == 0;
  course.hurry_at_step = {course.leave_at_step[0] + 1'500 + seed % 7 * 300};
  if (seed % 2 != 0) return course;
  course.columns = course.awake = 2;
  for (BedTask& task : course.tasks) task.column = 1;
  return course;
}

// Asked to leave at any time, and then in a hurry.
BedCourse LeavingThenHurriedCourse(uint64_t seed) {
  BedCourse course = HurriedCourse(seed);
  Prng random(seed + 2'000'000);
  course.hurries = false;
  course.hurries_next = random.Below(2) == 0;
  for (const uint64_t at : course.leave_at_step) {
    course.hurry_at_step.push_back(at + random.Below(1'000));
  }
  std::sort(course.hurry_at_step.begin(), course.hurry_at_step.end());
  return course;
}

// One hurry after the other, each so soon after its launch that the second column may begin behind
// it: it keeps tasks that have begun in part as they are.
BedCourse HastyCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course;
  course.columns = course.awake = 2;
  course.hurries = true;
  course.most_steps = 200'000;
  for (uint32_t i = 0; i < 6; ++i) {
    course.tasks.push_back({.column = i % 2, .body = 0, .blocks = 9});
  }
  uint64_t at = 500;
  for (int times = 0; times < 8; ++times, at += 100 + random.Below(400)) {
    course.leave_at_step.push_back(at);
  }
  return course;
}

// Tasks that are launched, one behind the other.
BedCourse SoloCourse(uint64_t seed) {
  Prng random(seed);
  BedCourse course = RandomCourse(seed);
  course.is_solo = true;
  course.most_steps = 200'000;
  for (size_t i = 0; i < course.tasks.size(); ++i) {
    BedTask& task = course.tasks[i];
    task.column = 0;
    if (i > 0 && random.Below(3) == 0) {  // reads what the one before it wrote
      task = course.tasks[i - 1];
      task = {.body = 4, .threads = task.threads, .blocks = task.blocks, .after = 1};
      task.reads = static_cast<int>(i) - 1;
    }
  }
  return course;
}

struct CourseKind {
  const char* name;
  BedCourse (*make)(uint64_t seed);
  uint64_t count;  ///< of courses that each build runs: 3,088 of all kinds
};
constexpr CourseKind kKinds[] = {
    {"TasksOfAllForms", RandomCourse, 160},
    {"MoreThanTheArenaHolds", CrowdedCourse, 240},
    {"OrderAndWhatWasWritten", ChainedOrCutCourse, 400},
    {"ATaskThatWaitsHoldsUpNoOther", HeldCourse, 240},
    {"TasksHandOnTheirExecutors", BusyCourse, 240},
    {"TasksQueueForExecutors", QueuedCourse, 160},
    {"TasksThatComeAlone", LonelyCourse, 200},
    {"LeavesWhenItIsAsked", LeavingCourse, 160},
    {"LeavesWhenItIsIdle", IdleCourse, 160},
    {"ColumnsArePutToSleep", SleepingCourse, 160},
    {"ABlockThatWaitsForRoomHoldsUpNoOther", HeldRoomCourse, 160},
    {"LeavesInAHurryAndLosesNothing", HurriedCourse, 240},
    {"WhatWaitsInAHurry", HurriedRowsCourse, 120},
    {"InAHurryItRunsNoMoreThanHasBegun", LongCourse, 24},
    {"AHurryReachesOneThatLeaves", LongLeavingCourse, 24},
    {"LeavesAndIsInAHurryThen", LeavingThenHurriedCourse, 120},
    {"WhatIsKeptIsKeptAgain", HastyCourse, 120},
    {"ATaskIsALaunch", SoloCourse, 160},
};
constexpr uint64_t kParts = 4;  // of a kind's courses, a test each, so that they run side by side

class Courses : public testing::TestWithParam<std::tuple<CourseKind, uint64_t>> {};

// Each course is one interleaving of its own: its seed makes the tasks and the choices.
// CUPOLA_COURSES=10 runs ten times as many, CUPOLA_SEED=7000 those from 7000 on.
TEST_P(Courses, GoWell) {
  const auto& [kind, part] = GetParam();
  const uint64_t count = kind.count / kParts * settings::Number("CUPOLA_COURSES");
  const uint64_t first = settings::NumberIfSet("CUPOLA_SEED").value_or(1) + part * count;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    BedCourse course = kind.make(seed);
    // Of some columns 2^32 tasks are almost over: then sequences, as the device has them, begin anew.
    if (seed % 4 == 3) course.first = ~static_cast<uint32_t>(seed / 4 % 4);
    ExpectWell(course, 1, 1000 * seed);
    ASSERT_FALSE(HasFailure()) << "CUPOLA_SEED=" << seed << " --gtest_filter=*" << kind.name
                               << "_0 begins with it";
  }
}

INSTANTIATE_TEST_SUITE_P(
    , Courses, testing::Combine(testing::ValuesIn(kKinds), testing::Range(uint64_t{0}, kParts)),
    [](const auto& test) {
      return fmt::format("{}_{}", std::get<0>(test.param).name, std::get<1>(test.param));
    });

class PlantedBug : public testing::TestWithParam<const char*> {};

constexpr uint64_t kPlantedCourses = 600;

// From which of those the search begins, and goes round: where a bug was found last that few of them
// show. Nothing else depends on it.
uint64_t FirstCourse(std::string_view bug) {
  static const std::map<std::string_view, uint64_t> kFound = {
      {"ABlockIsTornByAHurry", 54},       {"ABusyColumnSleeps", 242},
      {"AFirstDoesNotWait", 52},          {"AnotherColumnTakesTheFirst", 472},
      {"KeptTasksRunTwice", 96},          {"BlocksWithRoomRunTwiceBehindAHurry", 94},
      {"RunsOfUnitsAreTooShort", 89},     {"TheThirdInARowStartsEarly", 211},
      {"WhoIsNotFreeIsHandedOneAlone", 197}};
  const auto found = kFound.find(bug);
  return found == kFound.end() ? 1 : found->second;
}

TEST_P(PlantedBug, IsFound) {
  const std::string ptx = Ptx(GetParam());
  ASSERT_FALSE(ptx.empty());
  if (Search(RingCourse(), 1, 1, ptx).failure) return;  // rows that are used again
  for (uint64_t seed = 1; seed <= 4; ++seed) {  // a hurry behind a request to leave
    if (Search(LongLeavingCourse(seed), 1, 1000 * seed, ptx).failure) return;
  }
  for (uint64_t turn = 0; turn < kPlantedCourses; ++turn) {
    const uint64_t seed = (FirstCourse(GetParam()) - 1 + turn) % kPlantedCourses + 1;
    // By turns, so that each bug soon meets the courses that can show it.
    using MakeCourse = BedCourse (*)(uint64_t);
    constexpr MakeCourse kCourses[] = {
        ChainedCourse, HeldCourse,        LonelyCourse, SleepingCourse, CrowdedCourse,
        BusyCourse,    QueuedCourse,      RandomCourse, HeldRoomCourse, HurriedCourse,
        LongCourse,    HurriedRowsCourse, HastyCourse,  SoloCourse};
    BedCourse course =
        kCourses[(seed - 1) % std::size(kCourses)](seed / std::size(kCourses) + seed);
    if (seed % std::size(kCourses) == 8) course.leave_at_step = {400, 1200};
    if (const sim::SearchResult result = Search(course, 2, 1000 * seed, ptx); result.failure) {
      std::printf("course %d: %.200s\n", static_cast<int>(seed), result.failure->what.c_str());
      return;
    }
  }
  FAIL() << "no course found it";
}

INSTANTIATE_TEST_SUITE_P(, PlantedBug, testing::Values(CUPOLA_PLANTED_BUGS),
                         [](const auto& bug) { return std::string(bug.param); });

}  // namespace
}  // namespace cupola::runtime
