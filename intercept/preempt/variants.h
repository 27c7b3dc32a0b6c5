// The preemptible or sliced form of a kernel (images/variant.h), made ready in a context. What is looked up is
// lock-free; everything else takes a mutex and may wait for the device. Thread-safe.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "intercept/images/images.h"
#include "intercept/images/variant.h"
#include "intercept/preempt/launch_slots.h"

namespace cupola::intercept {
struct LaunchFacts;
}

namespace cupola::intercept::preempt {

struct PreemptContext;

/// Settles which form of it is used. Takes a mutex at the first call for a variant.
void SettleVariant(Variant& variant, const PreemptContext& context) noexcept;

/// The variant as prepared in `context`, or null: PrepareVariant is to be called. Lock-free.
PreparedVariant* FindPrepared(Variant& variant, const PreemptContext& context) noexcept;

/// Loads and prepares it for launches of `program` (CUfunction or CUkernel); null where it cannot
/// be. The context is current and ready, none of its launches is guarded. May wait for the device.
PreparedVariant* PrepareVariant(Variant& variant, PreemptContext& context,
                                const void* program) noexcept;

/// Whether a launch that has not given its slot back is one of a kernel of the image, or may be: who looks does not
/// wait.
bool AnyLaunchIsOf(const Image& image) noexcept;

/// Workers for a block shape: UINT32_MAX = not known yet. Lock-free.
uint32_t FindWorkers(const PreparedVariant& prepared, uint32_t threads, uint32_t shared) noexcept;

/// Blocks of the kernel as it is that the GPU holds at a time; UINT32_MAX = not known. Lock-free.
uint32_t FindResidentBlocks(const PreparedVariant& prepared, uint32_t threads,
                            uint32_t shared) noexcept;

/// With one worker less on each SM: percent of shared memory that suits them, 0 = not known. Lock-free.
uint32_t FindCarveout(const PreparedVariant& prepared, uint32_t threads, uint32_t shared) noexcept;

/// Finds that out, and mirrors the original's limit of dynamic shared memory. Under the same
/// conditions as PrepareVariant.
uint32_t PrepareShape(Variant& variant, PreparedVariant& prepared, const PreemptContext& context,
                      const void* program, uint32_t threads, uint32_t shared) noexcept;

/// The L of the next launch of a shape, 0 = plain, where launches take turns (Mode::kTurns). The
/// turns of each shape are its own: where shapes follow one another regularly each gets all forms.
uint32_t TakeTurn(Variant& variant, const LaunchFacts& facts) noexcept;

}  // namespace cupola::intercept::preempt
