// Images: modules and libraries of the program that have a bundle in the variant store, the
// libraries that are loaded beside them (side modules, task modules), and whose kernel a handle is.
// Bundles are found when an image is loaded; what is beside it is loaded, and its
// `cupola_variables` filled, when a context first wants it. Look-up of a handle is lock-free;
// everything else takes a mutex and may wait for the device. Thread-safe.
#pragma once

#include <cuda.h>
#include <pthread.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/compiler/store/variant_store.h"
#include "intercept/images/image_file.h"
#include "intercept/process/event.h"

namespace cupola::intercept {

struct Variant;

/// A library of ours beside an image of the program.
struct BesideLibrary {
  enum class State : uint8_t { kNotLoaded, kLoaded, kFailed } state = State::kNotLoaded;
  CUlibrary library = nullptr;
  std::vector<CUcontext> filled;  ///< whose cupola_variables are set
};

/// A module or library of the program that has a bundle. When it is unloaded it stays for a while: a thread may
/// just have looked up one of its kernels. It is freed, and its bundle unmapped with the last image that has it,
/// when no launch slot and no engine names it any more, and some time has passed.
struct Image {
  const void* owner = nullptr;
  bool is_library = false;
  CUcontext context = nullptr;  ///< of a module
  std::shared_ptr<const store::MappedBundle> mapped;  ///< null: `bundle` is of CUPOLA_BUNDLE
  store::BundleView bundle;
  BesideLibrary beside[store::kImageKinds];  ///< by store::ImageKind
  std::unordered_map<const store::KernelEntry*, Variant*> variants;
  std::vector<const void*> handles;
};

/// Announced of an image that was unloaded, before it is freed: who names it still sets `*is_named`. Under ImagesMutex,
/// so without a lock that is held while that is taken.
extern Event<const Image&, bool*> image_to_be_freed;

/// Held around all that changes an image or its variants.
pthread_mutex_t& ImagesMutex() noexcept;

/// Opens the store; called once, when the driver has been opened.
void OpenVariantStore() noexcept;

/// Whether there may be bundles at all.
bool HasVariantStore() noexcept;

/// A note about this program, the executable and, where that is an interpreter, what it runs, from an
/// earlier run to later ones: kept in the store. False where there is none, or no store.
bool HasProgramNote(const char* name) noexcept;
/// Leaves one; nothing where it cannot be kept. Allocates.
void LeaveProgramNote(const char* name) noexcept;

/// An image was loaded: `owner` is a CUlibrary or CUmodule (`is_library`), `image` what the program
/// gave, `context` the module's context. Looks for its bundle.
void NoteImage(const void* owner, bool is_library, const void* image, CUcontext context) noexcept;
/// The same for an image that came from the file `path`, which was as `before` says right before.
void NoteImageFile(const void* owner, bool is_library, const char* path, const FileFacts& before,
                   CUcontext context) noexcept;
/// `function` was got from `owner` under `name`.
void NoteKernel(const void* function, const void* owner, const char* name) noexcept;
void NoteAlias(const void* alias, const void* function) noexcept;
/// About to be unloaded, with nothing of it outstanding.
void ForgetImage(const void* owner) noexcept;
/// The context is about to end: its modules go, and what was prepared in it (PreparedVariant::context; null: nothing).
void ForgetImagesOf(CUcontext context, const void* prepared_in) noexcept;

/// The variant of a CUfunction or CUkernel, or null. Lock-free.
Variant* FindVariant(const void* function) noexcept;

/// A kernel of the library beside an image, in the current context, whose variables are copied on
/// `stream` of that context; null where it cannot be used. Under ImagesMutex.
CUfunction FunctionBeside(Image* image, store::ImageKind kind, CUcontext context, CUstream stream,
                          const std::string& name) noexcept;

void ForgetImagesAfterFork() noexcept;

}  // namespace cupola::intercept
