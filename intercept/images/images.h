// Images: the modules and libraries of the program that have a bundle in the variant store, and the
// libraries that Cupola loads beside them. From one bundle there are two such libraries: the side module,
// with the preemptible and sliced variants, and the task module, with a MasterKernel that has the tasks'
// bodies (device/compiler/store/bundle.h). It also tells which variant the handle of a kernel has. The
// hooks of load calls register images, whose bundle is looked for then (entry/module_events.h). A library
// beside an image is loaded when a context first wants it. Its table `cupola_variables` is then filled
// with the addresses that the program's own module variables have in that context, since the variants
// use these variables. FindVariant is lock-free. FunctionBeside needs ImagesMutex held; all other
// functions take it themselves, and may wait for the device. Any thread.
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

/// A library of ours beside an image of the program. kFailed: it could not be loaded, or the image was unloaded, and
/// the library, if it was loaded, now rests (resting_libraries.h). In both cases it is not loaded again.
struct BesideLibrary {
  enum class State : uint8_t { kNotLoaded, kLoaded, kFailed } state = State::kNotLoaded;
  CUlibrary library = nullptr;
  std::vector<CUcontext> filled;  ///< contexts in which its cupola_variables is filled
};

/// A module or library of the program that has a bundle. After it is unloaded the Image stays for a while, because a
/// thread may just have looked up one of its kernels. It is freed when some time has passed and nothing uses it any
/// more: no launch slot and no engine (image_to_be_freed asks them). Its bundle is unmapped with the last image that
/// has it.
struct Image {
  const void* owner = nullptr;  ///< CUlibrary or CUmodule
  bool is_library = false;
  CUcontext context = nullptr;  ///< the context of a module
  std::shared_ptr<const store::MappedBundle> mapped;  ///< null: `bundle` is from CUPOLA_BUNDLE
  store::BundleView bundle;
  BesideLibrary beside[store::kImageKinds];  ///< by store::ImageKind
  std::unordered_map<const store::KernelEntry*, Variant*> variants;  ///< owned
  std::vector<const void*> handles;  ///< CUfunctions and CUkernels of its kernels
};

/// Announced for an image that was unloaded, before it is freed: a subscriber that still refers to the image sets
/// `*is_named`, and the image stays for a while more. Announced under ImagesMutex, so a subscriber must not wait for a
/// lock under which others take that mutex.
extern Event<const Image&, bool*> image_to_be_freed;

/// Announced when images that had no bundle have got one (LookForBundles). Under ImagesMutex.
extern Event<> variants_came;

/// Held around everything that changes an image or its variants.
pthread_mutex_t& ImagesMutex() noexcept;

/// Opens the store. Called when the driver has been opened; later calls do nothing.
void OpenVariantStore() noexcept;

/// Whether there may be any bundles.
bool HasVariantStore() noexcept;

/// Whether an earlier run of this program left a note of that name in the store. A program is its
/// executable and, if that is an interpreter, the script that it runs. False if there is no store.
bool HasProgramNote(const char* name) noexcept;
/// Leaves a note for later runs; does nothing if it cannot be kept. Allocates.
void LeaveProgramNote(const char* name) noexcept;

/// An image was loaded: looks for its bundle. `owner` is a CUlibrary (`is_library`) or CUmodule,
/// `image` what the program gave, `context` the context of a module.
void RegisterImage(const void* owner, bool is_library, const void* image, CUcontext context) noexcept;
/// The same for an image that was loaded from the file `path`, which was as `before` says right before the load.
void RegisterImageFile(const void* owner, bool is_library, const char* path, const FileFacts& before,
                   CUcontext context) noexcept;
/// The program got the handle `function` from `owner` under `name`.
void RegisterKernel(const void* function, const void* owner, const char* name) noexcept;
/// `alias` is another handle of the kernel `function`.
void RegisterKernelAlias(const void* alias, const void* function) noexcept;
/// The image is about to be unloaded; none of its launches is outstanding. Forgets its handles. The libraries beside it
/// stay loaded for the next image with the same bundle (resting_libraries.h).
void ForgetImage(const void* owner) noexcept;
/// The context may be about to end: forgets its modules for good, even if it goes on, and the variants that were
/// prepared for `prepared_in` (PreparedVariant::context; null: none).
void ForgetImagesOf(CUcontext context, const void* prepared_in) noexcept;

/// The program has set the limit of dynamic shared memory of a kernel, `below` - 1 bytes, or has given it clusters, `below`
/// = 0: keeps that (Variant::shared_below).
void NoteSharedBelow(const void* function, uint64_t below) noexcept;

/// Looks in the store for bundles of images that had none when they were loaded, if the store has changed since the last
/// time. Launches made from then on may use their variants. Reads files; no driver call. (late_bundles.h calls it.)
void LookForBundles() noexcept;

/// The variant of a CUfunction or CUkernel, or null. Lock-free.
Variant* FindVariant(const void* function) noexcept;

/// The kernel `name` of the library beside an image, in `context`, which is current. Loads the library
/// at first, and fills its cupola_variables by a copy on `stream`, which it waits for. Null if it cannot
/// be used. The caller holds ImagesMutex.
CUfunction FunctionBeside(Image* image, store::ImageKind kind, CUcontext context, CUstream stream,
                          const std::string& name) noexcept;

/// In the child after a fork: forgets all images and opens the store anew.
void ForgetImagesAfterFork() noexcept;

}  // namespace cupola::intercept
