#include "intercept/launch/variant_use.h"

#include "intercept/images/images.h"
#include "intercept/images/variant.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_prediction.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/process/mutex_lock.h"

namespace cupola::intercept {

void SettleVariantLocked(Variant& variant, const LaunchContext& context) noexcept {
  if (variant.settled.load(std::memory_order_acquire)) return;
  const sched::VariantChoice choice = context.gpu->VariantFor(variant.name);
  const uint32_t flags = variant.entry->flags;
  const auto has = [flags](uint32_t form) { return (flags & form) != 0; };
  const auto may_use = [&](uint32_t form, uint32_t inexact) {
    return has(form) && (!has(inexact) || preemption_settings.allow_inexact);
  };
  variant.is_ruled = choice != sched::VariantChoice::kAuto;
  switch (choice) {
    case sched::VariantChoice::kOriginal:
      variant.usable = false;
      break;
    case sched::VariantChoice::kPreemptible:
      variant.usable = variant.is_configured = has(store::kPreemptible);
      break;
    case sched::VariantChoice::kSliced:
      variant.usable = variant.is_configured = variant.is_sliced = has(store::kSliced);
      break;
    case sched::VariantChoice::kAuto: {
      // A kernel whose blocks may wait for one another is not sliced: a barrier of the whole grid
      // that it makes by hand would not work within slices.
      const bool preemptible = may_use(store::kPreemptible, store::kNotBitExact);
      variant.is_sliced = variant.is_fallback =
          !preemptible && may_use(store::kSliced, store::kSlicedNotBitExact) &&
          !has(store::kMayWaitOnBlocks);
      variant.usable = preemptible || variant.is_fallback;
      break;
    }
  }
  if (const models::PlanView* plan = context.gpu->plan()) {
    const store::MappedBundle* const bundle = variant.image->mapped.get();
    variant.plan_kernel = plan->Find(
        variant.name,
        bundle == nullptr ? 0 : models::HashBytes(bundle->key().data(), bundle->key().size()));
    if (variant.plan_kernel != nullptr) variant.plan = plan;
  }
  variant.model = MakeModel(variant.plan, variant.plan_kernel, &variant.history);
  variant.settled.store(true, std::memory_order_release);
}

void SettleVariant(Variant& variant, const LaunchContext& context) noexcept {
  if (variant.settled.load(std::memory_order_acquire)) [[likely]] return;
  const MutexLock lock(ImagesMutex());
  SettleVariantLocked(variant, context);
}

}  // namespace cupola::intercept
