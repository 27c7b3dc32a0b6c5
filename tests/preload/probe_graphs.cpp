// Scenarios of the probe about graphs, captures and device times.
#include <csignal>
#include <cstring>
#include <vector>

#include <sched.h>
#include <unistd.h>

#include "base/settings/variables.h"
#include "tests/preload/probe_kernels.h"

namespace cupola::probe {
namespace {

uint64_t CaptureFaults() {
  return Find<decltype(&null_driver_capture_faults)>("null_driver_capture_faults")();
}

void Launch(const Kernels& k, CUstream stream) {
  CHECK(Find<LaunchKernel>("cuLaunchKernel")(k.function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr,
                                             nullptr) == CUDA_SUCCESS);
}

void AddKernels(CUgraph graph, int count) {
  for (int i = 0; i < count; ++i) {
    CUgraphNode node = nullptr;
    CHECK(Find<CUresult (*)(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const void*)>(
              "cuGraphAddKernelNode_v2")(&node, graph, nullptr, 0, nullptr) == CUDA_SUCCESS);
  }
}

CUgraph NewGraph(int kernels) {
  CUgraph graph = nullptr;
  CHECK(DRIVER_CALL(cuGraphCreate)(&graph, 0) == CUDA_SUCCESS);
  AddKernels(graph, kernels);
  return graph;
}

// A graph of 3 kernels, an empty node, a child graph of 2 kernels that has a child of 5 kernels, and a conditional
// with bodies of 7 and 11 kernels.
CUgraph DeepGraph() {
  CUgraph graph = NewGraph(3), child = NewGraph(2);
  CUgraphNode node = nullptr;
  CHECK(DRIVER_CALL(cuGraphAddEmptyNode)(&node, graph, nullptr, 0) == CUDA_SUCCESS);
  CHECK(DRIVER_CALL(cuGraphAddChildGraphNode)(&node, child, nullptr, 0, NewGraph(5)) ==
        CUDA_SUCCESS);
  CHECK(DRIVER_CALL(cuGraphAddChildGraphNode)(&node, graph, nullptr, 0, child) == CUDA_SUCCESS);
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.size = 2;
  CHECK(DRIVER_CALL(cuGraphAddNode_v2)(&node, graph, nullptr, nullptr, 0, &params) == CUDA_SUCCESS);
  AddKernels(params.conditional.phGraph_out[0], 7);
  AddKernels(params.conditional.phGraph_out[1], 11);
  return graph;
}

void Graphs() {
  const Kernels k = Prepare();
  CUgraph graph = DeepGraph();
  CUgraphExec exec[5] = {};
  using Old = CUresult (*)(CUgraphExec*, CUgraph, CUgraphNode*, char*, size_t);
  using WithParams = CUresult (*)(CUgraphExec*, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS*);
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  CHECK(Find<Old>("cuGraphInstantiate")(&exec[0], graph, nullptr, nullptr, 0) == CUDA_SUCCESS);
  CHECK(Find<Old>("cuGraphInstantiate_v2")(&exec[1], graph, nullptr, nullptr, 0) == CUDA_SUCCESS);
  CHECK(Find<CUresult (*)(CUgraphExec*, CUgraph, unsigned long long)>(
            "cuGraphInstantiateWithFlags")(&exec[2], graph, 0) == CUDA_SUCCESS);
  CHECK(Find<WithParams>("cuGraphInstantiateWithParams")(&exec[3], graph, &params) == CUDA_SUCCESS);
  CHECK(Find<WithParams>("cuGraphInstantiateWithParams_ptsz")(&exec[4], graph, &params) ==
        CUDA_SUCCESS);
  const auto launch = DRIVER_CALL(cuGraphLaunch);
  for (CUgraphExec one : exec) CHECK(launch(one, k.stream) == CUDA_SUCCESS);
  const auto launch_ptsz = Find<CUresult (*)(CUgraphExec, CUstream)>("cuGraphLaunch_ptsz");
  CHECK(launch_ptsz(exec[0], nullptr) == CUDA_SUCCESS);
  CHECK(DRIVER_CALL(cuGraphExecDestroy)(exec[0]) == CUDA_SUCCESS);
  CHECK(launch(exec[0], k.stream) == CUDA_SUCCESS);  // a graph that was forgotten: the null driver does not mind
}

void Captures() {
  const Kernels k = Prepare();
  CUstream other = nullptr;
  CUgraph graph = nullptr;
  CHECK(DRIVER_CALL(cuStreamCreate)(&other, 0) == CUDA_SUCCESS);
  const auto begin = Find<CUresult (*)(CUstream, CUstreamCaptureMode)>("cuStreamBeginCapture_v2");
  const auto hang = Find<decltype(&null_driver_hang)>("null_driver_hang");
  const auto count = Find<decltype(&null_driver_count)>("null_driver_count");
  Launch(k, other);
  // The next launch is still under way when the capture begins; its events are queried later.
  hang(1);
  Launch(k, other);
  CHECK(begin(k.stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  const uint64_t queries = count("cuEventQuery");
  while (getenv(cupola::settings::Name("CUPOLA_TIMING")) != nullptr && count("cuEventQuery") < queries + 2) sched_yield();
  hang(0);
  CHECK(begin(k.stream, CU_STREAM_CAPTURE_MODE_GLOBAL) != CUDA_SUCCESS);  // the capture must not count twice
  Launch(k, k.stream);
  Launch(k, other);
  Launch(k, k.stream);
  CHECK(DRIVER_CALL(cuStreamEndCapture)(other, &graph) != CUDA_SUCCESS);  // this stream does not capture
  Launch(k, k.stream);
  CHECK(DRIVER_CALL(cuStreamEndCapture)(k.stream, &graph) == CUDA_SUCCESS);
  Launch(k, k.stream);
  // A stream destroyed while it captures ends its capture.
  CHECK(begin(other, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  Launch(k, other);
  CHECK(Find<CUresult (*)(CUstream)>("cuStreamDestroy_v2")(other) == CUDA_SUCCESS);
  Launch(k, k.stream);
  CHECK(CaptureFaults() == 0);
}

// The device hangs after the first launch: nothing may wait for it for ever.
void Hang(const char* when) {
  const auto hang = Find<decltype(&null_driver_hang)>("null_driver_hang");
  const Kernels k = Prepare();
  if (strcmp(when, "before") == 0) hang(1);
  Launch(k, k.stream);
  hang(1);
  for (int i = 0; i < 2000; ++i) Launch(k, k.stream);
  if (strcmp(when, "killed") == 0) raise(SIGKILL);
  if (strcmp(when, "reset") == 0) {
    CHECK(Find<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxReset_v2")(0) == CUDA_SUCCESS);
  }
}

// The device runs the first launches late, because other processes have it ("all"); or only what is in non-blocking
// streams, of which the program has none, is late ("streams"), or never runs ("never").
void Late(const char* what) {
  const auto hang = Find<decltype(&null_driver_hang)>("null_driver_hang");
  const Kernels k = Prepare();
  hang(strcmp(what, "all") == 0 ? 1 : 2);
  for (int i = 0; i < 5; ++i) Launch(k, k.stream);
  usleep(300'000);
  if (strcmp(what, "never") != 0) hang(0);
  for (int i = 0; i < 5; ++i) Launch(k, k.stream);
}

void LaunchesAcrossResets() {
  for (int i = 0; i < 3; ++i) {
    const Kernels k = Prepare();
    for (int j = 0; j < 5; ++j) Launch(k, k.stream);
    CHECK(Find<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxReset_v2")(0) == CUDA_SUCCESS);
  }
}

}  // namespace

bool RunGraphScenario(const std::string& name, int argc, char** argv) {
  if (name == "graphs") Graphs();
  else if (name == "captures") Captures();
  else if (name == "hang" && argc == 1) Hang(argv[0]);
  else if (name == "late" && argc == 1) Late(argv[0]);
  else if (name == "resets") LaunchesAcrossResets();
  else return false;
  return true;
}

}  // namespace cupola::probe
