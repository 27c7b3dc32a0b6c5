// Tasks as graphs that the device launches (CUDA programming guide, device graph launch): all tasks
// are nodes of as few graphs as can be instantiated for that, and a kernel launches them, fire and
// forget. A graph may launch 120 others so. Tasks that need each other are of one graph.
#pragma once

#include <string>

#include "form.h"
#include "graph_form.cuh"
#include "streams_form.cuh"

namespace pagoda {

constexpr unsigned kMostDeviceGraphs = 120;

__global__ void LaunchGraphs(const cudaGraphExec_t* graphs, unsigned count, int* error) {
  for (unsigned i = 0; i < count && *error == 0; ++i) {
    *error = static_cast<int>(cudaGraphLaunch(graphs[i], cudaStreamGraphFireAndForget));
  }
}

template <class App>
class DeviceGraphForm : public Form {
 public:
  DeviceGraphForm(const Bed& bed, Copies copies) : bed_(bed), copies_(copies), stream_(1) {}
  ~DeviceGraphForm() override {
    for (cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
    if (launcher_ != nullptr) cudaGraphExecDestroy(launcher_);
    cudaFree(on_device_);
    cudaFree(error_);
  }

  /// Empty, or why this form cannot be.
  std::string Make() {
    const bool is_one = !bed_.load().needs.empty();
    std::string why;
    for (size_t nodes = bed_.task_count();; nodes = (nodes + 1) / 2) {
      if ((bed_.task_count() + nodes - 1) / nodes > kMostDeviceGraphs) {
        return why + ", and more than 120 graphs of fewer nodes cannot be launched";
      }
      why = MakeGraphs(nodes);
      if (why.empty() || nodes == 1 || is_one) break;
    }
    return why.empty() ? MakeLauncher() : why;
  }

  void Run() override {
    if (copies_ != Copies::kNone) bed_.PlaceWhole(stream_[0]);
    CHECK(cudaGraphLaunch(launcher_, stream_[0]));
    if (copies_ != Copies::kNone) bed_.FetchWhole(stream_[0]);
    stream_.Await();
    int error = 0;
    CHECK(cudaMemcpy(&error, error_, sizeof error, cudaMemcpyDeviceToHost));
    CHECK(static_cast<cudaError_t>(error));
  }

  std::string note() const override {
    return std::to_string(graphs_.size()) + " graphs of " + std::to_string(nodes_) + " tasks";
  }

 private:
  static std::string Words(const char* call, cudaError_t error) {
    cudaGetLastError();
    return std::string(call) + ": " + cudaGetErrorName(error);
  }

  std::string MakeGraphs(size_t nodes) {
    for (cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
    graphs_.clear();
    nodes_ = nodes;
    for (size_t first = 0; first < bed_.task_count(); first += nodes) {
      cudaGraph_t graph;
      CHECK(cudaGraphCreate(&graph, 0));
      AddNodesOf<App>(bed_, copies_, graph, first, std::min(first + nodes, bed_.task_count()));
      cudaGraphExec_t exec = nullptr;
      cudaError_t error = cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch);
      const char* const call = error == cudaSuccess ? "cudaGraphUpload" : "cudaGraphInstantiate";
      if (error == cudaSuccess) {
        graphs_.push_back(exec);
        error = cudaGraphUpload(exec, stream_[0]);
      }
      if (error == cudaSuccess) error = cudaStreamSynchronize(stream_[0]);
      CHECK(cudaGraphDestroy(graph));
      if (error != cudaSuccess) {
        return Words(call, error) + " for " + std::to_string(nodes) + " tasks";
      }
    }
    return "";
  }

  std::string MakeLauncher() {
    const size_t bytes = graphs_.size() * sizeof graphs_[0];
    CHECK(cudaMalloc(&on_device_, bytes));
    CHECK(cudaMalloc(&error_, sizeof *error_));
    CHECK(cudaMemset(error_, 0, sizeof *error_));
    CHECK(cudaMemcpy(on_device_, graphs_.data(), bytes, cudaMemcpyHostToDevice));
    auto count = static_cast<unsigned>(graphs_.size());
    void* arguments[] = {&on_device_, &count, &error_};
    cudaKernelNodeParams kernel{};
    kernel.func = reinterpret_cast<void*>(LaunchGraphs);
    kernel.gridDim = kernel.blockDim = dim3(1);
    kernel.kernelParams = arguments;
    cudaGraph_t graph;
    cudaGraphNode_t node;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
    const cudaError_t error = cudaGraphInstantiate(&launcher_, graph, 0);
    CHECK(cudaGraphDestroy(graph));
    return error == cudaSuccess ? "" : Words("cudaGraphInstantiate of the launcher", error);
  }

  const Bed& bed_;
  const Copies copies_;
  Streams stream_;
  size_t nodes_ = 0;
  std::vector<cudaGraphExec_t> graphs_;
  cudaGraphExec_t launcher_ = nullptr;
  cudaGraphExec_t* on_device_ = nullptr;
  int* error_ = nullptr;
};

}  // namespace pagoda
