// Attempt: what is known so far of a launch that may go out in another form. The launch path makes
// one for each launch, on the launching thread's stack; ChooseForm fills it.
#pragma once

#include <cstdint>

#include "intercept/facts/streams.h"
#include "intercept/images/variant.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_prediction.h"
#include "intercept/launch/packed_launch.h"

namespace cupola::intercept::preempt {

struct Attempt {
  // A constructor, because aggregate initialisation would zero everything, the long list of
  // attributes too.
  Attempt(const Launch& of, LaunchContext& in, const StreamKey& on, uint64_t at_epoch) noexcept
      : launch(of), context(in), stream(on), epoch(at_epoch) {}

  const Launch& launch;
  LaunchContext& context;
  const StreamKey& stream;
  const uint64_t epoch;  ///< the launch epoch before anything was found out, the stream included
  Variant* variant = nullptr;
  PreparedVariant* prepared = nullptr;
  KeptAttributes attributes;
  uint32_t total_blocks = 0;  ///< blocks of the grid
  uint32_t threads = 0;       ///< threads of a block
  uint32_t workers = 0;       ///< number of workers that fill the GPU
  ExpectedTime expected;
  uint32_t batch = 0;         ///< word of profiles/claim_word.h; its L is an upper bound; 0 = not settled
  uint32_t carveout = 0;      ///< LaunchSlot::carveout
};

/// Whether blocks of the kernel may wait for other blocks of their grid.
inline bool MayWaitOnBlocks(const Variant& variant) noexcept {
  return (variant.entry->flags & store::kMayWaitOnBlocks) != 0;
}

}  // namespace cupola::intercept::preempt
