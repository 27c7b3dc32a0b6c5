// Variants: a kernel of the program that has other forms, and its preemptible or sliced form made
// ready in a context. What is looked up is lock-free; everything else takes a mutex and may wait for
// the device. Thread-safe.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "device/compiler/store/bundle.h"
#include "intercept/images/images.h"
#include "intercept/preempt/launch_slots.h"
#include "models/plan.h"
#include "models/predict.h"

namespace cupola::intercept {
struct LaunchFacts;
}

namespace cupola::intercept::preempt {

struct PreemptContext;

/// A block shape and what fits of it.
struct Shape {
  std::atomic<uint64_t> key{0};      ///< threads << 32 | dynamic shared bytes, + 1; 0 = free
  std::atomic<uint32_t> workers{0};  ///< that fill the GPU; 0 = such a launch goes out plain
  std::atomic<uint32_t> blocks{0};   ///< of the kernel as it is, that the GPU holds
  std::atomic<uint32_t> carveout{0};  ///< percent of shared memory that suits one worker less on each SM
};

/// A variant in one context.
struct PreparedVariant {
  static constexpr uint32_t kShapes = 16;
  std::atomic<PreemptContext*> context{nullptr};
  CUfunction function = nullptr;  ///< of the variant; null = it cannot be used in this context
  uint32_t most_shared = 0;       ///< bytes of dynamic shared memory that it may have so far
  Shape shapes[kShapes];
};

/// A kernel of the program that has a variant.
struct Variant {
  static constexpr uint32_t kContexts = 8;
  Image* image = nullptr;
  const store::KernelEntry* entry = nullptr;
  const store::ParameterEntry* parameters = nullptr;
  const char* name = nullptr;
  bool usable = true;  ///< SettleVariant: exactness, configuration
  std::atomic<bool> settled{false};
  bool is_ruled = false;       ///< the configuration names a form
  bool is_configured = false;  ///< the configuration wants the preemptible or sliced form
  bool is_sliced = false;      ///< launches go out in slices: `prepared` is of the sliced form
  bool is_fallback = false;    ///< sliced only for want of a preemptible form that may be used
  const models::PlanView* plan = nullptr;           ///< what was measured of it; null = nothing
  const models::PlanKernel* plan_kernel = nullptr;  ///< its entry; null with `plan`
  models::DurationModel* model = nullptr;  ///< MakeModel; null until settled, or out of memory
  models::DurationModel* history = nullptr;  ///< what `model` falls back on; owned, as that is
  static constexpr uint32_t kTurnCounters = 64;
  std::atomic<uint32_t> turns[kTurnCounters] = {};  ///< of Mode::kTurns, by a hash of the shape
  PreparedVariant prepared[kContexts];
  /// Bit i: the driver has loaded the original in the context of engine i (intercept/tasks);
  /// kLiesElsewhere: its parameters are not where the bundle says.
  static constexpr uint32_t kLiesElsewhere = 1u << 31;
  std::atomic<uint32_t> loaded_for_tasks{0};
  /// Dynamic shared memory that the program has allowed its launches last, in bytes, + 1; 0: they are
  /// to go out as they are, for it has given them clusters. Any thread, relaxed.
  std::atomic<uint64_t> shared_below{UINT64_MAX};
  /// The least time of 1024 blocks that was seen, of any shape. Any thread, relaxed.
  std::atomic<uint64_t> ns_per_1024_blocks{0};
};

/// Whether the kernel's own limits allow a launch of that block with so many bytes of dynamic shared
/// memory: what they do not the driver refuses. Those of the device and .maxntid are looked at
/// elsewhere, and the limit of shared memory that nobody has set.
inline bool KernelAllows(const Variant& variant, const uint32_t* block,
                         uint32_t shared_bytes) noexcept {
  const uint32_t* const required = variant.entry->required_threads;
  const bool is_required = required[0] == 0 || (block[0] == required[0] &&
                                                block[1] == required[1] && block[2] == required[2]);
  return is_required && shared_bytes < variant.shared_below.load(std::memory_order_relaxed);
}

/// The kernel as the program has it, in the current context, or null; `program` (CUfunction or
/// CUkernel) is what it launches.
CUfunction OriginalOf(const Variant& variant, const void* program) noexcept;

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

/// Frees a variant that nobody can name any more.
void FreeVariant(Variant* variant) noexcept;

/// The context is about to end: nothing is prepared in it any more.
void ForgetPrepared(Variant& variant, PreemptContext* context) noexcept;

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
