#include "intercept/door/compile_calls.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>

#include "intercept/door/next_in_order.h"
#include "intercept/process/compiled_folder.h"
#include "intercept/process/door.h"
#include "intercept/process/own_stack.h"

namespace cupola::intercept {
namespace {

// Results and kinds of input of both libraries, as far as they are used here [nvrtc.h, nvJitLink.h].
using Result = int;
constexpr Result kSuccess = 0, kInternalError = 11;
constexpr int kPtxInput = 2, kAnyInput = 10;

/// A call of one version of a library; there are several libraries of a kind in some programs.
constexpr int kVersions = 4;

using GetCode = Result (*)(void* program, char* into);
using GetSize = Result (*)(void* program, size_t* bytes);
using AddData = Result (*)(void* link, int kind, const void* bytes, size_t size, const char* name);
using AddFile = Result (*)(void* link, int kind, const char* file);
using Destroy = Result (*)(void** link);

// Memory for a text; not malloc, which the program may have replaced. Null: there is none.
char* Map(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped != MAP_FAILED ? static_cast<char*>(mapped) : nullptr;
}

std::span<const std::byte> BytesOf(const void* start, size_t bytes) {
  return {static_cast<const std::byte*>(start), bytes};
}

/// A text without what follows its NUL.
std::span<const std::byte> TextOf(const void* start, size_t bytes) {
  return BytesOf(start, strnlen(static_cast<const char*>(start), bytes));
}

/// The call `name` of the library that has `of`.
template <typename Function>
Function Sibling(void* of, const char* name) {
  Dl_info object;
  if (dladdr(of, &object) == 0 || object.dli_fname == nullptr) return nullptr;
  void* const library = cupola_door.open(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* const found = cupola_door.find(library, name);
  dlclose(library);
  return reinterpret_cast<Function>(found);
}

// ---- NVRTC ----

// The program has got a cubin: its PTX is asked for, which NVRTC makes for every architecture [NVRTC, nvrtcGetPTX].
void KeepOfNvrtc(void* real, void* program, const char* cubin) {
  if (!IsCompiledWatched()) return;
  const auto cubin_size = Sibling<GetSize>(real, "nvrtcGetCUBINSize");
  const auto ptx_size = Sibling<GetSize>(real, "nvrtcGetPTXSize");
  const auto get_ptx = Sibling<GetCode>(real, "nvrtcGetPTX");
  size_t bytes = 0, ptx_bytes = 0;
  if (cubin_size == nullptr || ptx_size == nullptr || get_ptx == nullptr) return;
  if (cubin_size(program, &bytes) != kSuccess || ptx_size(program, &ptx_bytes) != kSuccess) return;
  char* const ptx = Map(ptx_bytes);
  if (ptx == nullptr) return;
  if (get_ptx(program, ptx) == kSuccess) KeepCompiled(BytesOf(cubin, bytes), TextOf(ptx, ptx_bytes));
  munmap(ptx, ptx_bytes);
}

Result GetCubin(void* real, void* program, char* into) {
  const Result result = reinterpret_cast<GetCode>(real)(program, into);
  if (result != kSuccess || into == nullptr) return result;
  auto work = [&] { KeepOfNvrtc(real, program, into); };
  RunOnOwnStack(work);
  return result;
}

// ---- nvJitLink ----

/// What was given to one link that has not ended.
struct Link {
  void* handle = nullptr;  ///< null: free
  char* ptx = nullptr;     ///< the first input, if it is PTX: a copy, mapped
  size_t bytes = 0;        ///< of the PTX
  uint32_t inputs = 0;
};

constexpr size_t kMostLinks = 32;
Link links[kMostLinks];
std::atomic<bool> links_taken{false};

class LinksLock {
 public:
  LinksLock() {
    while (links_taken.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  ~LinksLock() { links_taken.store(false, std::memory_order_release); }
  LinksLock(const LinksLock&) = delete;
  LinksLock& operator=(const LinksLock&) = delete;
};

Link* FindLink(void* handle) {
  for (Link& link : links) {
    if (link.handle == handle) return &link;
  }
  return nullptr;
}

void EndLink(Link* link) {
  if (link->ptx != nullptr) munmap(link->ptx, link->bytes);
  *link = {};
}

bool IsPtx(int kind, const void* bytes, size_t size) {
  const size_t searched = size < 4096 ? size : 4096;
  return kind == kPtxInput || (kind == kAnyInput && memmem(bytes, searched, ".version", strlen(".version")) != nullptr);
}

// An input was added; `ptx` is null where it is no PTX. Where nobody watches when the PTX is added, its cubin is not kept.
void AddInput(void* handle, const void* ptx, size_t size) {
  bool is_watched = false;
  auto ask = [&is_watched] { is_watched = IsCompiledWatched(); };
  if (ptx != nullptr) RunOnOwnStack(ask);
  const LinksLock lock;
  Link* link = FindLink(handle);
  if (link == nullptr) link = FindLink(nullptr);
  if (link == nullptr) return;  // more links than are looked after
  link->handle = handle;
  if (link->inputs++ != 0 || !is_watched) return;
  link->ptx = Map(size);
  if (link->ptx != nullptr) memcpy(link->ptx, ptx, size);
  link->bytes = size;
}

Result AddDataTo(void* real, void* handle, int kind, const void* bytes, size_t size, const char* name) {
  const Result result = reinterpret_cast<AddData>(real)(handle, kind, bytes, size, name);
  if (result == kSuccess) AddInput(handle, bytes != nullptr && IsPtx(kind, bytes, size) ? bytes : nullptr, size);
  return result;
}

Result AddFileTo(void* real, void* handle, int kind, const char* file) {
  const Result result = reinterpret_cast<AddFile>(real)(handle, kind, file);
  if (result == kSuccess) AddInput(handle, nullptr, 0);
  return result;
}

// What was linked of one PTX alone is a cubin of that PTX.
Result GetLinked(void* real, void* handle, char* into) {
  const Result result = reinterpret_cast<GetCode>(real)(handle, into);
  if (result != kSuccess || into == nullptr) return result;
  auto work = [&] {
    const auto cubin_size = Sibling<GetSize>(real, "nvJitLinkGetLinkedCubinSize");
    size_t bytes = 0;
    if (cubin_size == nullptr || cubin_size(handle, &bytes) != kSuccess) return;
    const LinksLock lock;
    const Link* const link = FindLink(handle);
    if (link == nullptr || link->inputs != 1 || link->ptx == nullptr) return;
    KeepCompiled(BytesOf(into, bytes), TextOf(link->ptx, link->bytes));
  };
  RunOnOwnStack(work);
  return result;
}

Result DestroyLink(void* real, void** handle) {
  if (handle != nullptr && *handle != nullptr) {
    const LinksLock lock;
    if (Link* const link = FindLink(*handle)) EndLink(link);
  }
  return reinterpret_cast<Destroy>(real)(handle);
}

// ---- our forms ----

/// Our forms of one call, each of which makes the call of another library.
template <auto Ours>
struct Forms;

template <typename... Arguments, Result (*Ours)(void*, Arguments...)>
struct Forms<Ours> {
  static inline constinit std::atomic<void*> real[kVersions] = {};

  template <int Version>
  static Result Form(Arguments... arguments) {
    return Ours(real[Version].load(std::memory_order_acquire), arguments...);
  }

  /// Our form for the library that has `wanted`; null: there is none left.
  static void* For(void* wanted) {
    static constexpr Result (*kForms[kVersions])(Arguments...) = {&Form<0>, &Form<1>, &Form<2>, &Form<3>};
    for (int i = 0; i < kVersions; ++i) {
      void* known = nullptr;
      if (real[i].compare_exchange_strong(known, wanted) || known == wanted) {
        return reinterpret_cast<void*>(kForms[i]);
      }
    }
    return nullptr;
  }
};

// nvJitLink's calls are exported under their own names and, for programs that are linked with it, as
// __nvJitLinkAddData_12_4 and the like.
bool IsJitLinkCall(const char* name, const char* call) {
  if (strcmp(name, call) == 0) return true;
  const size_t length = strlen(call);
  return strncmp(name, "__", 2) == 0 && strncmp(name + 2, call, length) == 0 && name[2 + length] == '_' &&
         name[3 + length] >= '0' && name[3 + length] <= '9';
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int nvrtcGetCUBIN(void* program, char* into) {
  void* const real = NextInOrder("nvrtcGetCUBIN");
  return real != nullptr ? GetCubin(real, program, into) : kInternalError;
}

bool MayBeCompileCall(const char* name) noexcept {
  return strncmp(name, "nvrtcGetCUBIN", 13) == 0 || strncmp(name, "nvJitLink", 9) == 0 || strncmp(name, "__nvJitLink", 11) == 0;
}

void* CompileCall(const char* name, void* real) noexcept {
  if (real == reinterpret_cast<void*>(&nvrtcGetCUBIN)) return nullptr;  // it is ours already
  if (strcmp(name, "nvrtcGetCUBIN") == 0) return Forms<&GetCubin>::For(real);
  if (IsJitLinkCall(name, "nvJitLinkAddData")) return Forms<&AddDataTo>::For(real);
  if (IsJitLinkCall(name, "nvJitLinkAddFile")) return Forms<&AddFileTo>::For(real);
  if (IsJitLinkCall(name, "nvJitLinkGetLinkedCubin")) return Forms<&GetLinked>::For(real);
  if (IsJitLinkCall(name, "nvJitLinkDestroy")) return Forms<&DestroyLink>::For(real);
  return nullptr;
}

}  // namespace cupola::intercept
