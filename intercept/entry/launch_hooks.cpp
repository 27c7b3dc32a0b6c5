// Hooks of the launch calls: each says what it knows of the launch and passes it on unchanged.
// CUDA Driver API, "Execution Control".
#include <optional>

#include <cuda.h>

#include "intercept/facts/graphs.h"
#include "intercept/path/launch_path.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/calls.h"
#include "intercept/record/launch_features.h"

namespace cupola::intercept {
namespace {

// The call is made from the facts, so that the arguments are stored once.
template <typename Function>
[[gnu::always_inline]] inline CUresult PassKernel(
    Function real, bool per_thread, CUfunction f, const uint32_t (&grid)[3],
    const uint32_t (&block)[3], unsigned shared, CUstream stream, void** params,
    void** extra) noexcept {
  const LaunchFacts facts{
      .function = f, .stream = stream, .per_thread = per_thread,
      .grid = {grid[0], grid[1], grid[2]}, .block = {block[0], block[1], block[2]},
      .shared_bytes = shared,
      .flags = static_cast<uint16_t>(extra != nullptr ? kFlagPackedArgs : 0),
      .door = LaunchDoor::kLaunchKernel};
  const LaunchDetails details{.params = params, .extra = extra};
  return PassLaunch(facts, details, [&facts, &details, real] {
    return real(static_cast<CUfunction>(const_cast<void*>(facts.function)), facts.grid[0],
                facts.grid[1], facts.grid[2], facts.block[0], facts.block[1], facts.block[2],
                facts.shared_bytes, facts.stream, details.params, details.extra);
  });
}

// Cooperative launches also arrive as an attribute of cuLaunchKernelEx.
bool IsCooperative(const CUlaunchConfig& config) {
  for (unsigned i = 0; config.attrs != nullptr && i < config.numAttrs; ++i) {
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
      return config.attrs[i].value.cooperative != 0;
    }
  }
  return false;
}

template <typename Function>
CUresult PassKernelEx(Function real, bool per_thread, const CUlaunchConfig* config, CUfunction f,
                      void** params, void** extra) noexcept {
  if (config == nullptr) return real(config, f, params, extra);
  const LaunchFacts facts{
      .function = f, .stream = config->hStream, .per_thread = per_thread,
      .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
      .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
      .shared_bytes = config->sharedMemBytes,
      .flags = static_cast<uint16_t>((extra != nullptr ? kFlagPackedArgs : 0) |
                                     (IsCooperative(*config) ? kFlagCooperative : 0)),
      .door = LaunchDoor::kLaunchKernelEx};
  return PassLaunch(facts, {.params = params, .extra = extra, .config = config},
                    [&] { return real(config, f, params, extra); });
}

template <typename Function>
CUresult PassCooperative(Function real, bool per_thread, CUfunction f, const uint32_t (&grid)[3],
                         const uint32_t (&block)[3], unsigned shared, CUstream stream,
                         void** params) noexcept {
  const LaunchFacts facts{
      .function = f, .stream = stream, .per_thread = per_thread,
      .grid = {grid[0], grid[1], grid[2]}, .block = {block[0], block[1], block[2]},
      .shared_bytes = shared, .flags = kFlagCooperative, .door = LaunchDoor::kLaunchCooperative};
  return PassLaunch(facts, {.params = params}, [&] {
    return real(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream, params);
  });
}

template <typename Function>
CUresult PassGraph(Function real, bool per_thread, CUgraphExec exec, CUstream stream) noexcept {
  const LaunchFacts facts{.stream = stream, .per_thread = per_thread,
                          .graph = exec, .kernel_nodes = KernelNodesOf(exec), .door = LaunchDoor::kLaunchGraph};
  return PassLaunch(facts, {}, [&] { return real(exec, stream); });
}

}  // namespace

/// The real function behind the recorded form of the same name.
#define CUPOLA_REAL_LAUNCH(name) (Real<decltype(&recorded_##name)>(Call::k_##name))

extern "C" {

CUresult recorded_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                 void** params, void** extra) noexcept {
  return PassKernel(CUPOLA_REAL_LAUNCH(cuLaunchKernel), false, f, {gx, gy, gz}, {bx, by, bz},
                    shared, stream, params, extra);
}

CUresult recorded_cuLaunchKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                      unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                      CUstream stream, void** params, void** extra) noexcept {
  return PassKernel(CUPOLA_REAL_LAUNCH(cuLaunchKernel_ptsz), true, f, {gx, gy, gz}, {bx, by, bz},
                    shared, stream, params, extra);
}

CUresult recorded_cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** params,
                                   void** extra) noexcept {
  return PassKernelEx(CUPOLA_REAL_LAUNCH(cuLaunchKernelEx), false, config, f, params, extra);
}

CUresult recorded_cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f, void** params,
                                        void** extra) noexcept {
  return PassKernelEx(CUPOLA_REAL_LAUNCH(cuLaunchKernelEx_ptsz), true, config, f, params, extra);
}

CUresult recorded_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                            unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                            CUstream stream, void** params) noexcept {
  return PassCooperative(CUPOLA_REAL_LAUNCH(cuLaunchCooperativeKernel), false, f, {gx, gy, gz},
                         {bx, by, bz}, shared, stream, params);
}

CUresult recorded_cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned gx, unsigned gy,
                                                 unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                                 unsigned shared, CUstream stream,
                                                 void** params) noexcept {
  return PassCooperative(CUPOLA_REAL_LAUNCH(cuLaunchCooperativeKernel_ptsz), true, f, {gx, gy, gz},
                         {bx, by, bz}, shared, stream, params);
}

CUresult recorded_cuGraphLaunch(CUgraphExec exec, CUstream stream) noexcept {
  return PassGraph(CUPOLA_REAL_LAUNCH(cuGraphLaunch), false, exec, stream);
}

CUresult recorded_cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) noexcept {
  return PassGraph(CUPOLA_REAL_LAUNCH(cuGraphLaunch_ptsz), true, exec, stream);
}

}  // extern "C"

void Describe(const LaunchFacts& facts, bool captured, LaunchRecord* record) noexcept {
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
  record->kind = captured ? RecordKind::kCapturedKernel
                          : is_graph ? RecordKind::kGraph : RecordKind::kKernel;
  record->door = facts.door;
  record->device_start_ns = 0;
  record->device_end_ns = 0;
}

namespace {

void CountLaunch(RecordsHeader& header, const LaunchFacts& facts, bool captured) noexcept {
  if (captured) {
    header.captured.fetch_add(1, std::memory_order_relaxed);
  } else if (facts.door == LaunchDoor::kLaunchGraph) {
    header.graph_launches.fetch_add(1, std::memory_order_relaxed);
    header.graph_kernel_nodes.fetch_add(facts.kernel_nodes, std::memory_order_relaxed);
  } else {
    header.launches.fetch_add(1, std::memory_order_relaxed);
  }
}

FeatureLaunch FeaturesOf(const RingWriter& ring, const LaunchFacts& facts,
                         const LaunchDetails& details, const LaunchRecord& record) noexcept {
  FeatureLaunch launch{.function = facts.function, .name = ring.NameAt(record.name_offset),
                       .shared_bytes = facts.shared_bytes, .params = details.params,
                       .extra = details.extra};
  for (int i = 0; i < 3; ++i) {
    launch.grid[i] = facts.grid[i];
    launch.block[i] = facts.block[i];
  }
  return launch;
}

// False: the kernel is not known, and cannot be asked about now.
bool DescribeLaunch(const FeatureLaunch& launch, FeatureLine* line) noexcept {
  std::optional<preempt::OwnCallScope> scope;
  if (!KnowsKernelOf(launch)) {
    scope.emplace();
    if (!scope->may_ask()) return false;
  }
  DescribeFeatures(launch, line);
  return true;
}

}  // namespace

void RecordInRing(RingWriter& ring, const LaunchFacts& facts, bool captured, CUresult result,
                  uint64_t start_ns, uint64_t call_ns) noexcept {
  CountLaunch(ring.header(), facts, captured);
  LaunchRecord record{};
  Describe(facts, captured, &record);
  record.call_start_ns = start_ns;
  record.call_end_ns = start_ns + call_ns;
  record.result = result;
  if (result != CUDA_SUCCESS) record.flags |= kFlagFailed;
  uint64_t ticket;
  (void)PublishRecord(ring, record, &ticket);
}

CUresult LaunchTimed(RingWriter& ring, const LaunchFacts& facts, const LaunchDetails& details,
                     CUresult (*call)(void*), void* data) {
  CountLaunch(ring.header(), facts, false);
  LaunchRecord record{};
  Describe(facts, false, &record);
  FeatureLine features;
  const bool has_features =
      FeaturesOn() && DescribeLaunch(FeaturesOf(ring, facts, details, record), &features);
  const TimedLaunch timed = BeginTimed(record.context, facts.stream, facts.per_thread);
  this_thread.launched_variant = false;
  record.call_start_ns = NowNs();
  const CUresult result = call(data);
  record.call_end_ns = NowNs();
  record.result = result;
  if (result != CUDA_SUCCESS) record.flags |= kFlagFailed;
  if (this_thread.launched_variant) {
    record.flags |= kFlagPreemptible;
    record.batch = this_thread.launched_batch;
  }
  const bool is_timed = EndTimed(timed, facts.stream, facts.per_thread, result);
  if (is_timed) record.flags |= kFlagTimesFollow;
  uint64_t ticket;
  const bool published = PublishRecord(ring, record, &ticket);
  if (published && has_features) WriteFeatures(&features, ticket);
  // Only now: the times must not come before the launch.
  if (is_timed) SubmitTimed(timed, published ? &ticket : nullptr);
  return result;
}

}  // namespace cupola::intercept
