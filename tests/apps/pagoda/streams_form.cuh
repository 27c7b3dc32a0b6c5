// Tasks as kernels of their own on streams, as any CUDA program would run them: a copy in, a launch
// and a copy out each. With several host threads the streams are divided among them.
#pragma once

#include <thread>
#include <vector>

#include "../support/check_runtime.h"
#include "block.cuh"
#include "form.h"

namespace pagoda {

template <class Kind>
__global__ void Plain(const typename Kind::Args arguments) {
  extern __shared__ uint4 shared[];
  Kind::Run(Block<SyncThreads>{blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x,
                               reinterpret_cast<char*>(shared), SyncThreads{}},
            arguments);
}

class Streams {
 public:
  explicit Streams(unsigned count) : streams_(count) {
    for (cudaStream_t& stream : streams_) {
      CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
  }
  ~Streams() {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  cudaStream_t operator[](size_t i) const { return streams_[i]; }
  void Await() const {
    for (cudaStream_t stream : streams_) CHECK(cudaStreamSynchronize(stream));
  }

 private:
  std::vector<cudaStream_t> streams_;
};

template <class App>
class StreamsForm : public Form {
 public:
  StreamsForm(const Bed& bed, Copies copies, unsigned host_threads)
      : bed_(bed), copies_(copies), host_threads_(host_threads), streams_(bed.config().streams) {}

  void Run() override {
    const bool copies = copies_ != Copies::kNone;
    if (copies) bed_.PlaceWhole(streams_[0]);
    size_t first = 0;
    for (const size_t last : bed_.load().wave_ends) {
      if (first > 0 || bed_.load().in_place) streams_.Await();
      RunWave(first, last);
      first = last;
    }
    streams_.Await();
    if (copies) bed_.FetchWhole(streams_[0]);
    streams_.Await();
    CHECK(cudaGetLastError());
  }

 private:
  void RunWave(size_t first, size_t last) {
    const size_t own = bed_.config().streams / host_threads_;
    const auto part = [&](unsigned thread) {
      for (size_t i = first + thread, turn = 0; i < last; i += host_threads_, ++turn) {
        RunOne(i, streams_[thread * own + turn % own]);
      }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < host_threads_; ++i) threads.emplace_back(part, i);
    part(0);
    for (std::thread& thread : threads) thread.join();
  }

  void RunOne(size_t i, cudaStream_t stream) {
    const Task& task = bed_.load().tasks[i];
    if (copies_ == Copies::kCalls) bed_.CopyIn(i, i + 1, stream);
    App::Kinds::With(task.kind, [&](auto tag) {
      using Kind = typename decltype(tag)::Type;
      const auto* const arguments =
          reinterpret_cast<const typename Kind::Args*>(bed_.records()[i].arguments);
      Plain<Kind><<<bed_.config().blocks, task.threads, Kind::SharedBytes(task.threads, task.size),
                    stream>>>(*arguments);
    });
    if (copies_ == Copies::kCalls) bed_.CopyOut(i, i + 1, stream);
  }

  const Bed& bed_;
  const Copies copies_;
  const unsigned host_threads_;
  Streams streams_;
};

/// Calls run(bed) for each of --tasks with each of --threads, --blocks and --size; true where all
/// calls were.
template <class App, class Run>
bool ForEachConfig(const Options& options, const Run& run) {
  bool all = true;
  const auto with = [&](unsigned size, unsigned blocks, unsigned threads, unsigned tasks) {
    Config config = options.config;
    config.size = size;
    config.blocks = blocks;
    config.threads = threads;
    config.tasks = tasks;
    if (blocks > 1 && (config.copies || App::Kinds::HasBarriers())) {
      std::fprintf(stderr, "%s: several blocks without copies and barriers only\n", App::kName);
      std::exit(2);
    }
    Bed bed(config, App::Make(config), App::TableBytes());
    std::vector<char> table;
    Furnish<App>(&bed, &table);
    all &= run(bed);
  };
  for (const unsigned size : options.sizes) {
    for (const unsigned blocks : options.blocks) {
      for (const unsigned threads : options.threads) {
        for (const unsigned tasks : options.tasks) with(size, blocks, threads, tasks);
      }
    }
  }
  return all;
}

}  // namespace pagoda
