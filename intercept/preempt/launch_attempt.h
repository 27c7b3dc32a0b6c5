// One launch of the program on its way to go out in another form: what is known of it so far. Lives
// on the launching thread's stack.
#pragma once

#include <cstdint>

#include "intercept/facts/streams.h"
#include "intercept/path/launch_path.h"
#include "intercept/preempt/guarded_launch.h"
#include "intercept/preempt/launch_arguments.h"
#include "intercept/preempt/variants.h"

namespace cupola::intercept::preempt {

struct Attempt {
  // As an aggregate all of it would be zeroed, the list of attributes too.
  Attempt(const LaunchFacts& launch, const LaunchCall& made, PreemptContext& of,
          const StreamKey& on) noexcept
      : facts(launch), call(made), context(of), stream(on) {}

  const LaunchFacts& facts;
  const LaunchCall& call;
  PreemptContext& context;
  const StreamKey& stream;
  Variant* variant = nullptr;
  PreparedVariant* prepared = nullptr;
  KeptAttributes attributes;
  uint32_t total_blocks = 0, threads = 0, workers = 0;
  uint64_t predicted_ns = 0;  ///< 0 = no idea
  bool is_known = false;      ///< the prediction is of launches like this one
  uint32_t batch = 0;         ///< profiles/claim_word.h, L being the most it is to have; 0 = not settled
  uint32_t carveout = 0;      ///< LaunchSlot::carveout
};

}  // namespace cupola::intercept::preempt
