#include "intercept/preempt/sliced_launch.h"

#include <algorithm>
#include <cstring>

#include "device/runtime/preempt_control.h"
#include "intercept/preempt/gates.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/launch_attempt.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/preemption.h"
#include "intercept/preempt/row_launch.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/thread_state.h"

namespace cupola::intercept::preempt {
namespace {

// Rounds of resident blocks in a slice that the configuration wants: so many that launching the
// next one hides behind it, so few that a request to yield, which a gate before each slice obeys, is
// not long in waiting.
constexpr uint32_t kRounds = 4;
// Of one that nobody wants for itself: it must not cost much. Between two slices pass some
// microseconds, so that slices of short blocks need many of them; where the launch's length is known,
// a slice takes what is worth stopping for.
constexpr uint32_t kRoundsUnknown = 16;
constexpr uint32_t kMostSlices = 64;  // a stream holds about 1,024 entries

}  // namespace

uint32_t BlocksOfSlice(const Attempt& attempt) noexcept {
  if (!attempt.variant->is_fallback) return attempt.workers * kRounds;
  uint64_t rounds = kRoundsUnknown;
  if (attempt.predicted_ns != 0) {
    const uint64_t blocks = attempt.total_blocks * settings.threshold_ns / attempt.predicted_ns;
    rounds = blocks / attempt.workers + 1;
  }
  const uint64_t least = attempt.total_blocks / kMostSlices + 1;
  const uint64_t wanted = std::max(rounds * attempt.workers, least);
  return static_cast<uint32_t>(std::min<uint64_t>(wanted, attempt.total_blocks));
}

bool LaunchSliced(const Attempt& attempt, CUresult* result, Plain* why) noexcept {
  PreemptContext& context = attempt.context;
  const store::KernelEntry& entry = *attempt.variant->entry;
  alignas(16) std::byte arguments[kArgumentBytes];
  *why = Plain::kArguments;
  if (!PackArguments(*attempt.variant, attempt.call, arguments)) return false;
  const LaunchFacts& facts = attempt.facts;
  runtime::SliceParams params{{facts.grid[0], facts.grid[1], facts.grid[2]}, 0};
  const RowLaunch row{.function = attempt.prepared->function,
                      .block = facts.block,
                      .shared_bytes = facts.shared_bytes,
                      .stream = facts.stream,
                      .per_thread = facts.per_thread,
                      .attributes = attempt.attributes,
                      .arguments = arguments,
                      .bytes = entry.launch_offset + sizeof(params)};
  const uint32_t most = BlocksOfSlice(attempt);
  *why = Plain::kRefused;
  NotePlainLaunch(context.gpu->demand);
  while (params.first_block < attempt.total_blocks) {
    GateStream(context, facts, attempt.stream, GateWhen::kAlways);
    EnterPlain(context);
    const uint32_t blocks = std::min(most, attempt.total_blocks - params.first_block);
    memcpy(arguments + entry.launch_offset, &params, sizeof(params));
    *result = LaunchRow(row, blocks);
    if (*result != CUDA_SUCCESS) return params.first_block != 0;
    params.first_block += blocks;
  }
  Count(attempt.variant->is_fallback ? counters.sliced_unasked : counters.sliced);
  this_thread.launched_variant = true;
  this_thread.launched_batch = 0;
  return true;
}

}  // namespace cupola::intercept::preempt
