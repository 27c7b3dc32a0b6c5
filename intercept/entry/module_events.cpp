#include "intercept/entry/module_events.h"

#include "intercept/launch/launch_context.h"
#include "intercept/launch/loaded_kernels.h"
#include "intercept/launch/plain_times.h"
#include "intercept/preempt/guarded_context.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/sm_demand.h"
#include "intercept/preempt/variants.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/participation.h"
#include "intercept/record/kernel_names.h"
#include "intercept/record/launch_uses.h"
#include "intercept/record/recorder.h"
#include "intercept/tasks/task_engines.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept {
namespace {

bool LooksAtImages() { return PreemptionOn() || TasksOn(); }

}  // namespace

void OnModuleLoaded(CUmodule module, const void* image, CUcontext context) noexcept {
  if (LooksAtImages()) RegisterImage(module, /*is_library=*/false, image, context);
}

void OnLibraryLoaded(CUlibrary library, const void* code) noexcept {
  if (LooksAtImages()) RegisterImage(library, /*is_library=*/true, code, nullptr);
}

FileFacts LookAtImageFile(const char* path) noexcept {
  return LooksAtImages() ? LookAtFile(path) : FileFacts{};
}

void OnModuleFileLoaded(CUmodule module, const char* path, const FileFacts& before,
                    CUcontext context) noexcept {
  if (LooksAtImages()) RegisterImageFile(module, /*is_library=*/false, path, before, context);
}

void OnLibraryFileLoaded(CUlibrary library, const char* path, const FileFacts& before) noexcept {
  if (LooksAtImages()) RegisterImageFile(library, /*is_library=*/true, path, before, nullptr);
}

void OnKernelGot(const void* function, const void* owner, const char* name) noexcept {
  if (LooksAtImages()) RegisterKernel(function, owner, name);
}

void OnKernelEnumerated(const void* function, const void* owner) noexcept {
  if (LooksAtImages()) RegisterKernel(function, owner, DriversNameOf(function));
}

void OnKernelAliasGot(const void* alias, const void* function) noexcept {
  if (LooksAtImages()) RegisterKernelAlias(alias, function);
}

void OnKernelAttributeSet(const void* function, CUfunction_attribute attribute, int value) noexcept {
  if (!LooksAtImages()) return;
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
  NoteSharedBelow(function, below);
}

void OnUnloading(const void* owner) noexcept {
  if (IsReported()) ForgetHandlesOfUses();
  ForgetPlainTimes();
  if (!LooksAtImages()) return;
  tasks::ForEachEngine([owner](tasks::TaskEngine& engine) { engine.ForgetImage(owner); });
  ForgetImage(owner);
  ForgetLoaded();
  preempt::ForgetSmNeeds();
}

void OnContextEnding(CUcontext context) noexcept {
  if (IsReported()) ForgetHandlesOfUses();
  ForgetPlainTimes();
  if (!LooksAtImages()) return;
  tasks::PauseTasksOfContext(reinterpret_cast<uint64_t>(context));
  ForgetImagesOf(context, FindContext(context));
  ForgetLoaded();
  preempt::ForgetSmNeeds();
  preempt::PauseHoldsOf(context);
  preempt::PauseContextState(context);
}

LaunchContext* OnContextEnded(CUcontext context) noexcept {
  if (!LooksAtImages()) return nullptr;
  tasks::EndTasksOfContext(reinterpret_cast<uint64_t>(context));
  return EndContextState(context);
}

void OnContextGone(LaunchContext* kept) noexcept { FreeContextState(kept); }

void OnContextKept(CUcontext context) noexcept {
  // Launches of modules that were loaded into it before stay plain, because their images are forgotten.
  ResumeContextState(context);
  preempt::ResumeHoldsOf(context);
  tasks::ResumeTasksOfContext(reinterpret_cast<uint64_t>(context));
}

}  // namespace cupola::intercept
