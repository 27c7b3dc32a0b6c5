#include "profiles/launch_trace.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cupola {
namespace {

using nlohmann::json;

class LaunchTraceTest : public testing::Test {
 protected:
  LaunchTraceTest() {
    char folder[] = "/tmp/cupola-trace-XXXXXX";
    folder_ = mkdtemp(folder);
    path_ = folder_ + "/trace.json";
  }
  ~LaunchTraceTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<LaunchTrace> Create() {
    auto trace = LaunchTrace::Create(path_, 1'000'000);
    EXPECT_TRUE(trace.ok());
    return std::move(trace).value();
  }

  json Read() const {
    std::ifstream file(path_);
    return json::parse(file, nullptr, false);
  }

  static Launch Kernel(uint64_t start_us, uint64_t end_us, uint64_t stream = 0) {
    Launch launch;
    launch.name = "_Z3addPf";
    launch.thread_id = 41;
    launch.stream = stream;
    launch.call_start_ns = 1'000'000 + 500;
    launch.call_end_ns = 1'000'000 + 2500;
    launch.flags = kFlagDeviceTimed;
    launch.device_start_ns = 1'000'000 + start_us * 1000;
    launch.device_end_ns = 1'000'000 + end_us * 1000;
    for (uint32_t i = 0; i < 3; ++i) launch.grid[i] = i + 1, launch.block[i] = i + 4;
    launch.shared_bytes = 99;
    return launch;
  }

  /// Events of category `cat`.
  static std::vector<json> Of(const json& trace, const std::string& cat) {
    std::vector<json> found;
    for (const json& event : trace["traceEvents"]) {
      if (event.value("cat", "") == cat) found.push_back(event);
    }
    return found;
  }
  /// The name of the row that `event` lies on.
  static std::string Row(const json& trace, const json& event) {
    for (const json& other : trace["traceEvents"]) {
      if (other["name"] == "thread_name" && other["pid"] == event["pid"] &&
          other["tid"] == event["tid"]) {
        return other["args"]["name"];
      }
    }
    return "";
  }

  std::string folder_;
  std::string path_;
};

TEST_F(LaunchTraceTest, EmptyTraceIsValid) {
  ASSERT_TRUE(Create()->Finish({}).ok());
  const json trace = Read();
  ASSERT_TRUE(trace.is_object());
  EXPECT_EQ(trace["displayTimeUnit"], "ns");
  EXPECT_TRUE(trace["traceEvents"].empty());
  EXPECT_EQ(trace["cupola"], (json{{"writer", "cupola run"}, {"format", kTraceFormat}, {"base_ns", 1'000'000}}));
}

TEST_F(LaunchTraceTest, KernelOnItsStreamAndCallOnItsThread) {
  auto trace = Create();
  const auto process = trace->AddProcess(40, "/opt/the app");
  trace->Add(process, Kernel(10, 35, 7));
  ASSERT_TRUE(trace->Finish({}).ok());
  const json out = Read();
  const auto kernels = Of(out, "kernel");
  ASSERT_EQ(kernels.size(), 1u);
  const json& k = kernels[0];
  EXPECT_EQ(k["name"], "add(float*)");
  EXPECT_EQ(k["pid"], 40);
  EXPECT_DOUBLE_EQ(k["ts"], 10.0);
  EXPECT_DOUBLE_EQ(k["dur"], 25.0);
  EXPECT_EQ(k["args"]["grid"], "1x2x3");
  EXPECT_EQ(k["args"]["block"], "4x5x6");
  EXPECT_EQ(k["args"]["dynamic_shared_bytes"], 99);
  EXPECT_EQ(k["args"]["door"], "cuLaunchKernel");
  EXPECT_EQ(k["args"]["timed"], "device");
  EXPECT_EQ(k["args"]["device_ns"], 25000);
  EXPECT_EQ(k["args"]["host_call_ns"], 2000);
  EXPECT_EQ(k["args"]["way"], "unknown");
  EXPECT_DOUBLE_EQ(k["args"]["call_us"], 0.5);
  EXPECT_EQ(Row(out, k), "stream 7");
  const auto calls = Of(out, "call");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_DOUBLE_EQ(calls[0]["ts"], 0.5);
  EXPECT_EQ(Row(out, calls[0]), "CPU thread 41");
  EXPECT_EQ(Of(out, "launch").size(), 2u) << "an arrow from the call to the kernel";
  EXPECT_EQ(out["traceEvents"][0]["args"]["name"], "the app");
}

TEST_F(LaunchTraceTest, SaysInWhichWayALaunchWentOut) {
  auto trace = Create();
  const auto process = trace->AddProcess(40, "app");
  Launch launch = Kernel(10, 35);
  launch.flags = kFlagDeviceTimed | kFlagWayKnown | kFlagPreemptible;
  launch.batch = 3;
  trace->Add(process, launch);
  launch.batch = 0;
  trace->Add(process, launch);
  launch.flags = kFlagDeviceTimed | kFlagWayKnown | kFlagGated;
  trace->Add(process, launch);
  launch.flags = kFlagDeviceTimed | kFlagWayKnown;
  trace->Add(process, launch);
  launch.flags = 0;
  trace->Add(process, launch);
  ASSERT_TRUE(trace->Finish({}).ok());
  std::vector<std::string> ways;
  for (const json& kernel : Of(Read(), "kernel")) ways.push_back(kernel["args"]["way"]);
  EXPECT_EQ(ways, (std::vector<std::string>{"preemptible", "sliced", "gated", "plain", "unknown"}));
}

TEST_F(LaunchTraceTest, HostTimedSaysSo) {
  auto trace = Create();
  const auto process = trace->AddProcess(40, "app");
  Launch launch = Kernel(0, 0);
  launch.flags = 0;
  trace->Add(process, launch);
  ASSERT_TRUE(trace->Finish({}).ok());
  const json out = Read();
  const auto kernels = Of(out, "kernel");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_DOUBLE_EQ(kernels[0]["ts"], 0.5);
  EXPECT_DOUBLE_EQ(kernels[0]["dur"], 2.0);
  EXPECT_EQ(kernels[0]["args"]["timed"], "host");
  EXPECT_FALSE(kernels[0]["args"].contains("device_ns"));
  EXPECT_EQ(Row(out, kernels[0]), "default stream");
}

TEST_F(LaunchTraceTest, GraphsCapturedAndFailed) {
  auto trace = Create();
  const auto process = trace->AddProcess(40, "app");
  Launch graph = Kernel(10, 20);
  graph.kind = RecordKind::kGraph;
  graph.door = LaunchDoor::kLaunchGraph;
  graph.kernel_nodes = 3;
  Launch captured = Kernel(0, 0);
  captured.kind = RecordKind::kCapturedKernel;
  captured.flags = 0;
  Launch failed = Kernel(0, 0);
  failed.flags = kFlagFailed;
  failed.result = 701;
  trace->Add(process, graph);
  trace->Add(process, captured);
  trace->Add(process, failed);
  EXPECT_EQ(trace->count(), 3u);
  ASSERT_TRUE(trace->Finish({}).ok());
  const json out = Read();
  EXPECT_TRUE(Of(out, "kernel").empty());
  ASSERT_EQ(Of(out, "graph").size(), 1u);
  EXPECT_EQ(Of(out, "graph")[0]["args"]["kernel_nodes"], 3);
  ASSERT_EQ(Of(out, "captured").size(), 1u);
  EXPECT_EQ(Of(out, "captured")[0]["ph"], "i");
  ASSERT_EQ(Of(out, "failed").size(), 1u);
  EXPECT_EQ(Of(out, "failed")[0]["args"]["CUresult"], 701);
  EXPECT_EQ(Row(out, Of(out, "failed")[0]), Row(out, Of(out, "graph")[0]));
}

TEST_F(LaunchTraceTest, OverlappingSlicesOfAStreamGetARowOfTheirOwn) {
  auto trace = Create();
  const auto process = trace->AddProcess(40, "app");
  for (const auto& [start, end] : {std::pair{10, 30}, {20, 40}, {30, 50}, {50, 60}}) {
    trace->Add(process, Kernel(start, end, 3));
  }
  Launch captured = Kernel(0, 0, 3);  // an instant leaves the rows as they are
  captured.kind = RecordKind::kCapturedKernel;
  trace->Add(process, captured);
  trace->Add(process, Kernel(59, 70, 3));
  ASSERT_TRUE(trace->Finish({}).ok());
  const json out = Read();
  std::vector<std::string> rows;
  for (const json& kernel : Of(out, "kernel")) rows.push_back(Row(out, kernel));
  EXPECT_EQ(rows, (std::vector<std::string>{"stream 3", "stream 3 (overlap 1)", "stream 3",
                                            "stream 3", "stream 3 (overlap 1)"}));
}

TEST_F(LaunchTraceTest, ContextsAndProcessesDoNotShareRows) {
  auto trace = Create();
  const auto first = trace->AddProcess(40, "app");
  const auto again = trace->AddProcess(40, "after_exec");
  Launch other_context = Kernel(30, 40);
  other_context.context = 9;
  trace->Add(first, Kernel(10, 20));
  trace->Add(first, other_context);
  trace->Add(again, Kernel(10, 20));
  ASSERT_TRUE(trace->Finish({}).ok());
  const json out = Read();
  const auto kernels = Of(out, "kernel");
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(Row(out, kernels[0]), "default stream");
  EXPECT_EQ(Row(out, kernels[1]), "default stream, context 2");
  EXPECT_NE(kernels[2]["pid"], kernels[0]["pid"]);
}

TEST_F(LaunchTraceTest, NamesThatAreNotTextStayValidJson) {
  auto trace = Create();
  const auto process = trace->AddProcess(40, "/bin/a\"b\n\xff");
  Launch launch = Kernel(1, 2);
  launch.name = "bad\xc3\"\\\x01";
  trace->Add(process, launch);
  ASSERT_TRUE(trace->Finish({}).ok());
  EXPECT_TRUE(Read().is_object());
}

TEST_F(LaunchTraceTest, NothingAppearsWithoutFinish) {
  std::ofstream(path_) << "old";
  {
    auto trace = Create();
    trace->AddProcess(1, "app");
  }
  std::ifstream file(path_);
  std::string text;
  file >> text;
  EXPECT_EQ(text, "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "no leftovers";
}

TEST_F(LaunchTraceTest, KeepsRightsAndFollowsLinks) {
  std::ofstream(path_) << "old";
  std::filesystem::permissions(path_, std::filesystem::perms(0640));
  const std::string link = folder_ + "/link.json";
  std::filesystem::create_symlink(path_, link);
  auto trace = LaunchTrace::Create(link, 0);
  ASSERT_TRUE(trace.ok());
  ASSERT_TRUE((*trace)->Finish({}).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(Read().is_object());
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0640));
}

TEST_F(LaunchTraceTest, RefusesWhatItCannotWrite) {
  auto missing = LaunchTrace::Create(folder_ + "/none/trace.json", 0);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kIo);
  auto folder = LaunchTrace::Create(folder_, 0);
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, ErrorCode::kInvalidArgument);
  auto device = LaunchTrace::Create("/dev/null", 0);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace cupola
