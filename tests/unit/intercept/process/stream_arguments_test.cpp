// Which driver calls give a stream work, by cuda.h, and whether the stream's tasks come first: the
// table of stream arguments that the build makes from cudaTypedefs.h, and the table of calls.
#define __CUDA_API_VERSION_INTERNAL  // cuda.h declares every form of a call
#include <cuda.h>
#include <cudaProfiler.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "intercept/calls/call_table.h"
#include "intercept/process/stream_arguments.h"

namespace cupola::intercept {
namespace {

using tasks::TaskRule;

constexpr int kRegisters = 6;  // System V x86-64 ABI: of arguments that are integers

// Which argument of a call its stream is, the first where there are two; -1: it takes none. kRegisters
// and more: on the stack.
template <typename... Arguments>
constexpr int StreamPlace(CUresult (*)(Arguments...)) {
  static_assert(!(std::is_same_v<Arguments, CUstream> || ...) ||
                    ((sizeof(Arguments) <= 8 && !std::is_floating_point_v<Arguments>)&&...),
                "an argument that does not take one register, or one word of the stack");
  int found = -1, at = 0;
  ((found = found < 0 && std::is_same_v<Arguments, CUstream> ? at : found, ++at), ...);
  return found;
}

struct DriverCall {
  const char* name;
  CallRow row;
  int stream;
};

const std::vector<DriverCall>& Calls() {
  static const std::vector<DriverCall> calls = {
#define CUPOLA_CALL(name, ...) {#name, kCallTable[static_cast<size_t>(Call::k_##name)], StreamPlace(&::name)},
#include "intercept/calls.inc"
#undef CUPOLA_CALL
  };
  return calls;
}

struct Entry {
  int at;
  bool per_thread;
};
using Table = std::map<std::string, Entry>;

Table GeneratedTable() {
  return {
#define CUPOLA_STREAM_ARGUMENT(name, at, per_thread) {#name, {at, per_thread}},
#include "intercept/stream_arguments.inc"
#undef CUPOLA_STREAM_ARGUMENT
  };
}

bool BeginsWith(const std::string& name, const char* prefix) { return name.rfind(prefix, 0) == 0; }

// They ask something of a stream, and give it nothing to do. cuStreamQuery's hook says
// that tasks are not over.
bool OnlyAsks(const std::string& name) {
  return std::ranges::any_of(
      std::initializer_list<const char*>{"cuStreamGet", "cuStreamIsCapturing", "cuStreamQuery",
                                         "cuStreamUpdateCaptureDependencies"},
      [&](const char* prefix) { return BeginsWith(name, prefix); });
}

// What is wrong about a call of a stream, or "".
std::string Problem(const DriverCall& call, const Table& table) {
  const std::string name = call.name;
  const TaskRule rule = call.row.tasks;
  if (call.row.call_class == CallClass::kPure) return OnlyAsks(name) ? "" : "is said to put no work on a stream";
  if (call.row.hook == HookKind::kLaunchHook) return "";  // it sees to tasks itself
  if (rule == TaskRule::kHook) return call.row.hook == HookKind::kHook ? "" : "has no hook";
  const bool is_per_thread = name.ends_with("_ptsz");
  if (call.row.call_class == CallClass::kMayWait) {
    switch (rule) {
      case TaskRule::kWait:
      case TaskRule::kWaitAndLeave:
        return "";
      case TaskRule::kSyncStream:
      case TaskRule::kSyncStreamPerThread:
      case TaskRule::kEndStream:
        if (call.stream != 0) return "has its stream elsewhere than first";
        return (rule == TaskRule::kSyncStreamPerThread) == is_per_thread ? "" : "is of another form";
      case TaskRule::kFlush:
        break;
      default:
        return "has nothing to do with tasks";
    }
  }
  // The stream is made to wait for its tasks; were it not found, all streams would be.
  const auto entry = table.find(name);
  if (entry == table.end()) return "is not in the table";
  if (entry->second.at != call.stream) return "has its stream in another place";
  return entry->second.per_thread == is_per_thread ? "" : "is of another form";
}

std::vector<std::string> Problems(const Table& table) {
  std::vector<std::string> problems;
  for (const DriverCall& call : Calls()) {
    if (call.stream < 0) {
      if (table.contains(call.name)) problems.push_back(call.name + std::string(" has no stream"));
      continue;
    }
    if (const std::string problem = Problem(call, table); !problem.empty()) {
      problems.push_back(call.name + (" " + problem));
    }
  }
  return problems;
}

TEST(StreamCalls, EachComesBehindTheTasksOfItsStream) {
  EXPECT_EQ(Problems(GeneratedTable()), std::vector<std::string>{});
}

// One that is left out, moved, or of the other form.
TEST(StreamCalls, AnEntryThatIsNotRightIsFound) {
  const Table right = GeneratedTable();
  std::set<std::string> found;
  for (const DriverCall& call : Calls()) {
    if (!right.contains(call.name)) continue;
    Table missing = right, moved = right, other = right;
    missing.erase(call.name);
    moved[call.name].at ^= 1;
    other[call.name].per_thread ^= true;
    const bool is_used = !Problems(missing).empty();
    EXPECT_EQ(!Problems(moved).empty(), is_used) << call.name;
    EXPECT_EQ(!Problems(other).empty(), is_used) << call.name;
    if (is_used) found.insert(call.name);
  }
  // Where the entry is used: neither by a hook nor because all tasks are waited for.
  for (const char* name : {"cuLaunchHostFunc", "cuStreamAddCallback_ptsz", "cuStreamWaitValue32_v2",
                           "cuMemcpy2DAsync_v2", "cuMemcpyPeerAsync", "cuMemcpyBatchAsync_v2", "cuMemPrefetchAsync_v2_ptsz",
                           "cuEventRecord", "cuStreamWaitEvent", "cuMemFreeAsync"}) {
    EXPECT_TRUE(found.contains(name)) << name;
  }
}

// As entry.S lays them out: registers downwards, then what lies above the return address.
TEST(StreamCalls, ArgumentsOnTheStackAreFound) {
  const Table table = GeneratedTable();
  uint64_t frame[32] = {};
  uint64_t* const arguments = frame + kRegisters - 1;
  constexpr int kBefore = 4;  // frame pointer, index, function, return address
  const auto place = [&](int at) {
    return at < kRegisters ? arguments - at : arguments + kBefore + 1 + at - kRegisters;
  };
  for (int at = 0; at < 12; ++at) *place(at) = 100u + static_cast<unsigned>(at);
  size_t on_stack = 0;
  for (const DriverCall& call : Calls()) {
    if (call.row.call_class == CallClass::kPure || call.stream < 0) continue;
    on_stack += call.stream >= kRegisters;
    ASSERT_TRUE(table.contains(call.name)) << call.name;
    EXPECT_EQ(ArgumentAt(arguments, table.at(call.name).at), 100u + static_cast<unsigned>(call.stream))
        << call.name;
  }
  EXPECT_GT(on_stack, 3u);  // cuMemcpyBatchAsync and the like
}

}  // namespace
}  // namespace cupola::intercept
