// The Engine's methods that run one piece of work. The thread of the work's stream calls them, without the Engine's
// mutex. Errors become the sticky error of the context.
#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/sim/driver/context.h"
#include "device/sim/driver/stream.h"
#include "device/sim/token/gate.h"

namespace cupola::sim {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

/// Copies and fills are done in pieces of this size, between which another process may get the device.
constexpr uint64_t kPieceBytes = 4 << 20;

/// Waits while another process has the device. Only between Enter and Leave of the gate: see WithDevice.
void Pause(Gate* gate) {
  if (gate != nullptr) gate->Pause();
}

/// memmove in pieces. It starts at the front, unless that would overwrite bytes that are still to be read.
void Move(std::byte* to, const std::byte* from, uint64_t bytes, Gate* gate) {
  const bool from_back = to > from && to < from + bytes;
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t piece = std::min(bytes - done, kPieceBytes);
    const uint64_t at = from_back ? bytes - done - piece : done;
    std::memmove(to + at, from + at, piece);
    done += piece;
    if (done < bytes) Pause(gate);
  }
}

void RunCopy(const CopyWork& copy, Gate* gate) {
  const auto* source = copy.staged ? copy.staged->data()
                                   : reinterpret_cast<const std::byte*>(copy.source);
  auto* destination = reinterpret_cast<std::byte*>(copy.destination);
  for (uint64_t z = 0; z < copy.depth; ++z) {
    for (uint64_t y = 0; y < copy.height; ++y) {
      Move(destination + z * copy.destination_slice + y * copy.destination_pitch,
           source + z * copy.source_slice + y * copy.source_pitch, copy.width_bytes, gate);
      Pause(gate);
    }
  }
}

/// Zeroes device memory. Its pages are private memory of this process, so those that nobody has touched since they were
/// allocated are zero already. They stay without memory, because a program may clear much more than it uses: hundreds of
/// processes would keep the machine busy with pages that none of them reads.
class Zeroing {
 public:
  Zeroing() : pagemap_(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  ~Zeroing() {
    if (pagemap_ >= 0) close(pagemap_);
  }
  Zeroing(const Zeroing&) = delete;
  Zeroing& operator=(const Zeroing&) = delete;

  void Clear(uint8_t* at, uint64_t bytes) {
    const uint64_t start = reinterpret_cast<uint64_t>(at), end = start + bytes;
    const uint64_t first = (start + kPage - 1) / kPage, last = end / kPage;  // the whole pages
    if (first >= last || !Read(first, last - first)) {
      std::memset(at, 0, bytes);
      return;
    }
    std::memset(at, 0, first * kPage - start);
    for (uint64_t page = first; page < last; ++page) {
      if (IsTouched(pages_[page - first])) std::memset(reinterpret_cast<void*>(page * kPage), 0, kPage);
    }
    std::memset(reinterpret_cast<void*>(last * kPage), 0, end - last * kPage);
  }

 private:
  static constexpr uint64_t kPage = 4096;
  /// An entry of /proc/self/pagemap (proc_pid_pagemap(5)): bit 63: in memory, bit 62: swapped out.
  static bool IsTouched(uint64_t entry) { return entry >> 62 != 0; }
  bool Read(uint64_t first, uint64_t count) {
    pages_.resize(count);
    const auto bytes = static_cast<ssize_t>(count * sizeof(uint64_t));
    return pagemap_ >= 0 &&
           pread(pagemap_, pages_.data(), bytes, static_cast<off_t>(first * sizeof(uint64_t))) == bytes;
  }

  const int pagemap_;
  std::vector<uint64_t> pages_;
};
/// From this size of a row on, looking at its pages costs less than clearing them.
constexpr uint64_t kLeastToLookAt = 64 << 10;

void ClearRows(const FillWork& fill, uint64_t row_bytes, Gate* gate) {
  Zeroing zeroing;
  for (uint64_t y = 0; y < fill.height; ++y) {
    auto* row = reinterpret_cast<uint8_t*>(fill.address + y * fill.pitch);
    for (uint64_t done = 0; done < row_bytes; Pause(gate)) {
      const uint64_t piece = std::min(row_bytes - done, kPieceBytes);
      zeroing.Clear(row + done, piece);
      done += piece;
    }
  }
}

template <typename T>
void FillRows(const FillWork& fill, Gate* gate) {
  for (uint64_t y = 0; y < fill.height; ++y) {
    T* row = reinterpret_cast<T*>(fill.address + y * fill.pitch);
    for (uint64_t x = 0; x < fill.width; Pause(gate)) {
      const uint64_t end = std::min(fill.width, x + kPieceBytes / sizeof(T));
      std::fill(row + x, row + end, static_cast<T>(fill.value));
      x = end;
    }
  }
}

/// `is_own`: the memory is the device's, and not memory of the host that is mapped into it.
void RunFill(const FillWork& fill, bool is_own, Gate* gate) {
  const uint64_t row_bytes = fill.width * fill.element_bytes;
  if (fill.value == 0 && is_own && row_bytes >= kLeastToLookAt) return ClearRows(fill, row_bytes, gate);
  switch (fill.element_bytes) {
    case 1: return FillRows<uint8_t>(fill, gate);
    case 2: return FillRows<uint16_t>(fill, gate);
    default: return FillRows<uint32_t>(fill, gate);
  }
}

/// Whether the condition of a wait holds for the value `now` (CUDA driver API, CUstreamWaitValue_flags).
template <typename T>
bool Holds(T now, T value, unsigned int flags) {
  switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<std::make_signed_t<T>>(now - value) >= 0;  // cyclic
    case CU_STREAM_WAIT_VALUE_EQ: return now == value;
    case CU_STREAM_WAIT_VALUE_AND: return (now & value) != 0;
    default: return ~(now | value) != 0;  // NOR
  }
}

bool ValueHolds(const CUstreamBatchMemOpParams& op) {
  if (op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64) {
    const auto* word = reinterpret_cast<const uint64_t*>(op.waitValue.address);
    return Holds<uint64_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE), op.waitValue.value64,
                           op.waitValue.flags);
  }
  const auto* word = reinterpret_cast<const uint32_t*>(op.waitValue.address);
  return Holds<uint32_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE), op.waitValue.value,
                         op.waitValue.flags);
}

}  // namespace

bool Engine::WaitForValue(Context& context, const CUstreamBatchMemOpParams& op) {
  // A host thread or a kernel writes the word, and neither can wake this thread, so it polls: first
  // often, then ever more rarely, because many streams of many processes may wait at the same time.
  // A pause is a kPartOfWait-th of the time waited so far, within the two limits.
  constexpr uint64_t kShortestNs = 50'000, kLongestNs = 10'000'000, kPartOfWait = 32;
  const uint64_t since_ns = MonotonicNs();
  for (int looks = 0; !ValueHolds(op); ++looks) {
    if (context.sticky() != CUDA_SUCCESS || context.destroyed.load()) return false;
    if (looks < 1000) {
      sched_yield();
    } else {
      const uint64_t nap_ns =
          std::clamp((MonotonicNs() - since_ns) / kPartOfWait, kShortestNs, kLongestNs);
      const timespec pause{0, static_cast<long>(nap_ns)};
      nanosleep(&pause, nullptr);
    }
  }
  return true;
}

void Engine::RunMemOps(Context& context, const MemOpsWork& work) {
  for (const CUstreamBatchMemOpParams& op : work.ops) {
    switch (op.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        if (!WaitForValue(context, op)) return;  // the operations behind a wait that failed are left out
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        __atomic_store_n(reinterpret_cast<uint32_t*>(op.writeValue.address), op.writeValue.value,
                         __ATOMIC_RELEASE);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        __atomic_store_n(reinterpret_cast<uint64_t*>(op.writeValue.address), op.writeValue.value64,
                         __ATOMIC_RELEASE);
        break;
      default: __atomic_thread_fence(__ATOMIC_SEQ_CST); break;  // a barrier, or a flush of remote writes
    }
  }
}

void Engine::RunHost(Context& context, const HostWork& work) {
  if (work.callback != nullptr) {
    work.callback(work.stream, context.sticky(), work.data);  // CUDA calls it after an error too
  } else if (context.sticky() == CUDA_SUCCESS) {
    work.function(work.data);
  }
}

/// Runs a kernel to its end. It does not pass the gate here: the threads of the SMs do.
void Engine::RunKernel(Context& context, KernelWork& work) {
  struct Outcome {
    std::mutex mutex;
    std::condition_variable ended;
    bool is_over = false;
  };
  auto outcome = std::make_shared<Outcome>();
  device_->Submit(work.launch, [outcome, &context](const Fault* fault) {
    if (fault != nullptr) context.Poison(ToResult(fault->kind), fault->message);
    std::unique_lock lock(outcome->mutex);
    outcome->is_over = true;
    outcome->ended.notify_all();
  });
  std::unique_lock lock(outcome->mutex);
  outcome->ended.wait(lock, [&] { return outcome->is_over; });
}

template <typename Body>
void Engine::WithDevice(Body body) {
  if (gate_ != nullptr) gate_->Enter();
  body();
  if (gate_ != nullptr) gate_->Leave();
}

void Engine::Skip(Work& work) {
  if (auto* record = std::get_if<EventRecordWork>(&work)) {
    if (record->record) MarkDone(*record->record);
  } else if (auto* graph = std::get_if<GraphWork>(&work)) {
    for (Work step : graph->plan->steps) Skip(step);  // copies: other launches share the plan
  }
}

void Engine::Run(Context& context, Work& work) {
  const bool is_callback =
      std::holds_alternative<HostWork>(work) && std::get<HostWork>(work).callback != nullptr;
  if (context.sticky() != CUDA_SUCCESS && !is_callback) return Skip(work);
  std::visit(Overloaded{
                 [](EmptyWork&) {},
                 [&](KernelWork& kernel) { RunKernel(context, kernel); },
                 [&](CopyWork& copy) { WithDevice([&] { RunCopy(copy, gate_); }); },
                 [&](FillWork& fill) {
                   const bool is_own = !device_->FindRange(fill.address).is_host;
                   WithDevice([&] { RunFill(fill, is_own, gate_); });
                 },
                 [&](HostWork& host) { RunHost(context, host); },
                 [&](EventRecordWork& event) { if (event.record) MarkDone(*event.record); },
                 [&](EventWaitWork& event) { if (event.record) WaitRecord(*event.record); },
                 [&](MemOpsWork& ops) { RunMemOps(context, ops); },
                 [&](FreeWork& free) { device_->Free(free.address); },
                 [&](GraphWork& graph) {
                   for (Work step : graph.plan->steps) Run(context, step);
                 },
             },
             work);
}

}  // namespace cupola::sim
