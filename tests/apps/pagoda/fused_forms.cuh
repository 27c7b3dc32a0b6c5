// Many tasks in one kernel: fused (a block each), persistent (as many blocks as fit, which take the
// next task from a counter) and batched (GeMTC's way: a persistent kernel for each batch, the next
// one when all of it is done and copied).
#pragma once

#include "block.cuh"
#include "form.h"
#include "streams_form.cuh"

namespace pagoda {

/// A body between copies to and from memory of the host, where these are the task's own.
template <class Kind, class AnyBlock>
__device__ void RunWithCopies(const AnyBlock& block, const typename Kind::Args& arguments,
                              const char* host_in, char* host_out) {
  if (host_in != nullptr && arguments.io.in_bytes > 0) {
    CopyBytes(block, const_cast<char*>(arguments.io.in), host_in, arguments.io.in_bytes);
    block.sync();
  }
  Kind::Run(block, arguments);
  if (host_out != nullptr) {
    block.sync();
    CopyBytes(block, host_out, arguments.io.out, arguments.io.out_bytes);
  }
}

template <class Kinds>
struct AnyKind;

template <class... K>
struct AnyKind<KindList<K...>> {
  template <class AnyBlock>
  __device__ static void Run(const AnyBlock& block, const Record& record) {
    unsigned index = 0;
    ((index++ == record.kind ? RunAs<K>(block, record) : void()), ...);
  }

 private:
  template <class Kind, class AnyBlock>
  __device__ static void RunAs(const AnyBlock& block, const Record& record) {
    const auto arguments = *reinterpret_cast<const typename Kind::Args*>(record.arguments);
    RunWithCopies<Kind>(block, arguments, record.host_in, record.host_out);
  }
};

template <class Kinds>
__global__ void Fused(const Record* records) {
  extern __shared__ uint4 shared[];
  AnyKind<Kinds>::Run(
      Block<SyncThreads>{threadIdx.x, blockDim.x, reinterpret_cast<char*>(shared), SyncThreads{}},
      records[blockIdx.x]);
}

template <class Kinds>
__global__ void Persistent(const Record* records, unsigned count, unsigned* next) {
  extern __shared__ uint4 shared[];
  __shared__ unsigned taken;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) taken = atomicAdd(next, 1);
    __syncthreads();
    const unsigned task = taken;
    if (task >= count) return;
    AnyKind<Kinds>::Run(
        Block<SyncThreads>{threadIdx.x, blockDim.x, reinterpret_cast<char*>(shared), SyncThreads{}},
        records[task]);
  }
}

enum class Fusion { kFused, kPersistent, kBatched };

template <class App>
class FusedForm : public Form {
 public:
  FusedForm(const Bed& bed, Copies copies, Fusion fusion)
      : bed_(bed), copies_(copies), fusion_(fusion), stream_(1) {}
  ~FusedForm() override { cudaFree(records_); }

  void Prepare() override {
    std::vector<Record> records = bed_.records();
    for (size_t i = 0; i < records.size(); ++i) {
      const Task& task = bed_.load().tasks[i];
      if (copies_ == Copies::kInside && !bed_.load().in_place) {
        records[i].host_in = bed_.host().in + task.in;
        records[i].host_out = bed_.host().out + task.out;
      }
      App::Kinds::With(task.kind, [&](auto tag) {
        shared_ = std::max(shared_, decltype(tag)::Type::SharedBytes(Threads(), task.size));
      });
    }
    const size_t bytes = records.size() * sizeof(Record);
    CHECK(cudaMalloc(&records_, bytes + 256));
    next_ = reinterpret_cast<unsigned*>(reinterpret_cast<char*>(records_) + bytes);
    CHECK(cudaMemcpy(records_, records.data(), bytes, cudaMemcpyHostToDevice));
    int device = 0, sms = 0, resident = 0;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, Persistent<typename App::Kinds>,
                                                        static_cast<int>(Threads()), shared_));
    persistent_blocks_ = static_cast<unsigned>(sms * resident);
  }

  void Run() override {
    if (copies_ != Copies::kNone) bed_.PlaceWhole(stream_[0]);
    if (fusion_ != Fusion::kBatched) CopyIn(0, bed_.task_count());
    size_t first = 0;
    for (const size_t last : bed_.load().wave_ends) {
      RunWave(first, last);
      first = last;
    }
    if (fusion_ != Fusion::kBatched) CopyOut(0, bed_.task_count());
    if (copies_ != Copies::kNone) bed_.FetchWhole(stream_[0]);
    stream_.Await();
    CHECK(cudaGetLastError());
  }

 private:
  /// Of a block. Fused tasks cannot have different numbers: 256, the paper's, where others have.
  unsigned Threads() const { return bed_.config().irregular ? 256 : bed_.config().threads; }

  void CopyIn(size_t first, size_t last) const {
    if (copies_ == Copies::kBulk) bed_.CopyIn(first, last, stream_[0]);
  }
  void CopyOut(size_t first, size_t last) const {
    if (copies_ == Copies::kBulk) bed_.CopyOut(first, last, stream_[0]);
  }

  void RunWave(size_t first, size_t last) const {
    if (fusion_ == Fusion::kFused) {
      Fused<typename App::Kinds>
          <<<static_cast<unsigned>(last - first), Threads(), shared_, stream_[0]>>>(records_ +
                                                                                    first);
    } else if (fusion_ == Fusion::kPersistent) {
      LaunchPersistent(first, last);
    } else {
      for (; first < last; first += bed_.config().batch) {
        const size_t end = std::min(first + bed_.config().batch, last);
        CopyIn(first, end);
        LaunchPersistent(first, end);
        CopyOut(first, end);
        stream_.Await();
      }
    }
  }

  void LaunchPersistent(size_t first, size_t last) const {
    const auto count = static_cast<unsigned>(last - first);
    CHECK(cudaMemsetAsync(next_, 0, sizeof *next_, stream_[0]));
    Persistent<typename App::Kinds>
        <<<std::min(persistent_blocks_, count), Threads(), shared_, stream_[0]>>>(records_ + first,
                                                                                  count, next_);
  }

  const Bed& bed_;
  const Copies copies_;
  const Fusion fusion_;
  Streams stream_;
  Record* records_ = nullptr;
  unsigned* next_ = nullptr;
  unsigned shared_ = 0, persistent_blocks_ = 0;
};

}  // namespace pagoda
