#include "intercept/path/record_launch.h"

#include <optional>

#include "intercept/launch/own_call_scope.h"
#include "intercept/process/fast_clock.h"
#include "intercept/record/device_timing.h"
#include "intercept/record/launch_features.h"

namespace cupola::intercept {

void Describe(const Launch& launch, bool captured, LaunchRecord* record) noexcept {
  const StreamKey key = ResolveStream(launch.stream, launch.per_thread);
  const bool is_graph = launch.door == LaunchDoor::kLaunchGraph;
  record->stream = key.stream;
  record->context = key.context;
  record->name_offset = is_graph ? 0 : KernelNameOf(launch.function);
  record->thread_id = ThreadId();
  for (int i = 0; i < 3; ++i) {
    record->grid[i] = launch.grid[i];
    record->block[i] = launch.block[i];
  }
  record->shared_bytes = launch.shared_bytes;
  record->kernel_nodes = launch.kernel_nodes;
  record->flags = static_cast<uint16_t>(launch.flags | key.flags);
  record->kind = captured ? RecordKind::kCapturedKernel
                          : is_graph ? RecordKind::kGraph : RecordKind::kKernel;
  record->door = launch.door;
  record->device_start_ns = 0;
  record->device_end_ns = 0;
}

namespace {

// Counts a launch that is recorded in the ring. Those recorded in a lane are counted by the lane.
void CountLaunch(RecordsHeader& header, const Launch& launch, bool captured) noexcept {
  if (captured) {
    header.captured.fetch_add(1, std::memory_order_relaxed);
  } else if (launch.door == LaunchDoor::kLaunchGraph) {
    header.graph_launches.fetch_add(1, std::memory_order_relaxed);
    header.graph_kernel_nodes.fetch_add(launch.kernel_nodes, std::memory_order_relaxed);
  } else {
    header.launches.fetch_add(1, std::memory_order_relaxed);
  }
}

FeatureLaunch FeaturesOf(const RingWriter& ring, const Launch& launch, const LaunchRecord& record) noexcept {
  FeatureLaunch features{.function = launch.function, .name = ring.NameAt(record.name_offset),
                         .shared_bytes = launch.shared_bytes, .params = launch.params,
                         .extra = launch.extra};
  for (int i = 0; i < 3; ++i) {
    features.grid[i] = launch.grid[i];
    features.block[i] = launch.block[i];
  }
  return features;
}

// Fills `line` with the features of a launch, for CUPOLA_FEATURES. False: the kernel is not known, and the driver
// cannot be asked about it now. Asking may load the kernel and so wait for the device, which is why an OwnCallScope is
// open meanwhile.
bool DescribeLaunch(const FeatureLaunch& launch, FeatureLine* line) noexcept {
  std::optional<OwnCallScope> scope;
  if (!KnowsKernelOf(launch)) {
    scope.emplace();
    if (!scope->may_ask()) return false;
  }
  DescribeFeatures(launch, line);
  return true;
}

}  // namespace

void RecordInRing(RingWriter& ring, const Launch& launch, bool captured, CUresult result,
                  uint64_t start_ns, uint64_t call_ns) noexcept {
  CountLaunch(ring.header(), launch, captured);
  LaunchRecord record{};
  Describe(launch, captured, &record);
  record.call_start_ns = start_ns;
  record.call_end_ns = start_ns + call_ns;
  record.result = result;
  if (result != CUDA_SUCCESS) record.flags |= kFlagFailed;
  uint64_t ticket;
  (void)PublishRecord(ring, record, &ticket);
}

CUresult LaunchTimed(RingWriter& ring, const Launch& launch,
                     CUresult (*call)(void*), void* data) {
  CountLaunch(ring.header(), launch, false);
  LaunchRecord record{};
  Describe(launch, false, &record);
  FeatureLine features;
  const bool has_features =
      FeaturesOn() && DescribeLaunch(FeaturesOf(ring, launch, record), &features);
  const TimedLaunch timed = BeginTimed(record.context, launch.stream, launch.per_thread);
  // Set inside `call`, by the step that makes the launch.
  this_thread.launched_variant = this_thread.launched_gated = false;
  record.call_start_ns = NowNs();
  const CUresult result = call(data);
  record.call_end_ns = NowNs();
  record.result = result;
  if (result != CUDA_SUCCESS) record.flags |= kFlagFailed;
  record.flags |= kFlagWayKnown;
  if (this_thread.launched_variant) {
    record.flags |= kFlagPreemptible;
    record.batch = this_thread.launched_batch;
  } else if (this_thread.launched_gated) {
    record.flags |= kFlagGated;
  }
  const bool is_timed = EndTimed(timed, launch.stream, launch.per_thread, result);
  if (is_timed) record.flags |= kFlagTimesFollow;
  uint64_t ticket;
  const bool published = PublishRecord(ring, record, &ticket);
  if (published && has_features) WriteFeatures(&features, ticket);
  // Submitted last, so that the record of the times does not come before that of the launch.
  if (is_timed) SubmitTimed(timed, published ? &ticket : nullptr);
  return result;
}

}  // namespace cupola::intercept
