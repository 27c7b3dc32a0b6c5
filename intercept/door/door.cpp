// Decides what dlopen opens and where dlsym looks, so that a program that asks for the driver gets "the library":
// libcupola/libcuda.so.1, which takes the driver's place (process/door.h). entry.S calls it, on the program's threads,
// and then jumps to the next dlopen or dlsym with what is answered here. Before the program's first dlopen or dlsym the
// door loads nothing, and runs only its one constructor, which makes one system call. It has no thread-local memory.
// The object must load under any C library, musl's too: its undefined symbols are those that all of them have, and the
// others are weak (tests/preload/library_test.py).
#include "intercept/process/door.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "intercept/door/compile_calls.h"
#include "intercept/door/driver_image.h"
#include "intercept/door/next_in_order.h"
#include "intercept/process/driver_search.h"
#include "intercept/process/notice.h"
#include "intercept/process/own_stack.h"

// These bind to the oldest version, which every glibc has: with the newest the door would not load under older ones.
__asm__(".symver dladdr,dladdr@GLIBC_2.2.5");
__asm__(".symver dlclose,dlclose@GLIBC_2.2.5");
__asm__(".symver dlerror,dlerror@GLIBC_2.2.5");
__asm__(".symver dladdr1,dladdr1@GLIBC_2.3.3");
__asm__(".symver dlinfo,dlinfo@GLIBC_2.3.3");

extern "C" {

// Only glibc has these.
int dladdr1(const void* address, Dl_info* info, void** extra, int flags) noexcept __attribute__((weak));
int dlinfo(void* handle, int request, void* data) noexcept __attribute__((weak));

// AddressSanitizer's shared runtime ends a program in which another library comes before it, since that
// could hide functions which the sanitizer has to see. The door hides nothing: its two functions call the
// next ones, which are the sanitizer's. The runtime asks for its options here unless the program itself
// defines this function; `cupola run` sets the same option in ASAN_OPTIONS.
// https://github.com/google/sanitizers/wiki/AddressSanitizerFlags
__attribute__((visibility("default"))) const char* __asan_default_options() {  // NOLINT: its name
  return "verify_asan_link_order=0";
}
}

namespace cupola::intercept {
namespace {

// Its address stands for the library's handle before the library is loaded: no handle equals it.
char no_handle;

// cupola_handle_for of the library (process/door.h); null until OpenLibrary has loaded it.
void* (*handle_for)(void* own, const char* name) noexcept = nullptr;

void* FindNothing() { return nullptr; }

}  // namespace

// For entry.S: the dlopen and dlsym to jump to, and the library's handle, whose dlsym calls come here.
extern "C" {
__attribute__((visibility("hidden"))) void* cupola_next_dlopen = nullptr;
__attribute__((visibility("hidden"))) void* cupola_next_dlsym = nullptr;
__attribute__((visibility("hidden"))) void* cupola_own_handle = &no_handle;
}

namespace {

// Finds the next dlopen and dlsym. Two threads that do so at the same time find the same.
void FindNext() {
  if (__atomic_load_n(&cupola_next_dlsym, __ATOMIC_ACQUIRE) != nullptr) return;
  void* open = NextInOrder("dlopen");
  void* find = NextInOrder("dlsym");
  // The door does not understand this loader: both fail as a loader's would.
  if (open == nullptr || find == nullptr) open = find = reinterpret_cast<void*>(&FindNothing);
  __atomic_store_n(&cupola_next_dlopen, open, __ATOMIC_RELEASE);
  __atomic_store_n(&cupola_next_dlsym, find, __ATOMIC_RELEASE);
}

void* NextDlopen(const char* file, int mode) {
  return reinterpret_cast<decltype(&dlopen)>(cupola_next_dlopen)(file, mode);
}

void* OpenBehind(const char* file, int mode) {
  FindNext();
  return NextDlopen(file, mode);
}

void* FindBehind(void* handle, const char* name) {
  FindNext();
  return reinterpret_cast<decltype(&dlsym)>(cupola_next_dlsym)(handle, name);
}

const char* LastPart(const char* path) {
  const char* const slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

// "libcuda.so", "libcuda.so.1", "libcuda.so.580.159.04", with or without folders.
bool HasDriversName(const char* file) {
  constexpr char kStem[] = "libcuda.so";
  constexpr size_t kBytes = sizeof(kStem) - 1;
  const char* const name = LastPart(file);
  return strncmp(name, kStem, kBytes) == 0 && (name[kBytes] == '\0' || name[kBytes] == '.');
}

// Whether the caller is part of the driver. The driver and its helpers may open one another by name, and
// the library behind the door opens the driver: they must not get the library (WSL's libcuda.so.1 opens
// libcuda.so.1.1, for instance).
bool IsDriversOwn(const void* caller) {
  Dl_info object;
  if (dladdr(const_cast<void*>(caller), &object) == 0 || object.dli_fname == nullptr) return false;
  const char* const name = LastPart(object.dli_fname);
  if (strncmp(name, "libnvidia-", 10) == 0 || strncmp(name, "libdxcore.so", 12) == 0) return true;
  return HasDriversName(name) && KindOfImage(object.dli_fname) == ImageKind::kDriver;
}

// The path of the library behind the door: "/x/libcupola.so" has "/x/libcupola/libcuda.so.1". Returns
// false when it is too long or the door does not know its own.
bool MakeLibraryPath(char (&path)[kPathBytes]) {
  const char* const own = OwnPath();
  constexpr char kSuffix[] = ".so", kRest[] = "/libcuda.so.1";
  if (own == nullptr || realpath(own, path) == nullptr) return false;
  size_t length = strlen(path);
  if (length > sizeof(kSuffix) - 1 && strcmp(path + length - (sizeof(kSuffix) - 1), kSuffix) == 0) {
    length -= sizeof(kSuffix) - 1;
  }
  if (length + sizeof(kRest) > sizeof(path)) return false;
  strcpy(path + length, kRest);
  return true;
}

// A path that a dlopen reads after the function here has returned, perhaps while another thread's dlopen
// does. So it is written once and never again.
struct KeptPath {
  char text[kPathBytes] = {};
  std::atomic<int> state{0};  // 0 = none, 1 = being written, 2 = valid

  const char* Get() const { return state.load(std::memory_order_acquire) == 2 ? text : nullptr; }
  const char* Keep(const char* path) {
    int none = 0;
    if (strlen(path) < sizeof(text) && state.compare_exchange_strong(none, 1)) {
      strcpy(text, path);
      state.store(2, std::memory_order_release);
    }
    // Another thread is writing and soon done. The wait is bounded, because in a child that was forked
    // meanwhile the other thread does not exist.
    for (int i = 0; i < 10'000 && state.load(std::memory_order_relaxed) == 1; ++i) {
      if (i < 100) {
        __builtin_ia32_pause();
      } else {
        sched_yield();
      }
    }
    return Get();
  }
};

constinit KeptPath library_path, driver_path, plug_in_path;

const char* LibraryPath() {
  if (const char* known = library_path.Get()) return known;
  char path[kPathBytes];
  return MakeLibraryPath(path) ? library_path.Keep(path) : nullptr;
}

// The first absolute path by which the program asked for the driver before the library was loaded; null if there was
// none. The library reads it too, in its search for the driver.
const char* AskedPath() {
  return cupola_door.asked_state.load(std::memory_order_acquire) == 2 ? cupola_door.asked_path : nullptr;
}

void RememberAskedPath(const char* file) {
  int none = 0;
  if (file[0] != '/' || strlen(file) >= sizeof(cupola_door.asked_path)) return;
  if (!cupola_door.asked_state.compare_exchange_strong(none, 1)) return;
  strcpy(cupola_door.asked_path, file);
  cupola_door.asked_state.store(2, std::memory_order_release);
}

// What dlopen(file) of a caller, for a file without a folder, would find in the folders that it searches:
// the caller's RPATH or RUNPATH, LD_LIBRARY_PATH, and the usual ones. The library's own folder is left out.
// Returns kNone when nothing is there: then the linker's cache, if anything, has it. Sets `path` to what was
// found.
ImageKind FindInFolders(const char* file, const void* caller, const char* library, char (&path)[kPathBytes]) {
  Dl_info object;
  link_map* map = nullptr;
  if (&dladdr1 == nullptr || &dlinfo == nullptr ||
      dladdr1(caller, &object, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) {
    return ImageKind::kNone;
  }
  Dl_serinfo size;
  if (dlinfo(map, RTLD_DI_SERINFOSIZE, &size) != 0) return ImageKind::kNone;
  void* const memory = mmap(nullptr, size.dls_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return ImageKind::kNone;
  auto* const folders = static_cast<Dl_serinfo*>(memory);
  *folders = size;
  ImageKind kind = ImageKind::kNone;
  if (dlinfo(map, RTLD_DI_SERINFO, folders) == 0) {
    for (unsigned i = 0; i < folders->dls_cnt && kind == ImageKind::kNone; ++i) {
      const int bytes = snprintf(path, sizeof(path), "%s/%s", folders->dls_serpath[i].dls_name, file);
      if (bytes <= 0 || static_cast<size_t>(bytes) >= sizeof(path) || IsSameFile(path, library)) continue;
      kind = KindOfImage(path);
    }
  }
  munmap(memory, size.dls_size);
  return kind;
}

// For ForEachDriver: takes the first file that may be the driver.
bool UseFirst(const char* path, void* result) {
  *static_cast<const char**>(result) = driver_path.Keep(path);
  return true;
}

// Whether an object of this name is loaded already.
bool IsLoaded(const char* file) {
  void* const handle = NextDlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

// Says so if the program runs without Cupola because it is linked with the driver and the dynamic linker did
// not find the library in the driver's place.
void SayIfDriver(const char* file) {
  void* const handle = NextDlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr && FindBehind(handle, "cuInit") != nullptr) {
    static constinit std::atomic_flag said;
    SayOnce(said, Level::kWarn, {"the program runs without Cupola: the driver was loaded with it; LD_LIBRARY_PATH "
                                 "has to begin with the folder of ", LibraryPath()});
  }
  if (handle != nullptr) dlclose(handle);
}

// Loads the library, and learns its handle and its cupola_handle_for. Returns what the program's dlopen is to open: the
// library; or, if it cannot be loaded, the driver, or else `file`.
const char* OpenLibrary(const char* library, const char* file) {
  void* const handle = NextDlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    static constinit std::atomic_flag said;
    SayOnce(said, Level::kWarn, {"the program runs without Cupola: cannot load ", library, ": ",
                                 why != nullptr ? why : "?"});
    const char* driver = nullptr;
    return ForEachDriver(AskedPath(), &UseFirst, &driver) && driver != nullptr ? driver : file;
  }
  auto* const found = reinterpret_cast<decltype(handle_for)>(FindBehind(handle, "cupola_handle_for"));
  __atomic_store_n(&handle_for, found, __ATOMIC_RELEASE);
  // In glibc and musl all callers get the same handle of an object. This one is never closed.
  if (found != nullptr) __atomic_store_n(&cupola_own_handle, handle, __ATOMIC_RELEASE);
  return library;
}

// The plug-in's full path, for a file without a folder: with the name alone the dynamic linker might find the
// library in LD_LIBRARY_PATH first.
const char* PlugIn(const char* file, const char* path) {
  const char* const kept = plug_in_path.Keep(path);
  return kept != nullptr && IsSameFile(kept, path) ? kept : file;
}

// What dlopen is to open when `caller` asks for `file`, which has the driver's name: the library, or `file` itself if
// the program means something else. That is so if the caller is part of the driver, if the file is a plug-in of the
// driver's name, or if an object of that name was loaded before the library, in a way that did not pass here: then the
// program goes on with it.
const char* Answer(const char* file, int mode, const void* caller) {
  const char* const library = LibraryPath();
  if (library == nullptr || IsDriversOwn(caller)) return file;
  LeaveOutDriver(library);
  const bool is_loaded = IsLoaded(library);
  if (!is_loaded && IsLoaded(file)) {
    SayIfDriver(file);
    return file;
  }
  if (strchr(file, '/') != nullptr) {
    if (KindOfImage(file) != ImageKind::kDriver) return file;
  } else if (!is_loaded || strcmp(file, "libcuda.so.1") != 0) {
    char path[kPathBytes];
    if (FindInFolders(file, caller, library, path) == ImageKind::kOther) return PlugIn(file, path);
  }
  if (!is_loaded) {
    if ((mode & RTLD_NOLOAD) != 0) return library;  // it is not loaded, so dlopen fails
    RememberAskedPath(file);
    // Without a driver the program must see dlopen fail, as it would without Cupola.
    if (!HasDriver(AskedPath())) return "libcuda.so.1 (no CUDA driver found)";
  }
  return OpenLibrary(library, file);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) DoorFacts cupola_door = {&OpenBehind, &FindBehind, {}, 0, {}, false};

// Makes one system call.
__attribute__((constructor)) static void NoteStandardError() {
  const FileIdentity now = IdentityOf(STDERR_FILENO);
  TakeStandardError(now);
  cupola_door.standard_error = now;
  cupola_door.is_noted.store(true, std::memory_order_release);
}

/// What dlopen should open when `caller` asks for `file`; called by entry.S.
__attribute__((visibility("hidden"))) const char* cupola_dlopen_name(const char* file, int mode,
                                                                     const void* caller) noexcept {
  FindNext();
  if (file == nullptr || !HasDriversName(file)) return file;
  const char* answer = file;
  auto work = [&] { answer = Answer(file, mode, caller); };
  RunOnOwnStack(work);
  return answer;
}

/// What dlsym is to do, in the two registers of a result.
struct DlsymAnswer {
  void* handle;  ///< where to search
  void* found;   ///< the answer itself; null: it is to search
};

/// What dlsym does when the program gave `handle`; called by entry.S.
__attribute__((visibility("hidden"))) DlsymAnswer cupola_dlsym_answer(void* handle, const char* name) noexcept {
  FindNext();
  if (name == nullptr) return {handle, nullptr};
  if (handle == cupola_own_handle) return {__atomic_load_n(&handle_for, __ATOMIC_ACQUIRE)(handle, name), nullptr};
  if (!MayBeCompileCall(name)) return {handle, nullptr};
  // Our own nvrtcGetCUBIN comes first in that order; RTLD_NEXT is the order behind it.
  if (handle == RTLD_DEFAULT) return {RTLD_NEXT, nullptr};
  if (handle == RTLD_NEXT) return {handle, nullptr};
  void* const real = FindBehind(handle, name);
  return {handle, real != nullptr ? CompileCall(name, real) : nullptr};
}

}  // extern "C"
}  // namespace cupola::intercept
