// Variant: a kernel of the program that has other forms in its image's bundle (preemptible, sliced, a task's body),
// with what is known of these forms and what was prepared from them. So one object stands for all variants of a kernel.
// Plain data, owned by its Image; images.h has the look-up by handle, which any launching thread makes. Members say who
// writes them, and when.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "device/compiler/store/bundle.h"
#include "models/plan.h"
#include "models/predict.h"

namespace cupola::intercept {

struct Image;

/// How many blocks of one block shape fit on the GPU. PrepareShape (preempt/variants.h) fills it once and stores `key`
/// last, with release: whoever finds the key (acquire) may read the rest.
struct Shape {
  std::atomic<uint64_t> key{0};      ///< threads of a block << 32 | bytes of dynamic shared memory, + 1; 0 = free
  std::atomic<uint32_t> workers{0};  ///< number of workers that fill the GPU; 0 = such launches go out plain
  std::atomic<uint32_t> blocks{0};   ///< blocks of the original kernel that the GPU holds; UINT32_MAX = not known
  std::atomic<uint32_t> carveout{0};  ///< percent of shared memory that suits one worker less on each SM
};

/// The preemptible or sliced form (Variant::is_sliced) of a kernel, loaded in one context. PrepareVariant
/// (preempt/variants.h) fills it and stores `context` last, with release.
struct PreparedVariant {
  static constexpr uint32_t kShapes = 16;
  std::atomic<const void*> context{nullptr};  ///< LaunchContext of the context; null = the entry is free
  CUfunction function = nullptr;  ///< that form; null = it cannot be used in this context
  uint32_t most_shared = 0;       ///< its limit of dynamic shared memory, as Cupola last set it, in bytes
  Shape shapes[kShapes];
};

/// A kernel of the program that has a variant. The first four members are set when it is made.
struct Variant {
  static constexpr uint32_t kContexts = 8;
  Image* image = nullptr;
  const store::KernelEntry* entry = nullptr;
  const store::ParameterEntry* parameters = nullptr;
  const char* name = nullptr;
  // SettleVariant (launch/variant_use.h) writes the members from here to `history` once, `settled` last, with release;
  // whoever sees `settled` (acquire) may read them.
  bool usable = true;  ///< a preemptible or sliced form is exact enough, and the configuration allows it
  std::atomic<bool> settled{false};
  bool is_ruled = false;       ///< a rule of the configuration names a form
  bool is_configured = false;  ///< the configuration wants the preemptible or sliced form
  bool is_sliced = false;      ///< launches go out in slices: `prepared` has the sliced form
  bool is_fallback = false;    ///< sliced only for want of a preemptible form that may be used
  const models::PlanView* plan = nullptr;           ///< the plan, if it has the kernel; else null
  const models::PlanKernel* plan_kernel = nullptr;  ///< its entry there; null if `plan` is
  models::DurationModel* model = nullptr;  ///< from MakeModel; null until settled, or if out of memory; owned
  models::DurationModel* history = nullptr;  ///< what `model` falls back on; owned
  static constexpr uint32_t kTurnCounters = 64;
  /// For PreemptMode::kTurns: launches so far, by a hash of their shape (TakeTurn in preempt/variants.h).
  std::atomic<uint32_t> turns[kTurnCounters] = {};
  PreparedVariant prepared[kContexts];  ///< written under ImagesMutex
  /// Bit i: the driver was made to load the original in the context of engine i (intercept/tasks), and its launches may
  /// become tasks there. kLiesElsewhere: its parameters are not where the bundle says, and no further bit is set.
  static constexpr uint32_t kLiesElsewhere = 1u << 31;
  std::atomic<uint32_t> loaded_for_tasks{0};
  /// The limit of dynamic shared memory that the program has set last for its launches, in bytes, + 1. UINT64_MAX: it
  /// has set none. 0: its launches go out plain, because the program has given the kernel clusters; this stays. Any
  /// thread, relaxed.
  std::atomic<uint64_t> shared_below{UINT64_MAX};
  /// About the least time per 1024 blocks that a launch of the kernel was seen to take, of any shape, in nanoseconds;
  /// 0 = none. A longer time raises it by 1/64 of the difference (ObserveCompletion). Any thread, relaxed.
  std::atomic<uint64_t> ns_per_1024_blocks{0};
};

/// Whether that block shape and so many bytes of dynamic shared memory are within the kernel's own limits, beyond which
/// the driver refuses a launch, and within those of its other forms (kOneDimensionalBlocks). The limits of the device,
/// .maxntid, and the limit of shared memory that holds if nobody has set one are checked elsewhere.
inline bool KernelAllows(const Variant& variant, const uint32_t* block,
                         uint32_t shared_bytes) noexcept {
  const uint32_t* const required = variant.entry->required_threads;
  const bool is_required = required[0] == 0 || (block[0] == required[0] &&
                                                block[1] == required[1] && block[2] == required[2]);
  const bool fits_forms = (variant.entry->flags & store::kOneDimensionalBlocks) == 0 ||
                          (block[1] == 1 && block[2] == 1);
  return is_required && shared_bytes < variant.shared_below.load(std::memory_order_relaxed) && fits_forms;
}

/// The original kernel in the current context, or null; `program` (CUfunction or CUkernel) is the
/// handle that the program launches.
CUfunction OriginalOf(const Variant& variant, const void* program) noexcept;

}  // namespace cupola::intercept
