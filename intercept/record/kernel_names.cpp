#include "intercept/record/kernel_names.h"

#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <cudaTypedefs.h>
#include <pthread.h>

#include "intercept/process/calls.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/record/recorder.h"

namespace cupola::intercept {
namespace {

constexpr uint64_t kUnknown = UINT64_MAX;

// What only the slow paths need; under the mutex. Made at first use and never destroyed, because
// threads may launch while the process exits.
struct Owners {
  std::unordered_map<std::string, uint32_t> offsets;                       // name -> name bytes
  std::unordered_map<const void*, std::vector<const void*>> handles;       // owner -> its handles
  std::unordered_map<const void*, const void*> owner_of;                   // handle -> owner
  std::unordered_map<const void*, const void*> context_of;                 // module -> its context
};

HandleMap names;
pthread_mutex_t kernel_names_mutex = PTHREAD_MUTEX_INITIALIZER;
Owners* owners = nullptr;

Owners& OwnersLocked() {
  if (owners == nullptr) owners = new Owners;
  return *owners;
}

uint32_t InternLocked(const char* name) {
  RingWriter* ring = ActiveRing();
  if (ring == nullptr || name == nullptr || *name == '\0') return 0;
  auto& offsets = OwnersLocked().offsets;
  const auto found = offsets.find(name);
  if (found != offsets.end()) return found->second;
  const uint32_t offset = ring->AddName(name);
  if (offset != 0) offsets.emplace(name, offset);
  return offset;
}

void BindLocked(const void* function, const void* owner, uint32_t offset) {
  Owners& known = OwnersLocked();
  const auto before = known.owner_of.find(function);
  if (before == known.owner_of.end() || before->second != owner) {
    known.owner_of[function] = owner;
    known.handles[owner].push_back(function);
  }
  names.Set(function, offset);
}

void ForgetOwnerLocked(const void* owner) {
  Owners& known = OwnersLocked();
  const auto found = known.handles.find(owner);
  if (found == known.handles.end()) return;
  for (const void* function : found->second) {
    const auto current = known.owner_of.find(function);
    if (current == known.owner_of.end() || current->second != owner) continue;
    names.Erase(function);
    known.owner_of.erase(current);
  }
  known.handles.erase(found);
}

// Only launches take a CUkernel in place of a CUfunction, so both calls are tried.
const char* AskDriver(const void* function) {
  const char* name = nullptr;
  const auto get_function = Real<PFN_cuFuncGetName_v12030>(Call::k_cuFuncGetName);
  const auto get_kernel = Real<PFN_cuKernelGetName_v12030>(Call::k_cuKernelGetName);
  if (get_function(&name, static_cast<CUfunction>(const_cast<void*>(function))) == CUDA_SUCCESS) {
    return name;
  }
  name = nullptr;
  if (get_kernel(&name, static_cast<CUkernel>(const_cast<void*>(function))) == CUDA_SUCCESS) {
    return name;
  }
  return nullptr;
}

uint32_t AskAndBind(const void* function) {
  const char* name = AskDriver(function);  // outside the mutex: the driver has locks of its own
  const MutexLock lock(kernel_names_mutex);
  const uint32_t offset = InternLocked(name);
  BindLocked(function, nullptr, offset);
  return offset;
}

}  // namespace

const char* DriversNameOf(const void* function) noexcept { return AskDriver(function); }

uint32_t KernelNameOf(const void* function) noexcept {
  const uint64_t offset = names.Find(function, kUnknown);
  if (offset != kUnknown) [[likely]] return static_cast<uint32_t>(offset);
  return function != nullptr ? AskAndBind(function) : 0;
}

void NameKernel(const void* function, const void* owner, const char* name) noexcept {
  if (function == nullptr || name == nullptr) return;
  const MutexLock lock(kernel_names_mutex);
  BindLocked(function, owner, InternLocked(name));
}

void NameEnumerated(const void* function, const void* owner) noexcept {
  NameKernel(function, owner, AskDriver(function));
}

void AliasKernel(const void* alias, const void* function) noexcept {
  if (alias == nullptr || alias == function) return;
  const uint32_t offset = KernelNameOf(function);
  const MutexLock lock(kernel_names_mutex);
  Owners& known = OwnersLocked();
  const auto owner = known.owner_of.find(function);
  BindLocked(alias, owner != known.owner_of.end() ? owner->second : nullptr, offset);
}

void OnModuleOfNames(const void* module, const void* context) noexcept {
  const MutexLock lock(kernel_names_mutex);
  OwnersLocked().context_of[module] = context;
}

void ForgetOwner(const void* owner) noexcept {
  const MutexLock lock(kernel_names_mutex);
  ForgetOwnerLocked(owner);
  ForgetOwnerLocked(nullptr);
  OwnersLocked().context_of.erase(owner);
}

void ForgetContext(const void* context) noexcept {
  const MutexLock lock(kernel_names_mutex);
  Owners& known = OwnersLocked();
  std::erase_if(known.context_of, [context](const auto& module) {
    if (module.second != context) return false;
    ForgetOwnerLocked(module.first);
    return true;
  });
  ForgetOwnerLocked(nullptr);
}

void ResetKernelNamesAfterFork() noexcept {
  kernel_names_mutex = PTHREAD_MUTEX_INITIALIZER;
  owners = nullptr;  // not freed: another thread of the parent may have been changing it
  names.ResetAfterFork();
}

}  // namespace cupola::intercept
