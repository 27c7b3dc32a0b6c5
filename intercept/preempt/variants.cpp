#include "intercept/preempt/variants.h"

#include <algorithm>
#include <string>

#include "device/runtime/preempt_control.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_prediction.h"
#include "intercept/launch/packed_launch.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/launch/variant_use.h"
#include "intercept/preempt/carveout.h"
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

}  // namespace

PreparedVariant* FindPrepared(Variant& variant, const LaunchContext& context) noexcept {
  for (PreparedVariant& prepared : variant.prepared) {
    if (prepared.context.load(std::memory_order_acquire) == &context) return &prepared;
  }
  return nullptr;
}

bool AnyLaunchIsOf(const Image& image) noexcept {
  bool is_any = false;
  ForEachContext([&](LaunchContext& context) {
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

// Loads the variant. Null also if the driver has its parameters, or those of the original, at other
// offsets than the bundle says.
CUfunction LoadBeside(Variant& variant, const LaunchContext& context, const void* program) {
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

PreparedVariant* PrepareVariant(Variant& variant, LaunchContext& context,
                                const void* program) noexcept {
  const RelaxedCapture relaxed;
  const MutexLock lock(ImagesMutex());
  SettleVariantLocked(variant, context);
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

uint32_t PrepareShape(Variant& variant, PreparedVariant& prepared, const LaunchContext& context,
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
  // The variant may have as much dynamic shared memory as the original: a launch with more goes out
  // plain and fails.
  CUfunction original = OriginalOf(variant, program);
  int limit = 0;
  // The variant needs some shared memory of its own, so its limit is set to what its launches need
  // and not to the original's limit.
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
  // Not recorded: the program may raise the limit before it tries again.
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

uint32_t TakeTurn(Variant& variant, const Launch& launch) noexcept {
  uint64_t shape = launch.shared_bytes;
  for (int i = 0; i < 3; ++i) {
    shape = (shape * kShapeFactor + launch.grid[i]) * kShapeFactor + launch.block[i];
  }
  std::atomic<uint32_t>& turns = variant.turns[(shape >> 32) % Variant::kTurnCounters];
  return preemption_settings.turns[turns.fetch_add(1, std::memory_order_relaxed) % preemption_settings.turn_count];
}

}  // namespace cupola::intercept::preempt
