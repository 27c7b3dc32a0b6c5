#include "intercept/preempt/sliced_launch.h"

#include <algorithm>
#include <cstring>

#include "device/runtime/preempt_control.h"
#include "intercept/launch/gates.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/packed_launch.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/preempt/launch_attempt.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept::preempt {
namespace {

// Rounds of resident blocks in a slice, if the configuration wants slices. They are so many that the
// launch of the next slice is hidden behind this one, and so few that a request to yield, which takes
// effect at the gate before each slice, does not wait long.
constexpr uint32_t kRounds = 4;
// The same if slices are only used for want of a better form, and must not cost much. Some
// microseconds pass between two slices, so slices of short blocks need many blocks. This number holds
// if the launch's length is not known; otherwise a slice takes as long as is worth stopping
// (threshold_ns).
constexpr uint32_t kRoundsUnknown = 16;
constexpr uint32_t kMostSlices = 64;  // of one launch: a stream holds about 1,024 entries

}  // namespace

uint32_t BlocksOfSlice(const Attempt& attempt) noexcept {
  if (!attempt.variant->is_fallback) return attempt.workers * kRounds;
  uint64_t rounds = kRoundsUnknown;
  if (attempt.expected.ns != 0) {
    const uint64_t blocks = attempt.total_blocks * preemption_settings.threshold_ns / attempt.expected.ns;
    rounds = blocks / attempt.workers + 1;
  }
  const uint64_t least = attempt.total_blocks / kMostSlices + 1;
  const uint64_t wanted = std::max(rounds * attempt.workers, least);
  return static_cast<uint32_t>(std::min<uint64_t>(wanted, attempt.total_blocks));
}

bool LaunchSliced(const Attempt& attempt, CUresult* result, Reason* why) noexcept {
  LaunchContext& context = attempt.context;
  const store::KernelEntry& entry = *attempt.variant->entry;
  alignas(16) std::byte arguments[kArgumentBytes];
  *why = Reason::kArguments;
  if (!PackArguments(*attempt.variant, attempt.launch, arguments)) return false;
  const Launch& launch = attempt.launch;
  runtime::SliceParams params{{launch.grid[0], launch.grid[1], launch.grid[2]}, 0};
  const RowLaunch row{.function = attempt.prepared->function,
                      .block = launch.block,
                      .shared_bytes = launch.shared_bytes,
                      .stream = launch.stream,
                      .per_thread = launch.per_thread,
                      .attributes = attempt.attributes,
                      .arguments = arguments,
                      .bytes = entry.launch_offset + sizeof(params)};
  const uint32_t most = BlocksOfSlice(attempt);
  *why = Reason::kRefused;
  MarkPlainLaunch(context.gpu->demand);
  while (params.first_block < attempt.total_blocks) {
    GateStream(context, launch, attempt.stream, GateWhen::kAlways);
    EnterPlain(context);
    const uint32_t blocks = std::min(most, attempt.total_blocks - params.first_block);
    memcpy(arguments + entry.launch_offset, &params, sizeof(params));
    *result = LaunchRow(row, blocks);
    if (*result != CUDA_SUCCESS) return params.first_block != 0;
    params.first_block += blocks;
  }
  Count(attempt.variant->is_fallback ? launch_counters.sliced_unasked : launch_counters.sliced);
  this_thread.launched_variant = true;
  this_thread.launched_batch = 0;
  return true;
}

}  // namespace cupola::intercept::preempt
