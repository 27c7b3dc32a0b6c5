#include "intercept/path/node_launches.h"

#include <algorithm>

#include "intercept/facts/streams.h"
#include "intercept/launch/launch_context.h"
#include "intercept/preempt/form_choice.h"
#include "intercept/preempt/guarded_launch.h"
#include "intercept/preempt/launch_attempt.h"
#include "intercept/process/participation.h"

namespace cupola::intercept {

NodeLaunches::NodeLaunches(LaunchContext& context, const intercept::Launch& of, const StreamKey& stream,
                           const graphs::PieceSet& set) {
  for (uint32_t i = 0; i < set.kernels.size(); ++i) {
    const graphs::NodeKernel* const kernel = set.kernels[i].get();
    if (kernel == nullptr) continue;
    intercept::Launch launch;
    launch.function = kernel->function;
    launch.stream = of.stream;
    launch.per_thread = of.per_thread;
    std::copy_n(kernel->grid, 3, launch.grid);
    std::copy_n(kernel->block, 3, launch.block);
    launch.shared_bytes = kernel->shared_bytes;
    launch.params = const_cast<void**>(kernel->params.data());
    launch.attributes = &kernel->priority;
    launch.attribute_count = kernel->priority.id == CU_LAUNCH_ATTRIBUTE_PRIORITY ? 1 : 0;
    preempt::Attempt attempt(launch, context, stream, launch_epoch.load());
    Reason why = Reason::kShort;
    if (preempt::ChooseForm(&attempt, &why) != preempt::Form::kPreemptible) continue;
    all_.push_back({i, launch, attempt.attributes, preempt::FormOf(attempt)});
    ns_ += set.ranges[i].ns;
  }
}

bool NodeLaunches::Launch(uint32_t piece, CUresult* result) const noexcept {
  for (const One& one : all_) {
    if (one.piece == piece) return preempt::LaunchAmongPieces(one.form, one.launch, one.attributes, result);
  }
  return false;
}

}  // namespace cupola::intercept
