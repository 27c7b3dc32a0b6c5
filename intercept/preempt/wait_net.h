// The last net of waiting (docs/stuck-waits.md). A wait of ours for guarded
// launches is stuck if they make no progress although nobody asks the process to yield: perhaps they wait
// for something that only the program can do. Then the wait ends and the launches are *kept*: nobody may
// ask the process to yield, so that none of its launches stops, and the waiting thread may go into the
// driver as it would have without Cupola. Used by waiting.cpp and guarded_context.cpp; any thread.
#pragma once

#include <cstdint>

#include "intercept/preempt/waiting.h"

namespace cupola::intercept {
struct LaunchContext;
struct LaunchSlot;
}  // namespace cupola::intercept

namespace cupola::intercept::preempt {

/// Which launches a wait is for.
struct Awaited {
  WaitFor what = WaitFor::kAll;
  uint64_t up_to = UINT64_MAX;  ///< the highest number of a launch that is waited for
  uint64_t joined = 0;          ///< LaunchContext::joined
  bool Has(const LaunchSlot& slot) const noexcept;
};

/// The progress that one wait has seen of its launches. It belongs to the waiting thread.
class WaitProgress {
 public:
  WaitProgress(LaunchContext& context, WaitFor what, uint64_t up_to) noexcept
      : context_(context), what_(what), up_to_(up_to) {}

  /// Called about every millisecond. True: the launches have made no progress for as long as that is
  /// allowed (CUPOLA_WAIT_LIMIT_MS). Progress shows in the counters of claimed and finished blocks, which
  /// this function copies from the device; it does not wait for the copy.
  bool IsStuck(uint64_t now_ns) noexcept;

 private:
  LaunchContext& context_;
  WaitFor what_;
  uint64_t up_to_;
  uint64_t begun_ns_ = 0;   ///< first call of IsStuck
  uint64_t since_ns_ = 0;   ///< since when there was no progress, without times of being asked to yield
  uint64_t looked_ns_ = 0;  ///< last call of IsStuck
  uint64_t seen_ = 0;       ///< hash of the launches' state at the last change
};

/// Destroys the stream on which counters are read, if there is one and it is idle, so that another stream
/// gets its hardware queue. A later long wait makes it anew. The caller holds a scope, so that none of the
/// context's launches is guarded.
void GiveBackReader(LaunchContext& context) noexcept;

/// Keeps the guarded launches of the context, for a wait that is stuck: from here on none of them stops.
/// True: nobody may ask the process to yield, nobody asks it, and no launch has stopped or will; the caller
/// must call EndKept or KeepUntilComplete. False: not possible now; to be tried again.
bool BeginKept(LaunchContext& context) noexcept;
void EndKept(LaunchContext& context) noexcept;

/// In place of EndKept: the launches stay kept until those up to `number` are complete.
void KeepUntilComplete(LaunchContext& context, uint64_t number) noexcept;
/// Ends that when they are complete. Called after launches were accounted for.
void LookAtKept(LaunchContext& context) noexcept;

}  // namespace cupola::intercept::preempt
