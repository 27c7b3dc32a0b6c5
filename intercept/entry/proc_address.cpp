// cuGetProcAddress: the way in which cudart and most libraries find the driver. The real one is
// asked first and its status returned; a pointer is replaced only when we have a hook of that call,
// of the same version and stream form. CUDA Driver API, "Driver Entry Point Access". And
// cuGetExportTable, the way in which tools find what no header names; passed through.
#include <cstring>
#include <span>

#include <cuda.h>

#include "intercept/preempt/preemption.h"
#include "intercept/process/calls.h"
#include "intercept/process/driver.h"
#include "intercept/process/thread_state.h"
#include "intercept/tasks/tasks.h"

// The hooks by address only; their types are those of the files that define them.
#define CUPOLA_HOOK(name, symbol, version, form)                                   \
  extern "C" __attribute__((visibility("hidden"))) const char cupola_address_##name[] \
      __asm__("entry_" #name);
#define CUPOLA_LAUNCH_HOOK CUPOLA_HOOK
#define CUPOLA_ALIAS(name, symbol, version, form)
#include "intercept/entry/hooks.def"
#undef CUPOLA_HOOK
#undef CUPOLA_LAUNCH_HOOK
#undef CUPOLA_ALIAS

// The entries of the watched calls (generate/stubs.py).
#define CUPOLA_FORM(name, symbol, version, form) \
  extern "C" __attribute__((visibility("hidden"))) const char cupola_address_##name[] \
      __asm__("entry_" #name);
#include "intercept/forms.inc"
#undef CUPOLA_FORM

namespace cupola::intercept {
namespace {

struct Hook {
  const char* symbol;
  int version;      // the first CUDA version of this form
  StreamForm form;
  Call call;
  const void* address;
};

const Hook kHooks[] = {
#define CUPOLA_HOOK(name, symbol, version, form) \
  {symbol, version, StreamForm::form, Call::k_##name, cupola_address_##name},
#define CUPOLA_LAUNCH_HOOK CUPOLA_HOOK
#define CUPOLA_ALIAS CUPOLA_HOOK
#include "intercept/entry/hooks.def"
#undef CUPOLA_HOOK
#undef CUPOLA_LAUNCH_HOOK
#undef CUPOLA_ALIAS
};

// Calls that may wait or are ordered in streams and have no hook: their entries are given out where
// this process takes part in preemption.
const Hook kWatched[] = {
#define CUPOLA_FORM(name, symbol, version, form) \
  {symbol, version, StreamForm::form, Call::k_##name, cupola_address_##name},
#include "intercept/forms.inc"
#undef CUPOLA_FORM
};

bool IsRealOf(const Hook& hook, const void* function) {
  return Real<const void*>(hook.call) == function;
}

// The form of `symbol` that a request for this version and these flags means: the newest that is
// not newer than the request; the per-thread one if asked for and there is one.
const Hook* FormFor(std::span<const Hook> hooks, const char* symbol, int version, StreamForm form) {
  const Hook* best = nullptr;
  for (const Hook& hook : hooks) {
    if (hook.version > version || strcmp(hook.symbol, symbol) != 0) continue;
    if (hook.form == StreamForm::kPerThread && form != StreamForm::kPerThread) continue;
    const bool better = best == nullptr || hook.form > best->form ||
                        (hook.form == best->form && hook.version > best->version);
    if (better) best = &hook;
  }
  return best;
}

// An older driver gives the newest form that it has.
int CappedVersion(int version) {
  int driver_version = 0;
  const auto get_version = Real<CUresult (*)(int*)>(Call::k_cuDriverGetVersion);
  return get_version(&driver_version) == CUDA_SUCCESS && driver_version < version ? driver_version
                                                                                  : version;
}

void* ReplaceBy(std::span<const Hook> hooks, const char* symbol, void* function, int version,
                cuuint64_t flags) {
  const StreamForm form = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0
                              ? StreamForm::kPerThread : StreamForm::kAnyStream;
  const Hook* hook = FormFor(hooks, symbol, CappedVersion(version), form);
  if (hook != nullptr && IsRealOf(*hook, function)) return const_cast<void*>(hook->address);
  // The very pointer of an export that we hook, asked for under its own or the exported name.
  for (const Hook& other : hooks) {
    const bool named = strcmp(other.symbol, symbol) == 0 ||
                       strcmp(kCallNames[static_cast<size_t>(other.call)], symbol) == 0;
    if (named && IsRealOf(other, function)) return const_cast<void*>(other.address);
  }
  // A driver may give out another pointer than its export. Up to the version that we were built for
  // our list of forms is complete; beyond, the form may be one that we do not know: leave it.
  return hook != nullptr && version <= CUDA_VERSION ? const_cast<void*>(hook->address) : function;
}

void* Replace(const char* symbol, void* function, int version, cuuint64_t flags) {
  void* const hooked = ReplaceBy(kHooks, symbol, function, version, flags);
  if (hooked != function || (!preempt::PreemptionOn() && !tasks::TasksOn())) return hooked;
  return ReplaceBy(kWatched, symbol, function, version, flags);
}

bool ShouldReplace(CUresult result, const char* symbol, void** function) {
  return result == CUDA_SUCCESS && symbol != nullptr && function != nullptr &&
         *function != nullptr && !InsideHook() && !IsStandIn(*function);
}

}  // namespace

extern "C" {

CUresult hook_cuGetProcAddress(const char* symbol, void** function, int version,
                               cuuint64_t flags) noexcept {
  const CUresult result = CUPOLA_REAL(cuGetProcAddress)(symbol, function, version, flags);
  if (ShouldReplace(result, symbol, function)) {
    *function = Replace(symbol, *function, version, flags);
  }
  return result;
}

CUresult hook_cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                  cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) noexcept {
  const CUresult result =
      CUPOLA_REAL(cuGetProcAddress_v2)(symbol, function, version, flags, status);
  if (ShouldReplace(result, symbol, function)) {
    *function = Replace(symbol, *function, version, flags);
  }
  return result;
}

CUresult hook_cuGetExportTable(const void** table, const CUuuid* id) noexcept {
  // Before we look at the caller: the driver may be opened by this call, and who takes part is
  // settled then.
  const CUresult result = CUPOLA_REAL(cuGetExportTable)(table, id);
  if (!InsideHook() && (preempt::PreemptionOn() || tasks::TasksOn())) {
    preempt::NoteTablesAsked(__builtin_return_address(0));
  }
  return result;
}

}  // extern "C"
}  // namespace cupola::intercept
