#include "intercept/preempt/variants.h"

#include <algorithm>
#include <string>

#include "device/runtime/preempt_control.h"
#include "intercept/path/launch_path.h"
#include "intercept/preempt/carveout.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/launch_arguments.h"
#include "intercept/preempt/launch_prediction.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/preemption.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"

namespace cupola::intercept::preempt {
namespace {

constexpr uint32_t kUnknownWorkers = UINT32_MAX;
constexpr uint64_t kShapeFactor = 0x9e3779b97f4a7c15;  // odd; spreads sums over the high bits

std::string NameOf(const Variant& variant) {
  return std::string(variant.name) +
         (variant.is_sliced ? "__cupola_sliced" : "__cupola_preemptible");
}

void SettleUse(Variant* variant, const PreemptContext& context) {
  if (variant->settled.load(std::memory_order_acquire)) return;
  const sched::VariantChoice choice = context.gpu->VariantFor(variant->name);
  const uint32_t flags = variant->entry->flags;
  const auto has = [flags](uint32_t form) { return (flags & form) != 0; };
  const auto may_use = [&](uint32_t form, uint32_t inexact) {
    return has(form) && (!has(inexact) || settings.allow_inexact);
  };
  variant->is_ruled = choice != sched::VariantChoice::kAuto;
  switch (choice) {
    case sched::VariantChoice::kOriginal:
      variant->usable = false;
      break;
    case sched::VariantChoice::kPreemptible:
      variant->usable = variant->is_configured = has(store::kPreemptible);
      break;
    case sched::VariantChoice::kSliced:
      variant->usable = variant->is_configured = variant->is_sliced = has(store::kSliced);
      break;
    case sched::VariantChoice::kAuto: {
      // A hand-made barrier of a whole grid is no longer one in slices.
      const bool preemptible = may_use(store::kPreemptible, store::kNotBitExact);
      variant->is_sliced = variant->is_fallback =
          !preemptible && may_use(store::kSliced, store::kSlicedNotBitExact) &&
          !has(store::kMayWaitOnBlocks);
      variant->usable = preemptible || variant->is_fallback;
      break;
    }
  }
  if (const models::PlanView* plan = context.gpu->plan()) {
    const store::MappedBundle* const bundle = variant->image->mapped.get();
    variant->plan_kernel = plan->Find(
        variant->name,
        bundle == nullptr ? 0 : models::HashBytes(bundle->key().data(), bundle->key().size()));
    if (variant->plan_kernel != nullptr) variant->plan = plan;
  }
  variant->model = MakeModel(variant->plan, variant->plan_kernel, &variant->history);
  variant->settled.store(true, std::memory_order_release);
}

}  // namespace

void SettleVariant(Variant& variant, const PreemptContext& context) noexcept {
  if (variant.settled.load(std::memory_order_acquire)) [[likely]] return;
  const MutexLock lock(ImagesMutex());
  SettleUse(&variant, context);
}

PreparedVariant* FindPrepared(Variant& variant, const PreemptContext& context) noexcept {
  for (PreparedVariant& prepared : variant.prepared) {
    if (prepared.context.load(std::memory_order_acquire) == &context) return &prepared;
  }
  return nullptr;
}

bool AnyLaunchIsOf(const Image& image) noexcept {
  bool is_any = false;
  ForEachContext([&](PreemptContext& context) {
    if (is_any) return;
    if (pthread_mutex_trylock(&context.slots_mutex) != 0) {
      is_any = true;
      return;
    }
    for (uint32_t i = 0; i < context.slots.in_use(); ++i) {
      const Variant* const variant = context.slots.used(i).variant;
      is_any |= variant != nullptr && variant->image == &image;
    }
    pthread_mutex_unlock(&context.slots_mutex);
  });
  return is_any;
}

namespace {

// The variant, where the driver has its parameters and the original's as the bundle says.
CUfunction LoadBeside(Variant& variant, const PreemptContext& context, const void* program) {
  CUfunction function = FunctionBeside(variant.image, store::ImageKind::kSide, context.context,
                                       context.helpers[0], NameOf(variant));
  if (function == nullptr) return nullptr;
  const uint32_t own_bytes =
      variant.is_sliced ? sizeof(runtime::SliceParams) : sizeof(runtime::PreemptParams);
  const CUfunction original = OriginalOf(variant, program);
  if (LieAsBundled(variant, function, own_bytes) &&
      (original == nullptr || LieAsBundled(variant, original, 0))) {
    return function;
  }
  static std::atomic_flag said;
  SayOnce(said, Level::kWarn,
          {"the driver has the parameters of ", variant.name, " elsewhere than its bundle says"});
  return nullptr;
}

}  // namespace

PreparedVariant* PrepareVariant(Variant& variant, PreemptContext& context,
                                const void* program) noexcept {
  const RelaxedCapture relaxed;
  const MutexLock lock(ImagesMutex());
  SettleUse(&variant, context);
  if (PreparedVariant* made = FindPrepared(variant, context)) return made;
  for (PreparedVariant& prepared : variant.prepared) {
    if (prepared.context.load() != nullptr) continue;
    for (Shape& shape : prepared.shapes) shape.key.store(0);
    prepared.most_shared = 0;
    prepared.function = variant.usable ? LoadBeside(variant, context, program) : nullptr;
    prepared.context.store(&context, std::memory_order_release);
    return &prepared;
  }
  return nullptr;
}

namespace {

const Shape* FindShape(const PreparedVariant& prepared, uint32_t threads, uint32_t shared) {
  const uint64_t key = (uint64_t{threads} << 32 | shared) + 1;
  for (const Shape& shape : prepared.shapes) {
    if (shape.key.load(std::memory_order_acquire) == key) return &shape;
  }
  return nullptr;
}

}  // namespace

uint32_t FindWorkers(const PreparedVariant& prepared, uint32_t threads, uint32_t shared) noexcept {
  const Shape* const shape = FindShape(prepared, threads, shared);
  return shape != nullptr ? shape->workers.load(std::memory_order_relaxed) : kUnknownWorkers;
}

uint32_t FindResidentBlocks(const PreparedVariant& prepared, uint32_t threads,
                            uint32_t shared) noexcept {
  const Shape* const shape = FindShape(prepared, threads, shared);
  return shape != nullptr ? shape->blocks.load(std::memory_order_relaxed) : UINT32_MAX;
}

uint32_t FindCarveout(const PreparedVariant& prepared, uint32_t threads, uint32_t shared) noexcept {
  const Shape* const shape = FindShape(prepared, threads, shared);
  return shape != nullptr ? shape->carveout.load(std::memory_order_relaxed) : 0;
}

uint32_t PrepareShape(Variant& variant, PreparedVariant& prepared, const PreemptContext& context,
                      const void* program, uint32_t threads, uint32_t shared) noexcept {
  const RelaxedCapture relaxed;
  const MutexLock lock(ImagesMutex());
  if (const uint32_t known = FindWorkers(prepared, threads, shared); known != kUnknownWorkers) {
    return known;
  }
  uint32_t workers = 0;
  const auto get = CUPOLA_CALL_REAL(cuFuncGetAttribute, PFN_cuFuncGetAttribute_v2020);
  const auto set = CUPOLA_CALL_REAL(cuFuncSetAttribute, PFN_cuFuncSetAttribute_v9000);
  const auto occupancy = CUPOLA_CALL_REAL(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                                          PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050);
  // What the original may have, the variant may have: a launch beyond that goes out plain and
  // fails.
  CUfunction original = OriginalOf(variant, program);
  int limit = 0;
  // The variant has some bytes of its own, so it is given what it needs, not the original's limit.
  const uint32_t most = std::max(shared, prepared.most_shared);
  const bool fits =
      get(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, original) == CUDA_SUCCESS &&
      shared <= static_cast<uint32_t>(limit) &&
      set(prepared.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
          static_cast<int>(most)) == CUDA_SUCCESS;
  if (fits) prepared.most_shared = most;
  int blocks = 0;
  if (fits &&
      occupancy(&blocks, prepared.function, static_cast<int>(threads), shared) == CUDA_SUCCESS) {
    workers = static_cast<uint32_t>(blocks) * context.gpu->sm_count();
  }
  int of_original = 0;
  const bool known =
      occupancy(&of_original, original, static_cast<int>(threads), shared) == CUDA_SUCCESS;
  // A variant whose registers are bounded may run blocks that the original cannot.
  if (known && of_original == 0) workers = 0;
  // The program may raise the limit before it tries again.
  if (shared > static_cast<uint32_t>(limit)) return 0;
  for (Shape& shape : prepared.shapes) {
    if (shape.key.load() != 0) continue;
    shape.workers.store(workers, std::memory_order_relaxed);
    shape.blocks.store(
        known ? static_cast<uint32_t>(of_original) * context.gpu->sm_count() : UINT32_MAX,
        std::memory_order_relaxed);
    const uint32_t less = blocks > 1 ? static_cast<uint32_t>(blocks - 1) : 0;
    shape.carveout = CarveoutFor(prepared.function, shared, less, context.gpu->device());
    shape.key.store((uint64_t{threads} << 32 | shared) + 1, std::memory_order_release);
    break;
  }
  return workers;
}

uint32_t TakeTurn(Variant& variant, const LaunchFacts& facts) noexcept {
  uint64_t shape = facts.shared_bytes;
  for (int i = 0; i < 3; ++i) {
    shape = (shape * kShapeFactor + facts.grid[i]) * kShapeFactor + facts.block[i];
  }
  std::atomic<uint32_t>& turns = variant.turns[(shape >> 32) % Variant::kTurnCounters];
  return settings.turns[turns.fetch_add(1, std::memory_order_relaxed) % settings.turn_count];
}

}  // namespace cupola::intercept::preempt
