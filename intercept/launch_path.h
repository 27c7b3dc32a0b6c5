// The path of every launch: count it, note its facts, pass it on, publish the record. No allocation,
// lock, system call, getenv or notice once a thread, kernel and stream have been seen before.
// Any thread. The call goes to the driver exactly as it came, whatever happens here.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "intercept/device_timing.h"
#include "intercept/fast_clock.h"
#include "intercept/kernel_names.h"
#include "intercept/recorder.h"
#include "intercept/streams.h"
#include "intercept/thread_state.h"
#include "profiles/launch_record.h"

namespace cupola::intercept {

/// What a launch call says of itself.
struct LaunchFacts {
  const void* function = nullptr;  ///< CUfunction or CUkernel; null for a graph
  CUstream stream = nullptr;
  bool per_thread = false;         ///< the _ptsz form
  uint32_t grid[3] = {};
  uint32_t block[3] = {};
  uint32_t shared_bytes = 0;
  uint32_t kernel_nodes = 0;       ///< of a graph
  uint16_t flags = 0;              ///< LaunchFlag
  LaunchDoor door = LaunchDoor::kLaunchKernel;
};

/// Fills `record` but for its times and sequence.
[[gnu::always_inline]] inline void Describe(const LaunchFacts& facts, bool captured, LaunchRecord* record) noexcept {
  const StreamKey key = ResolveStream(facts.stream, facts.per_thread);
  const bool is_graph = facts.door == LaunchDoor::kLaunchGraph;
  record->stream = key.stream;
  record->context = key.context;
  record->name_offset = is_graph ? 0 : KernelNameOf(facts.function);
  record->thread_id = ThreadId();
  for (int i = 0; i < 3; ++i) {
    record->grid[i] = facts.grid[i];
    record->block[i] = facts.block[i];
  }
  record->shared_bytes = facts.shared_bytes;
  record->kernel_nodes = facts.kernel_nodes;
  record->flags = static_cast<uint16_t>(facts.flags | key.flags);
  if (this_thread.runtime_doors != 0) record->flags |= kFlagRuntimeDoor;
  record->kind = captured ? RecordKind::kCapturedKernel
                          : is_graph ? RecordKind::kGraph : RecordKind::kKernel;
  record->door = facts.door;
  record->device_start_ns = 0;
  record->device_end_ns = 0;
}

template <typename CounterSet>
[[gnu::always_inline]] inline void CountLaunch(CounterSet& set, const LaunchFacts& facts, bool captured) noexcept {
  if (captured) {
    set.captured.fetch_add(1, std::memory_order_relaxed);
  } else if (facts.door == LaunchDoor::kLaunchGraph) {
    set.graph_launches.fetch_add(1, std::memory_order_relaxed);
    set.graph_kernel_nodes.fetch_add(facts.kernel_nodes, std::memory_order_relaxed);
  } else {
    set.launches.fetch_add(1, std::memory_order_relaxed);
  }
}

/// The record of a launch with its event pair; out of line, since it costs microseconds anyway.
CUresult LaunchTimed(RingWriter& ring, const LaunchFacts& facts, CUresult (*call)(void*), void* data);

/// Passes a launch on by `call()` and records it.
template <typename CallReal>
[[gnu::always_inline]] inline CUresult PassLaunch(const LaunchFacts& facts, const CallReal& call) noexcept {
  if (InsideHook()) return call();
  const HookScope scope;
  RingWriter* const ring = ActiveRing();
  if (ring == nullptr) {
    CountLaunch(counters, facts, false);
    return call();
  }
  const bool captured = IsCapturing(facts.stream, facts.per_thread);
  CountLaunch(ring->header(), facts, captured);
  if (timing_on.load(std::memory_order_relaxed) && !captured) [[unlikely]] {
    return LaunchTimed(*ring, facts, [](void* data) { return (*static_cast<const CallReal*>(data))(); },
                       const_cast<void*>(static_cast<const void*>(&call)));
  }
  const uint64_t start_ns = NowNs();
  const CUresult result = call();
  const uint64_t end_ns = NowNs();
  uint64_t ticket;
  LaunchRecord* const record = ring->Claim(&ticket);
  if (record == nullptr) [[unlikely]] return result;
  Describe(facts, captured, record);
  record->call_start_ns = start_ns;
  record->call_end_ns = end_ns;
  record->result = result;
  if (result != CUDA_SUCCESS) [[unlikely]] record->flags |= kFlagFailed;
  RingWriter::Publish(record, ticket);
  return result;
}

}  // namespace cupola::intercept
