// Hooks of cuGetProcAddress and cuGetExportTable. cuGetProcAddress is how cudart and most libraries
// find the driver's functions. The hook asks the driver first and returns its status; it replaces the
// pointer only if Cupola has a hook or a watched entry of that call, of the same version and stream
// form. CUDA Driver API, "Driver Entry Point Access". cuGetExportTable is how tools find functions
// that no header names; it is passed through.
#include <cstring>
#include <span>

#include <cuda.h>

#include "intercept/process/calls.h"
#include "intercept/process/driver.h"
#include "intercept/process/participation.h"
#include "intercept/process/thread_state.h"
#include "intercept/process/tools.h"

// Declares the hooks as addresses only; the files that define them have their types.
#define CUPOLA_HOOK(name, symbol, version, form)                                   \
  extern "C" __attribute__((visibility("hidden"))) const char cupola_address_##name[] \
      __asm__("entry_" #name);
#define CUPOLA_LAUNCH_HOOK CUPOLA_HOOK
#define CUPOLA_ALIAS(name, symbol, version, form)
#include "intercept/entry/hooks.def"
#undef CUPOLA_HOOK
#undef CUPOLA_LAUNCH_HOOK
#undef CUPOLA_ALIAS

// Declares the entries of the watched calls (generate/stubs.py).
#define CUPOLA_FORM(name, symbol, version, form) \
  extern "C" __attribute__((visibility("hidden"))) const char cupola_address_##name[] \
      __asm__("entry_" #name);
#include "intercept/forms.inc"
#undef CUPOLA_FORM

namespace cupola::intercept {
namespace {

struct Hook {
  const char* symbol;   // name for cuGetProcAddress
  int version;          // the first CUDA version of this form
  StreamForm form;
  Call call;            // the export
  const void* address;  // that is given to the program
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

// Waiting and stream-ordered calls that have no hook. Their entries are given out if preemption or
// tasks are on in this process.
const Hook kWatched[] = {
#define CUPOLA_FORM(name, symbol, version, form) \
  {symbol, version, StreamForm::form, Call::k_##name, cupola_address_##name},
#include "intercept/forms.inc"
#undef CUPOLA_FORM
};

bool IsRealOf(const Hook& hook, const void* function) {
  return Real<const void*>(hook.call) == function;
}

// The form of `symbol` that a request for this version and stream form means: the newest form that is
// not newer than the request, and the per-thread one if that is asked for and exists.
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

// Caps a requested version to the driver's: an older driver gives the newest form that it has.
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
  // The pointer is that of an export with a hook, asked for by the call's name or the export's.
  for (const Hook& other : hooks) {
    const bool named = strcmp(other.symbol, symbol) == 0 ||
                       strcmp(kCallNames[static_cast<size_t>(other.call)], symbol) == 0;
    if (named && IsRealOf(other, function)) return const_cast<void*>(other.address);
  }
  // A driver may give out another pointer than its export. Up to the version for which Cupola was
  // built the list of forms is complete, so the form is that of `hook`. Beyond that version the form
  // may be an unknown one, and the pointer stays.
  return hook != nullptr && version <= CUDA_VERSION ? const_cast<void*>(hook->address) : function;
}

void* Replace(const char* symbol, void* function, int version, cuuint64_t flags) {
  void* const hooked = ReplaceBy(kHooks, symbol, function, version, flags);
  if (hooked != function || (!PreemptionOn() && !TasksOn())) return hooked;
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
  // The call comes first: it may be the one that opens the driver, which decides whether preemption
  // and tasks are on.
  const CUresult result = CUPOLA_REAL(cuGetExportTable)(table, id);
  if (!InsideHook() && (PreemptionOn() || TasksOn())) {
    OnTablesAsked(__builtin_return_address(0));
  }
  return result;
}

}  // extern "C"
}  // namespace cupola::intercept
