// Tasks as a graph: copy in, kernel and copy out of each in a row, beside those of all others but
// the tasks that it needs. Made once, launched again.
#pragma once

#include "form.h"
#include "streams_form.cuh"

namespace pagoda {

/// Adds copy in, kernel and copy out of a task behind what it needs; the last of these nodes.
template <class App>
cudaGraphNode_t AddTaskNodes(const Bed& bed, Copies copies, cudaGraph_t graph, size_t i,
                             std::vector<cudaGraphNode_t> needs) {
  const Task& task = bed.load().tasks[i];
  const Base host = bed.host(), device = bed.device();
  cudaGraphNode_t node;
  if (copies == Copies::kCalls && task.in_bytes > 0) {
    CHECK(cudaGraphAddMemcpyNode1D(&node, graph, needs.data(), needs.size(), device.in + task.in,
                                   host.in + task.in, task.in_bytes, cudaMemcpyHostToDevice));
    needs = {node};
  }
  void* arguments[] = {const_cast<char*>(bed.records()[i].arguments)};
  cudaKernelNodeParams kernel{};
  App::Kinds::With(task.kind, [&](auto tag) {
    using Kind = typename decltype(tag)::Type;
    kernel.func = reinterpret_cast<void*>(Plain<Kind>);
    kernel.sharedMemBytes = Kind::SharedBytes(task.threads, task.size);
  });
  kernel.gridDim = dim3(bed.config().blocks);
  kernel.blockDim = dim3(task.threads);
  kernel.kernelParams = arguments;
  CHECK(cudaGraphAddKernelNode(&node, graph, needs.data(), needs.size(), &kernel));
  if (copies == Copies::kCalls && task.out_bytes > 0) {
    const cudaGraphNode_t before = node;
    CHECK(cudaGraphAddMemcpyNode1D(&node, graph, &before, 1, host.out + task.out,
                                   device.out + task.out, task.out_bytes, cudaMemcpyDeviceToHost));
  }
  return node;
}

/// The nodes of tasks first to last - 1, whose needs are among them.
template <class App>
void AddNodesOf(const Bed& bed, Copies copies, cudaGraph_t graph, size_t first, size_t last) {
  std::vector<cudaGraphNode_t> ends(last - first);
  for (size_t i = first; i < last; ++i) {
    std::vector<cudaGraphNode_t> needs;
    if (!bed.load().needs.empty()) {
      for (const unsigned need : bed.load().needs[i]) needs.push_back(ends[need - first]);
    }
    ends[i - first] = AddTaskNodes<App>(bed, copies, graph, i, std::move(needs));
  }
}

template <class App>
class GraphForm : public Form {
 public:
  GraphForm(const Bed& bed, Copies copies) : bed_(bed), copies_(copies), stream_(1) {}
  ~GraphForm() override {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
  }

  void Prepare() override {
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    AddNodesOf<App>(bed_, copies_, graph, 0, bed_.task_count());
    CHECK(cudaGraphInstantiate(&exec_, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphUpload(exec_, stream_[0]));
    stream_.Await();
  }

  void Run() override {
    if (copies_ != Copies::kNone) bed_.PlaceWhole(stream_[0]);
    CHECK(cudaGraphLaunch(exec_, stream_[0]));
    if (copies_ != Copies::kNone) bed_.FetchWhole(stream_[0]);
    stream_.Await();
  }

 private:
  const Bed& bed_;
  const Copies copies_;
  Streams stream_;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace pagoda
