// What guarded_calls.cu has stopped while it makes a call: a kernel whose blocks count their runs, or launches of a graph of
// such kernels.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "guarded_world.h"

namespace {

using Clock = std::chrono::steady_clock;

unsigned EnvironmentNumber(const char* name, unsigned otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::atoi(text));
}

/// Each block counts how often it ran.
class Work {
 public:
  Work(unsigned blocks, unsigned nodes) : nodes_(nodes), blocks_(nodes == 0 ? blocks : nodes * kNodeBlocks) {
    MUST(cudaHostAlloc(&pace_, sizeof(*pace_), cudaHostAllocMapped));
    MUST(cudaMalloc(&runs_, blocks_ * sizeof(unsigned)));
    MUST(cudaMalloc(&start_ns_, sizeof(*start_ns_)));
  }

  unsigned blocks() const { return blocks_; }

  /// Has the kernel run once, or the graph until it is launched in pieces, and puts everything back to the start.
  void Warm(cudaStream_t stream) {
    const unsigned block_ns = EnvironmentNumber("BLOCK_NS", 20'000);
    Reset(nodes_ == 0 ? 1000 : block_ns);
    if (nodes_ == 0) {
      note_blocks<<<1, 256, 0, stream>>>(runs_, pace_, start_ns_);
    } else if (graph_ == nullptr) {
      Instantiate();
      for (int i = 0; i < kWarmLaunches; ++i) {
        MUST(cudaGraphLaunch(graph_, stream));
        MUST(cudaStreamSynchronize(stream));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    }
    MUST(cudaDeviceSynchronize());
    Reset(block_ns);
  }

  void Launch(cudaStream_t stream) {
    if (nodes_ == 0) note_blocks<<<blocks_, 256, 0, stream>>>(runs_, pace_, start_ns_);
    for (unsigned i = 0; nodes_ != 0 && i < kLaunches; ++i) MUST(cudaGraphLaunch(graph_, stream));
    MUST(cudaGetLastError());
  }

  /// Where another program has the GPU it may be held before its first block, and would not be stopped half-way.
  void AwaitBegin() const {
    const auto launched = Clock::now();
    while (pace_->has_begun == 0 && Clock::now() - launched < std::chrono::seconds(10)) std::this_thread::yield();
  }

  /// What is left of it need not take long.
  void Hurry() { pace_->block_ns = 0; }

  /// The number of blocks that did not run as often as they should.
  unsigned Wrong() const {
    std::vector<unsigned> host(blocks_);
    MUST(cudaMemcpy(host.data(), runs_, blocks_ * sizeof(unsigned), cudaMemcpyDeviceToHost));
    unsigned wrong = 0;
    for (const unsigned count : host) wrong += count != (nodes_ == 0 ? 1 : kLaunches);
    return wrong;
  }

  void Free() {
    MUST(cudaFree(runs_));
    MUST(cudaFree(start_ns_));
    MUST(cudaFreeHost(pace_));
  }

 private:
  static constexpr unsigned kNodeBlocks = 8, kLaunches = 16;
  static constexpr int kWarmLaunches = 10;

  void Reset(unsigned block_ns) {
    pace_->block_ns = block_ns;
    pace_->has_begun = 0;
    MUST(cudaMemset(runs_, 0, blocks_ * sizeof(unsigned)));
    MUST(cudaMemset(start_ns_, 0, sizeof(*start_ns_)));
    MUST(cudaDeviceSynchronize());
  }

  void Instantiate() {
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (unsigned node = 0; node < nodes_; ++node) {
      note_blocks<<<kNodeBlocks, 256, 0, stream>>>(runs_ + node * kNodeBlocks, pace_, start_ns_);
    }
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&graph_, graph, 0));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(stream));
  }

  unsigned nodes_, blocks_;
  unsigned* runs_ = nullptr;
  Pace* pace_ = nullptr;
  unsigned long long* start_ns_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace
