// Capture across streams, its refusals, and graphs made of what was captured.
#include "tests/unit/sim/driver/fixture.h"

namespace cupola::sim {
namespace {

using GraphTest = DriverTest;

TEST_F(GraphTest, CaptureForksAndJoinsThroughEvents) {
  Stream& main = NewStream();
  Stream& side = NewStream();
  Event& fork = NewEvent();
  Event& join = NewEvent();
  std::vector<int> order;
  std::mutex mutex;
  const auto note = [&](int number) {
    return [&, number] { std::lock_guard lock(mutex); order.push_back(number); };
  };
  ASSERT_EQ(driver_.BeginCapture(main, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(Call(main, note(1)), CUDA_SUCCESS);
  ASSERT_EQ(driver_.Record(main, fork, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.WaitFor(side, fork, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.CaptureOf(side, nullptr, nullptr), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(Call(side, note(2)), CUDA_SUCCESS);
  ASSERT_EQ(driver_.Record(side, join, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.WaitFor(main, join, 0), CUDA_SUCCESS);
  ASSERT_EQ(Call(main, note(3)), CUDA_SUCCESS);
  std::shared_ptr<Graph> graph;
  ASSERT_EQ(driver_.EndCapture(main, &graph), CUDA_SUCCESS);
  EXPECT_TRUE(order.empty());  // captured, not run
  ASSERT_EQ(graph->nodes().size(), 3u);
  GraphNode* first = graph->nodes()[0].get();
  GraphNode* second = graph->nodes()[1].get();
  EXPECT_EQ(second->dependencies, std::vector<GraphNode*>{first});
  EXPECT_EQ(graph->nodes()[2]->dependencies, (std::vector<GraphNode*>{first, second}));

  std::shared_ptr<GraphExec> exec;
  ASSERT_EQ(GraphExec::Instantiate(*graph, &exec), CUDA_SUCCESS);
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(driver_.LaunchGraph(*exec, main), CUDA_SUCCESS);
  }
  ASSERT_EQ(driver_.Synchronize(main), CUDA_SUCCESS);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 1, 2, 3}));
}

TEST_F(GraphTest, UnjoinedStreamsAreAnError) {
  Stream& main = NewStream();
  Stream& side = NewStream();
  Event& fork = NewEvent();
  std::shared_ptr<Graph> graph;
  ASSERT_EQ(driver_.BeginCapture(main, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(driver_.Record(main, fork, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.WaitFor(side, fork, 0), CUDA_SUCCESS);
  ASSERT_EQ(Call(side, [] {}), CUDA_SUCCESS);
  EXPECT_EQ(driver_.EndCapture(main, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(driver_.CaptureOf(side, nullptr, nullptr), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(GraphTest, WhatACaptureForbidsInvalidatesIt) {
  Stream& main = NewStream();
  std::shared_ptr<Graph> graph;
  struct Case {
    const char* name;
    std::function<CUresult()> call;
    CUresult expected;
  };
  Event& event = NewEvent();
  ASSERT_EQ(driver_.Record(NewStream(), event, 0), CUDA_SUCCESS);
  const std::vector<Case> cases{
      {"synchronize", [&] { return driver_.Synchronize(main); },
       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
      {"query", [&] { return driver_.Query(main); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
      {"legacy stream", [&] { return Call(Legacy(), [] {}); }, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT},
      {"foreign event", [&] { return driver_.WaitFor(main, event, 0); },
       CUDA_ERROR_STREAM_CAPTURE_ISOLATION},
      {"allocation", [&] { return driver_.CheckMaySynchronize(); },
       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
  };
  for (const Case& one : cases) {
    ASSERT_EQ(driver_.BeginCapture(main, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS) << one.name;
    EXPECT_EQ(one.call(), one.expected) << one.name;
    EXPECT_EQ(driver_.EndCapture(main, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) << one.name;
  }
  // A relaxed capture forbids no allocation.
  ASSERT_EQ(driver_.BeginCapture(main, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(driver_.CheckMaySynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(driver_.EndCapture(main, &graph), CUDA_SUCCESS);
}

TEST_F(GraphTest, UpdateTakesTheSameShapeOnly) {
  Graph one, same, other;
  int ran = 0;
  HostWork first, second;
  first.function = [](void* data) { *static_cast<int*>(data) = 1; };
  second.function = [](void* data) { *static_cast<int*>(data) = 2; };
  first.data = second.data = &ran;
  one.Add(CU_GRAPH_NODE_TYPE_HOST, first, {});
  same.Add(CU_GRAPH_NODE_TYPE_HOST, second, {});
  other.Add(CU_GRAPH_NODE_TYPE_EMPTY, EmptyWork{}, {});
  std::shared_ptr<GraphExec> exec;
  ASSERT_EQ(GraphExec::Instantiate(one, &exec), CUDA_SUCCESS);
  CUgraphExecUpdateResult result;
  const GraphNode* at;
  EXPECT_EQ(exec->Update(other, &result, &at), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  EXPECT_EQ(exec->Update(same, &result, &at), CUDA_SUCCESS);
  Stream& stream = NewStream();
  ASSERT_EQ(driver_.LaunchGraph(*exec, stream), CUDA_SUCCESS);
  ASSERT_EQ(driver_.Synchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(ran, 2);
}

TEST_F(GraphTest, ACycleIsRefused) {
  Graph graph;
  GraphNode* first = graph.Add(CU_GRAPH_NODE_TYPE_EMPTY, EmptyWork{}, {});
  GraphNode* second = graph.Add(CU_GRAPH_NODE_TYPE_EMPTY, EmptyWork{}, {first});
  first->dependencies.push_back(second);
  std::shared_ptr<GraphExec> exec;
  EXPECT_EQ(GraphExec::Instantiate(graph, &exec), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace cupola::sim
