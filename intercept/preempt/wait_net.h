// The last net of waiting (docs/preemption.md, "A wait that would not end"): a wait of our own for guarded
// launches of which nothing goes on, though nobody asks the process to yield, may be for what only the
// program can bring about. It ends: from then on nobody may ask the process to yield, so that no launch of
// it stops, and the waiting thread may go into the driver as it would have without us. Any thread.
#pragma once

#include <cstdint>

#include "intercept/preempt/waiting.h"

namespace cupola::intercept::preempt {

struct PreemptContext;
struct LaunchSlot;

/// Which launches a wait is for: with that number at most.
struct Awaited {
  WaitFor what = WaitFor::kAll;
  uint64_t up_to = UINT64_MAX;
  uint64_t joined = 0;  ///< PreemptContext::joined
  bool Has(const LaunchSlot& slot) const noexcept;
};

/// What one wait has seen of the launches that it is for. Its thread only.
class WaitProgress {
 public:
  WaitProgress(PreemptContext& context, WaitFor what, uint64_t up_to) noexcept
      : context_(context), what_(what), up_to_(up_to) {}

  /// To be called every millisecond or so. True: nothing of them has gone on for as long as a wait of ours
  /// may last so (CUPOLA_WAIT_LIMIT_MS). What is looked at are the counters of claimed and finished blocks,
  /// which it has copied from the device; that waits for nothing.
  bool IsStuck(uint64_t now_ns) noexcept;

 private:
  PreemptContext& context_;
  WaitFor what_;
  uint64_t up_to_;
  uint64_t begun_ns_ = 0, since_ns_ = 0, looked_ns_ = 0, seen_ = 0;
};

/// Ends the stream that counters are read on, where there is one that does nothing, so that another has its
/// hardware queue; a wait that lasts makes it anew. In a scope: none of the context's launches is guarded.
void GiveBackReader(PreemptContext& context) noexcept;

/// Sees to it that no guarded launch of the context stops, for a wait that is stuck: nobody may ask the
/// process to yield, nobody has, and none is stopping. False: that is not so; to be tried again. True:
/// EndKept, or KeepUntilComplete, is to be called.
bool BeginKept(PreemptContext& context) noexcept;
void EndKept(PreemptContext& context) noexcept;

/// It stays so until the launches with that number at most are complete.
void KeepUntilComplete(PreemptContext& context, uint64_t number) noexcept;
/// Ends that where it is time; after launches were accounted for.
void LookAtKept(PreemptContext& context) noexcept;

}  // namespace cupola::intercept::preempt
