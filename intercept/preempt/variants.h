// Makes the preemptible or sliced variant of a kernel (images/variant.h) ready in a context. The look-ups are
// lock-free; the other functions take a mutex and may wait for the device. Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "intercept/images/images.h"
#include "intercept/images/variant.h"
#include "intercept/launch/launch_slots.h"

namespace cupola::intercept {
struct Launch;
struct LaunchContext;
}  // namespace cupola::intercept

namespace cupola::intercept::preempt {

/// The variant as prepared in `context`; null: PrepareVariant must be called first. Lock-free.
PreparedVariant* FindPrepared(Variant& variant, const LaunchContext& context) noexcept;

/// Loads and prepares the variant for launches of `program` (CUfunction or CUkernel). Null: the
/// variant is prepared in as many contexts as it can be. If the variant cannot be used, `function` of
/// the result is null. The context is current and kReady, and the caller holds a scope, so that none
/// of its launches is guarded. May wait for the device.
PreparedVariant* PrepareVariant(Variant& variant, LaunchContext& context,
                                const void* program) noexcept;

/// Whether a launch that has not given its slot back is, or may be, one of a kernel of the image. It does not wait for
/// mutexes that others hold; then the answer is true.
bool AnyLaunchIsOf(const Image& image) noexcept;

/// The number of workers that fill the GPU, for blocks of `threads` threads and `shared` bytes of dynamic shared
/// memory; UINT32_MAX = not known yet. Lock-free.
uint32_t FindWorkers(const PreparedVariant& prepared, uint32_t threads, uint32_t shared) noexcept;

/// How many blocks of the original kernel the GPU holds at a time; UINT32_MAX = not known. Lock-free.
uint32_t FindResidentBlocks(const PreparedVariant& prepared, uint32_t threads,
                            uint32_t shared) noexcept;

/// The carve-out, in percent of shared memory, that suits one worker less on each SM; 0 = not known. Lock-free.
uint32_t FindCarveout(const PreparedVariant& prepared, uint32_t threads, uint32_t shared) noexcept;

/// Finds out what the three functions above return, and gives the variant the dynamic shared memory that it
/// needs if the original may have it. Returns the number of workers; 0: such launches go out plain. The same
/// conditions hold as for PrepareVariant.
uint32_t PrepareShape(Variant& variant, PreparedVariant& prepared, const LaunchContext& context,
                      const void* program, uint32_t threads, uint32_t shared) noexcept;

/// For PreemptMode::kTurns: the turn of the next launch of this shape, a word of profiles/claim_word.h, 0 =
/// plain. Each shape has turns of its own, so that it gets all forms even if shapes follow one another
/// regularly.
uint32_t TakeTurn(Variant& variant, const Launch& launch) noexcept;

}  // namespace cupola::intercept::preempt
