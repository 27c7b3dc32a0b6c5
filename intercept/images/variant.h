// Variant: a kernel of the program that has other forms in its image's bundle, and what is known and made of these. Plain
// data: who writes which member, and when, is said there. Look-up by handle is in images.h.
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
  std::atomic<const void*> context{nullptr};  ///< what preemption keeps of the context; null = free
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

}  // namespace cupola::intercept
