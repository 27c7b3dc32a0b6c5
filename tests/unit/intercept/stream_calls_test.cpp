// Which driver calls give a stream work, by cuda.h, and whether the stream's tasks come first: the
// table of stream arguments that the build makes from cudaTypedefs.h, the classes and the rules.
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

#include "intercept/calls.h"
#include "intercept/tasks/call_rules.h"

namespace cupola::intercept::tasks {
namespace {

constexpr int kRegisters = 6;  // System V x86-64 ABI: of arguments that are integers

// The register of a call's stream, the last one that is passed; -1: it takes none; kRegisters and
// more: on the stack.
template <typename... Arguments>
constexpr int StreamRegister(CUresult (*)(Arguments...)) {
  static_assert(!(std::is_same_v<Arguments, CUstream> || ...) ||
                    ((sizeof(Arguments) <= 8 && !std::is_floating_point_v<Arguments>)&&...),
                "an argument that does not take one register");
  int found = -1, at = 0;
  ((found = std::is_same_v<Arguments, CUstream> ? at : found, ++at), ...);
  return found;
}

struct DriverCall {
  const char* name;
  CallClass call_class;
  int stream;
};

constexpr auto kPure = CallClass::kPure, kStreamOrdered = CallClass::kStreamOrdered,
               kMayWait = CallClass::kMayWait;

const std::vector<DriverCall>& Calls() {
  static const std::vector<DriverCall> calls = {
#define CUPOLA_CALL(name, call_class) {#name, call_class, StreamRegister(&::name)},
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

// Calls that Cupola implements itself; those of launches see to tasks in the hook.
const std::set<std::string> kHooks = {
#define CUPOLA_HOOK(name, ...) #name,
#define CUPOLA_LAUNCH_HOOK(name, ...)
#define CUPOLA_ALIAS(...)
#include "intercept/hooks.def"
#undef CUPOLA_LAUNCH_HOOK
#undef CUPOLA_HOOK
};
const std::set<std::string> kLaunchHooks = {
#define CUPOLA_HOOK(...)
#define CUPOLA_LAUNCH_HOOK(name, ...) #name,
#include "intercept/hooks.def"
#undef CUPOLA_LAUNCH_HOOK
#undef CUPOLA_HOOK
#undef CUPOLA_ALIAS
};

bool BeginsWith(const std::string& name, const char* prefix) { return name.rfind(prefix, 0) == 0; }

// They ask something of a stream, or set it, and give it nothing to do. cuStreamQuery's hook says
// that tasks are not over.
bool OnlyAsks(const std::string& name) {
  return std::ranges::any_of(
      std::initializer_list<const char*>{"cuStreamGet", "cuStreamIsCapturing", "cuStreamQuery",
                                         "cuStreamCopyAttributes", "cuStreamSetAttribute",
                                         "cuStreamUpdateCaptureDependencies"},
      [&](const char* prefix) { return BeginsWith(name, prefix); });
}

// What is wrong about a call of a stream, or "".
std::string Problem(const DriverCall& call, const Table& table) {
  const std::string name = call.name;
  const Rule rule = RuleFor(call.name);
  if (call.call_class == kPure) return OnlyAsks(name) ? "" : "is said to put no work on a stream";
  if (kLaunchHooks.contains(name)) return "";
  if (rule == Rule::kHook) return kHooks.contains(name) ? "" : "has no hook";
  const bool is_per_thread = name.ends_with("_ptsz");
  if (call.call_class == kMayWait) {
    switch (rule) {
      case Rule::kWait:
      case Rule::kWaitAndLeave:
        return "";
      case Rule::kSyncStream:
      case Rule::kSyncStreamPerThread:
      case Rule::kEndStream:
        if (call.stream != 0) return "has its stream elsewhere than first";
        return (rule == Rule::kSyncStreamPerThread) == is_per_thread ? "" : "is of another form";
      case Rule::kFlush:
        break;
      default:
        return "has nothing to do with tasks";
    }
  }
  // The stream is made to wait for its tasks, or, where it cannot be found, all streams are.
  const auto entry = table.find(name);
  if (call.stream >= kRegisters) return entry == table.end() ? "" : "has its stream on the stack";
  if (entry == table.end()) return "is not in the table";
  if (entry->second.at != call.stream) return "has its stream in another register";
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
                           "cuMemcpy2DAsync_v2", "cuMemcpyPeerAsync", "cuMemPrefetchAsync_v2_ptsz",
                           "cuEventRecord", "cuStreamWaitEvent", "cuMemFreeAsync"}) {
    EXPECT_TRUE(found.contains(name)) << name;
  }
}

// Streams that are passed on the stack: all streams wait for their tasks.
TEST(StreamCalls, WhatCannotBeFoundIsNotInTheTable) {
  const Table table = GeneratedTable();
  size_t on_stack = 0;
  for (const DriverCall& call : Calls()) {
    if (call.stream < kRegisters || kLaunchHooks.contains(call.name)) continue;
    ++on_stack;
    EXPECT_FALSE(table.contains(call.name)) << call.name;
  }
  EXPECT_GT(on_stack, 0u);  // cuMemcpyBatchAsync
}

}  // namespace
}  // namespace cupola::intercept::tasks
