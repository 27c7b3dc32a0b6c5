#include "intercept/entry/module_notes.h"

#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/preemption.h"
#include "intercept/preempt/sm_demand.h"
#include "intercept/preempt/variants.h"
#include "intercept/preempt/waiting.h"
#include "intercept/record/kernel_names.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept {
namespace {

bool LooksAtImages() { return preempt::PreemptionOn() || tasks::TasksOn(); }

}  // namespace

void NoteModuleLoaded(CUmodule module, const void* image, CUcontext context) noexcept {
  if (LooksAtImages()) NoteImage(module, /*is_library=*/false, image, context);
}

void NoteLibraryLoaded(CUlibrary library, const void* code) noexcept {
  if (LooksAtImages()) NoteImage(library, /*is_library=*/true, code, nullptr);
}

FileFacts LookAtImageFile(const char* path) noexcept {
  return LooksAtImages() ? LookAtFile(path) : FileFacts{};
}

void NoteModuleFile(CUmodule module, const char* path, const FileFacts& before,
                    CUcontext context) noexcept {
  if (LooksAtImages()) NoteImageFile(module, /*is_library=*/false, path, before, context);
}

void NoteLibraryFile(CUlibrary library, const char* path, const FileFacts& before) noexcept {
  if (LooksAtImages()) NoteImageFile(library, /*is_library=*/true, path, before, nullptr);
}

void NoteKernelGot(const void* function, const void* owner, const char* name) noexcept {
  if (LooksAtImages()) NoteKernel(function, owner, name);
}

void NoteKernelEnumerated(const void* function, const void* owner) noexcept {
  if (LooksAtImages()) NoteKernel(function, owner, DriversNameOf(function));
}

void NoteAliasGot(const void* alias, const void* function) noexcept {
  if (LooksAtImages()) NoteAlias(alias, function);
}

void NoteLimit(const void* function, CUfunction_attribute attribute, int value) noexcept {
  Variant* const variant = LooksAtImages() ? FindVariant(function) : nullptr;
  if (variant == nullptr) return;
  uint64_t below = 0;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      below = static_cast<uint64_t>(value) + 1;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      if (value == 0) return;
      break;
    default:
      return;
  }
  uint64_t before = variant->shared_below.load(std::memory_order_relaxed);
  while (before != 0 && !variant->shared_below.compare_exchange_weak(before, below)) {
  }
}

void NoteUnloading(const void* owner) noexcept {
  if (!LooksAtImages()) return;
  tasks::ForEachEngine([owner](tasks::TaskEngine& engine) { engine.ForgetImage(owner); });
  ForgetImage(owner);
  preempt::ForgetLoaded();
  preempt::ForgetSmNeeds();
}

void NoteContextEnding(CUcontext context) noexcept {
  if (!LooksAtImages()) return;
  tasks::NoteContextEnds(reinterpret_cast<uint64_t>(context));
  ForgetImagesOf(context, preempt::FindContext(context));
  preempt::ForgetLoaded();
  preempt::ForgetSmNeeds();
  preempt::PauseHoldsOf(context);
  preempt::PauseContextState(context);
}

preempt::PreemptContext* NoteContextEnded(CUcontext context) noexcept {
  return LooksAtImages() ? preempt::EndContextState(context) : nullptr;
}

void NoteContextGone(preempt::PreemptContext* kept) noexcept { preempt::FreeContextState(kept); }

void NoteContextGoesOn(CUcontext context) noexcept {
  // Modules that were loaded into it keep going out plain.
  preempt::ResumeContextState(context);
  preempt::ResumeHoldsOf(context);
  tasks::NoteContextGoesOn(reinterpret_cast<uint64_t>(context));
}

}  // namespace cupola::intercept
