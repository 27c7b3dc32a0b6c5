// Golden kernels as tasks of a MasterKernel on the stepped device: each gives the same as the
// kernel itself; and what is refused.
#include <gtest/gtest.h>

#include <cstring>

#include "device/compiler/passes/task_module.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/write.h"
#include "device/runtime/master_image.h"
#include "device/runtime/task_grid.h"
#include "device/sim/stepped/search.h"
#include "tests/paths.h"
#include "tests/unit/passes/leaving_shapes.h"
#include "tests/unit/passes/preempt_subject.h"

namespace cupola::passes {
namespace {

using namespace runtime;  // NOLINT: the words of a record

const ptx::Module& Master() {
  static const auto master = ptx::Parse(MasterImage(), "master_image");
  return *master;
}

struct TaskSubject {
  Subject subject;
  std::string ptx;  ///< of the task module
  TaskFacts facts;
  std::vector<VariableFact> variables;
};

Result<TaskSubject> MakeTaskSubject(Result<Subject> subject) {
  if (!subject) return subject.error();
  TaskSubject made{.subject = *std::move(subject)};
  auto original = ptx::Parse(made.subject.original, "");
  auto module =
      MakeTaskModule(*original, Master(), {.kernels = {made.subject.kernel}, .held = 0b10101});
  if (!module) return module.error();
  made.facts = module->kernels.at(0);
  made.variables = module->variables;
  if (made.facts.refusal.empty()) made.ptx = ptx::Write(module->module);
  return made;
}

uint32_t Threads(const sim::KernelSpec& spec) { return spec.block.x * spec.block.y * spec.block.z; }

// The record of the launch that `spec` says.
std::vector<uint32_t> MakeRecord(const TaskSubject& task, const std::vector<std::byte>& params) {
  const sim::KernelSpec& spec = task.subject.golden.spec;
  const auto narrow = [](uint32_t value) { return static_cast<uint16_t>(value); };
  const TaskHeader header{
      .body = narrow(task.facts.body),
      .chunks = kRecordChunks,
      .barrier = task.facts.uses_barrier ? kMeetsAndLeaves : uint8_t{0},
      .threads = narrow(Threads(spec)),
      .after = 0,
      .blocks = spec.grid.x * spec.grid.y * spec.grid.z,
      .shared_bytes = task.facts.static_shared + static_cast<uint32_t>(spec.dynamic_shared_bytes)};
  const TaskGrid grid{.block = {narrow(spec.block.x), narrow(spec.block.y), narrow(spec.block.z)},
                      .blocks_z = narrow(spec.grid.z),
                      .blocks_x = spec.grid.x,
                      .blocks_y = spec.grid.y};
  std::vector<uint32_t> words(kRecordWords);
  std::memcpy(words.data(), &header, sizeof header);
  std::memcpy(words.data() + 4, &grid, sizeof grid);
  if (!params.empty()) std::memcpy(words.data() + 8, params.data(), params.size());
  return words;
}

// Memory that both sides see, one MTB's.
struct Board {
  uint64_t column, done, control, state, device, head, kept;
};

Board MakeBoard(sim::Device& device) {
  const auto zeroed = [&](uint64_t bytes) {
    const uint64_t address = device.Allocate(bytes);
    std::memset(reinterpret_cast<void*>(address), 0, bytes);
    return address;
  };
  return {zeroed(sizeof(TaskColumn)),  zeroed(4 * kTaskRows),         zeroed(sizeof(HostControl)),
          zeroed(sizeof(MasterState)), zeroed(sizeof(DeviceControl)), zeroed(4),
          zeroed(4 * kTaskRows)};
}

void PutRecord(const Board& board, const std::vector<uint32_t>& words) {
  auto& record = reinterpret_cast<TaskColumn*>(board.column)->rows[0];
  reinterpret_cast<TaskColumn*>(board.column)->tail = 1;
  for (uint32_t i = 0; i < kRecordChunks; ++i) {
    std::memcpy(record.chunks[i].words, &words[i * kChunkWords], sizeof record.chunks[i].words);
    record.chunks[i].sequence = 1;
  }
}

std::vector<std::byte> MasterArguments(const Board& board) {
  MasterParams params{};
  params.columns = reinterpret_cast<const TaskColumn*>(board.column);
  params.done = reinterpret_cast<uint32_t*>(board.done);
  params.host = reinterpret_cast<const HostControl*>(board.control);
  params.state = reinterpret_cast<MasterState*>(board.state);
  params.device = reinterpret_cast<DeviceControl*>(board.device);
  params.heads = reinterpret_cast<uint32_t*>(board.head);
  params.kept = reinterpret_cast<uint32_t*>(board.kept);
  params.epoch = 1;
  params.idle_ns = 1u << 30;
  params.unit_bytes = kTaskUnitBytes;
  std::vector<std::byte> bytes(sizeof params);
  std::memcpy(bytes.data(), &params, sizeof params);
  return bytes;
}

// Runs the kernel as the one task of a MasterKernel that was asked to leave before it began. What
// is wrong, "" if nothing is.
std::string RunAsTask(const TaskSubject& task, uint64_t seed) {
  const Subject& subject = task.subject;
  const sim::KernelSpec& spec = subject.golden.spec;
  sim::SteppedConfig config;
  config.device.memory_bytes = 64 << 20;
  config.memory.find_races = false;
  sim::RandomChooser chooser(seed);
  auto device = sim::SteppedDevice::Create(config, &chooser);
  auto original = device->LoadPtx(subject.original, "original");
  auto module = device->LoadPtx(task.ptx, "task");
  if (!original || !module) return (original ? module : original).error().ToString();
  const uint32_t index = KernelIndex(**original, subject.kernel);
  const Arguments arguments = PlaceArguments(*device, spec, (*original)->kernels()[index]);
  FillVariables(task.variables, **original, **module);
  const Board board = MakeBoard(*device);
  PutRecord(board, MakeRecord(task, arguments.params));
  reinterpret_cast<HostControl*>(board.control)->leave = 1;
  const uint32_t executors = (Threads(spec) + 31) / 32 + 1;
  device->Submit({*module,
                  KernelIndex(**module, kMasterName),
                  {1, 1, 1},
                  {32 * (executors + 1), 1, 1},
                  kArenaUnits * kTaskUnitBytes,
                  MasterArguments(board),
                  false},
                 [](const sim::Fault*) {});
  if (device->Run() != sim::RunEnd::kIdle || device->fault()) {
    return device->fault() ? device->fault()->message : device->stuck();
  }
  if (*reinterpret_cast<uint32_t*>(board.done) != 1) return "it is not done";
  if (ReadBuffers(spec, arguments) != subject.expected[0]) return "its buffers differ";
  return WrongCounts(**original, spec.grid.x * spec.grid.y * spec.grid.z, 1);
}

std::vector<std::filesystem::path> AllKernels() {
  auto paths = sim::GoldenKernelFiles();
  const auto own = std::filesystem::path(CUPOLA_SOURCE_DIR) / "tests/golden/passes/kernels";
  for (const auto& entry : std::filesystem::directory_iterator(own)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

class TaskKernelsTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(TaskKernelsTest, GiveTheSameAsTasks) {
  auto golden = sim::ReadGoldenKernel(GetParam());
  ASSERT_TRUE(golden) << golden.error().ToString();
  const bool has_one_result =
      golden->expected.find("fault:") == std::string::npos && golden->name != "timers.ptx";
  if (!has_one_result) GTEST_SKIP() << "has no one result";
  const auto task = MakeTaskSubject(MakeSubject(GetParam()));
  ASSERT_TRUE(task) << task.error().ToString();
  if (!task->facts.refusal.empty()) GTEST_SKIP() << "refused: " << task->facts.refusal;
  const uint64_t shared = task->facts.static_shared + golden->spec.dynamic_shared_bytes;
  if (Threads(golden->spec) > 30 * 32 || shared > kArenaUnits * kTaskUnitBytes) {
    GTEST_SKIP() << "is no narrow launch";
  }
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_EQ(RunAsTask(*task, seed), "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, TaskKernelsTest, testing::ValuesIn(AllKernels()),
                         [](const auto& test) {
                           return test.param.parent_path().filename().string() + "_" +
                                  test.param.stem().string();
                         });

// Lanes that leave before barriers to which the others come. All barriers that a task can have are the same there:
// those of the first kind, whose number the name ends with.
std::vector<std::string> LeavingTasks() {
  std::vector<std::string> names = LeavingShapes();
  std::erase_if(names, [](const std::string& name) { return name.find("ELi0EEv") == name.npos; });
  return names;
}

class LeavingTasksTest : public testing::TestWithParam<std::string> {};

TEST_P(LeavingTasksTest, GiveTheSameAsTasks) {
  auto golden = MakeLeavingShape(GetParam());
  ASSERT_TRUE(golden) << golden.error().ToString();
  const auto task = MakeTaskSubject(MakeSubject(*std::move(golden)));
  ASSERT_TRUE(task) << task.error().ToString();
  if (!task->facts.refusal.empty()) GTEST_SKIP() << "refused: " << task->facts.refusal;
  EXPECT_EQ(RunAsTask(*task, 1), "");
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LeavingTasksTest);
INSTANTIATE_TEST_SUITE_P(Shapes, LeavingTasksTest, testing::ValuesIn(LeavingTasks()));

}  // namespace
}  // namespace cupola::passes
