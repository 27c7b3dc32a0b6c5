#include "intercept/images/images.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>
#include <optional>
#include <utility>

#include "base/settings/variables.h"
#include "device/compiler/store/image_identity.h"
#include "device/compiler/store/sha256.h"
#include "intercept/images/beside_library.h"
#include "intercept/images/late_bundles.h"
#include "intercept/images/resting_libraries.h"
#include "intercept/images/unbuilt_images.h"
#include "intercept/images/variant.h"
#include "intercept/process/compiled_folder.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/own_stack.h"
#include "intercept/process/participation.h"

namespace cupola::intercept {

Event<const Image&, bool*> image_to_be_freed;
Event<> variants_came;

namespace {

/// An image that was unloaded and is not freed yet.
struct RetiredImage {
  Image* image;
  uint64_t since_ns;
};

// What this file keeps, under `images_mutex`. Made when the store is opened and never destroyed: threads may launch while the
// process exits. A function whose name ends in Locked is called with the mutex held.
struct Images {
  std::optional<store::VariantStore> store;
  std::unordered_map<const void*, Image*> by_owner;  // images that are loaded, by CUlibrary or CUmodule
  std::unordered_map<std::string, std::weak_ptr<const store::MappedBundle>> bundles;  // by the bundle's key
  std::deque<RetiredImage> retired;  // the oldest first
  RestingLibraries resting;
  UnbuiltImages unbuilt;
  uint64_t store_changed_ns = 0;  // VariantStore::ChangedNs when the store was last searched for them
  bool is_search_due = false;     // they are to be searched for once more
  std::string file;  // CUPOLA_BUNDLE
  std::span<const std::byte> file_bytes;  // the bundle that CUPOLA_BUNDLE names, which then serves every image
};

pthread_mutex_t images_mutex = PTHREAD_MUTEX_INITIALIZER;  // ImagesMutex
Images* images = nullptr;                           // null until the store is opened
HandleMap by_function;  // CUfunction or CUkernel -> Variant*

// How long an unloaded image stays at least; the shorter time applies if there are many. A launch that has looked up
// one of its kernels is over in microseconds, unless the program unloads at the same time what it launches.
constexpr uint64_t kRestNs = 1'000'000'000;
constexpr uint64_t kShortRestNs = 100'000'000;
constexpr size_t kManyRetired = 256;

std::span<const std::byte> MapFile(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat facts {};
  if (fd < 0) return {};
  void* memory =
      fstat(fd, &facts) == 0 && facts.st_size > 0
          ? mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, fd, 0)
          : MAP_FAILED;
  close(fd);
  if (memory == MAP_FAILED) return {};
  return {static_cast<const std::byte*>(memory), static_cast<size_t>(facts.st_size)};
}

// Finds the bundle of an image, in CUPOLA_BUNDLE or in the store, where `find` looks for it.
template <typename Find>
bool FindBundleLocked(Find&& find, Image* image) {
  if (!images->file_bytes.empty()) {
    auto view = store::BundleView::Open(images->file_bytes);
    if (!view) {
      Say(Level::kWarn, {"CUPOLA_BUNDLE: ", view.error().message});
      return false;
    }
    image->bundle = *view;
    return true;
  }
  if (!images->store) return false;
  auto found = find(*images->store);
  if (!found) {
    if (found.error().code != ErrorCode::kNotFound) {
      Say(Level::kWarn, {"a bundle is not used: ", found.error().ToString()});
    }
    return false;
  }
  // All images with this bundle share one mapping.
  std::weak_ptr<const store::MappedBundle>& known = images->bundles[found->key()];
  image->mapped = known.lock();
  if (image->mapped == nullptr) {
    image->mapped = std::make_shared<const store::MappedBundle>(*std::move(found));
    known = image->mapped;
  }
  image->bundle = image->mapped->view();
  return true;
}

// The key under which libraries of an image rest. All images have the same bundle, and so one key, with CUPOLA_BUNDLE.
std::string KeyOf(const Image& image) { return image.mapped != nullptr ? image.mapped->key() : ""; }

// `model` is `history` itself where there is no plan (MakeModel in launch/launch_prediction.h).
void FreeVariant(Variant* variant) {
  if (variant->model != variant->history) delete variant->model;
  delete variant->history;
  delete variant;
}

void ForgetPrepared(Variant* variant, const void* prepared_in) {
  for (PreparedVariant& prepared : variant->prepared) {
    const void* expected = prepared_in;
    prepared.context.compare_exchange_strong(expected, nullptr);
  }
}

// Leaves the libraries beside an image to the next image with the same bundle. Nothing of them is outstanding.
void RestLibrariesLocked(Image* image) {
  for (const store::ImageKind kind : {store::ImageKind::kSide, store::ImageKind::kTasks}) {
    BesideLibrary& beside = image->beside[static_cast<size_t>(kind)];
    if (beside.state == BesideLibrary::State::kLoaded) {
      images->resting.Put(KeyOf(*image), kind, beside.library, image->bundle.cubin(kind).size());
    }
    beside.state = BesideLibrary::State::kFailed;
  }
}

// The libraries beside it rest already, unless no hook saw the image being unloaded: launches of it may then have been
// outstanding when it was retired, and are not any more.
void FreeImageLocked(Image* image) {
  RestLibrariesLocked(image);
  for (const auto& [entry, variant] : image->variants) FreeVariant(variant);
  if (image->mapped != nullptr && image->mapped.use_count() == 1) {
    images->bundles.erase(image->mapped->key());
  }
  delete image;
}

bool IsNamed(const Image& image) {
  bool is_named = false;
  image_to_be_freed.Announce(image, &is_named);
  return is_named;
}

// Frees retired images whose time is over, the oldest first. One that is still named waits for another such time.
void FreeRetiredLocked() {
  const uint64_t now = MonotonicNs();
  for (size_t left = images->retired.size(); left != 0; --left) {
    const RetiredImage oldest = images->retired.front();
    const bool are_many = images->retired.size() > kManyRetired;
    if (now - oldest.since_ns < (are_many ? kShortRestNs : kRestNs)) return;
    images->retired.pop_front();
    if (IsNamed(*oldest.image)) {
      images->retired.push_back({oldest.image, now});
    } else {
      FreeImageLocked(oldest.image);
    }
  }
}

// Forgets the handles of an image that was unloaded, and puts it among the retired ones.
void RetireLocked(Image* image) {
  for (const void* handle : image->handles) {
    const auto* const variant = reinterpret_cast<Variant*>(by_function.Find(handle, 0));
    if (variant != nullptr && variant->image == image) by_function.Erase(handle);
  }
  RaiseLaunchEpoch();
  images->retired.push_back({image, MonotonicNs()});
}

// The Variant of the image's kernel `name`, made at the first call; null if the bundle has no other form of the kernel.
Variant* VariantOfLocked(Image* image, const char* name) {
  const store::KernelEntry* entry = image->bundle.Find(name);
  constexpr uint32_t kForms = store::kPreemptible | store::kSliced | store::kTask;
  if (entry == nullptr || (entry->flags & kForms) == 0) return nullptr;
  const auto known = image->variants.find(entry);
  if (known != image->variants.end()) return known->second;
  auto* made = new (std::nothrow) Variant;
  if (made == nullptr) return nullptr;
  made->image = image;
  made->entry = entry;
  made->parameters = image->bundle.parameters(*entry).data();
  made->name = image->bundle.Text(entry->name_offset);
  image->variants.emplace(entry, made);
  return made;
}

// Makes `function` a handle of the variant's kernel. A handle of an earlier image may come again for this one.
void BindLocked(Image* image, const void* function, Variant* variant) {
  const auto* const before = reinterpret_cast<Variant*>(by_function.Find(function, 0));
  if (before == nullptr || before->image != image) image->handles.push_back(function);
  by_function.Set(function, reinterpret_cast<uint64_t>(variant));
}

// Adds an image that has a bundle.
Image* AddImageLocked(Image&& found, const void* owner, bool is_library, CUcontext context) {
  auto* const image = new (std::nothrow) Image(std::move(found));
  if (image == nullptr) return nullptr;
  image->owner = owner;
  image->is_library = is_library;
  image->context = is_library ? nullptr : context;
  Image*& known = images->by_owner[owner];
  if (known != nullptr) RetireLocked(known);  // no hook saw the earlier image being unloaded
  known = image;
  return image;
}

// The bundle of an image may be built while the program runs.
void AwaitBundleLocked(const void* owner, bool is_library, CUcontext context, std::span<const std::byte> bytes) {
  if (!images->store || !UnbuiltImages::IsWanted(bytes)) return;
  images->unbuilt.Add(owner, is_library, context, bytes);
  const bool is_ptx = bytes[0] != std::byte{0x7F};
  auto keep = [bytes] { KeepCompiled({}, bytes); };
  if (is_ptx) RunOnOwnStack(keep);
  StartLookingForBundles();
}

// Adds an image that was just loaded, if `find` finds its bundle. `bytes` are those of store::IdentityBytes.
template <typename Find>
void RegisterFound(const void* owner, bool is_library, CUcontext context, std::span<const std::byte> bytes, Find&& find) {
  const MutexLock lock(images_mutex);
  if (images == nullptr) return;
  if (!images->retired.empty()) FreeRetiredLocked();
  images->unbuilt.Remove(owner);  // if no hook saw an earlier image being unloaded
  Image found;
  if (!FindBundleLocked(find, &found)) return AwaitBundleLocked(owner, is_library, context, bytes);
  (void)AddImageLocked(std::move(found), owner, is_library, context);
}

}  // namespace

pthread_mutex_t& ImagesMutex() noexcept { return images_mutex; }

void OpenVariantStore() noexcept {
  const MutexLock lock(images_mutex);
  if (images != nullptr) return;
  images = new Images;
  if (const char* file = settings::TextIfAny("CUPOLA_BUNDLE")) {
    images->file_bytes = MapFile(file);
    if (images->file_bytes.empty()) Say(Level::kWarn, {"CUPOLA_BUNDLE: cannot read ", file});
    return;
  }
  auto store = store::VariantStore::Open(store::VariantStore::DefaultFolder());
  if (store) {
    images->store.emplace(*std::move(store));
  } else if (store.error().code != ErrorCode::kNotFound) {
    Say(Level::kWarn, {"no variants: ", store.error().message});
  }
}

bool HasVariantStore() noexcept {
  const MutexLock lock(images_mutex);
  return images != nullptr && (images->store || !images->file_bytes.empty());
}

namespace {

// The file name of a note. It hashes the executable and the first argument, if that is no option: it may
// be the script of an interpreter.
std::string ProgramNoteName(const char* name) {
  char path[4096] = {};
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length <= 0) return {};
  store::Sha256 hash;
  hash.Add(std::string_view(path, static_cast<size_t>(length)));
  char words[4096] = {};
  const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    const ssize_t bytes = read(fd, words, sizeof(words) - 2);
    close(fd);
    const char* const first = words + strlen(words) + 1;
    if (bytes > first - words && *first != '-') hash.Add(std::string_view(first, strlen(first) + 1));
  }
  const store::Digest digest = hash.Finish();
  return std::string(name) + "-" + store::HexOf(std::span(digest).first(16));
}

}  // namespace

bool HasProgramNote(const char* name) noexcept {
  const MutexLock lock(images_mutex);
  return images != nullptr && images->store && images->store->HasNote(ProgramNoteName(name));
}

void LeaveProgramNote(const char* name) noexcept {
  const MutexLock lock(images_mutex);
  if (images == nullptr || !images->store) return;
  const std::string file = ProgramNoteName(name);
  if (!file.empty() && !images->store->HasNote(file)) (void)images->store->AddNote(file);
}

void RegisterImage(const void* owner, bool is_library, const void* bytes, CUcontext context) noexcept {
  if (owner == nullptr || bytes == nullptr) return;
  RegisterFound(owner, is_library, context, store::IdentityBytes(bytes),
            [bytes](const store::VariantStore& found) {
              return found.FindForImage(bytes, store::kLoadedArch);
            });
}

void RegisterImageFile(const void* owner, bool is_library, const char* path, const FileFacts& before,
                   CUcontext context) noexcept {
  if (owner == nullptr) return;
  const FileContents file = ReadUnchangedFile(path, before);
  if (file.size == 0) return;
  RegisterFound(owner, is_library, context, store::IdentityOfFile(file.bytes()), [&file](const store::VariantStore& found) {
    return found.FindForFile(file.bytes(), store::kLoadedArch);
  });
}

void RegisterKernel(const void* function, const void* owner, const char* name) noexcept {
  if (function == nullptr || name == nullptr) return;
  const MutexLock lock(images_mutex);
  if (images == nullptr) return;
  const auto found = images->by_owner.find(owner);
  if (found == images->by_owner.end()) return images->unbuilt.AddKernel(owner, function, name);
  Variant* const variant = VariantOfLocked(found->second, name);
  if (variant != nullptr) BindLocked(found->second, function, variant);
}

void RegisterKernelAlias(const void* alias, const void* function) noexcept {
  if (alias == nullptr) return;
  const MutexLock lock(images_mutex);
  Variant* const variant = FindVariant(function);
  if (variant == nullptr) {
    if (images != nullptr) images->unbuilt.AddAlias(alias, function);
    return;
  }
  BindLocked(variant->image, alias, variant);
}

void ForgetImage(const void* owner) noexcept {
  const MutexLock lock(images_mutex);
  if (images == nullptr) return;
  images->unbuilt.Remove(owner);
  const auto found = images->by_owner.find(owner);
  if (found == images->by_owner.end()) return;
  Image* const image = found->second;
  images->by_owner.erase(found);
  RetireLocked(image);
  RestLibrariesLocked(image);
}

void ForgetImagesOf(CUcontext context, const void* prepared_in) noexcept {
  std::vector<const void*> owners;
  {
    const MutexLock lock(images_mutex);
    if (images == nullptr) return;
    images->unbuilt.RemoveOf(context);
    for (auto& [owner, image] : images->by_owner) {
      if (!image->is_library && image->context == context) owners.push_back(owner);
      for (BesideLibrary& beside : image->beside) std::erase(beside.filled, context);
      if (prepared_in == nullptr) continue;
      for (auto& [entry, variant] : image->variants) ForgetPrepared(variant, prepared_in);
    }
  }
  for (const void* owner : owners) ForgetImage(owner);
}

void NoteSharedBelow(const void* function, uint64_t below) noexcept {
  const MutexLock lock(images_mutex);
  Variant* const variant = FindVariant(function);
  UnbuiltKernel* const unbuilt = variant == nullptr && images != nullptr ? images->unbuilt.Find(function) : nullptr;
  if (unbuilt != nullptr && unbuilt->shared_below != 0) unbuilt->shared_below = below;
  if (variant == nullptr) return;
  const uint64_t before = variant->shared_below.load(std::memory_order_relaxed);
  if (before == 0 || before == below) return;
  variant->shared_below.store(below);
  RaiseLaunchEpoch();
}

void LookForBundles() noexcept {
  const MutexLock lock(images_mutex);
  if (images == nullptr || !images->store || images->unbuilt.IsEmpty()) return;
  // Of several changes within one tick of the file system's clock the last may come after the search that the first one
  // causes. So it is searched once more behind each change.
  const uint64_t changed_ns = images->store->ChangedNs();
  if (changed_ns == images->store_changed_ns && !images->is_search_due) return;
  images->is_search_due = changed_ns != images->store_changed_ns;
  images->store_changed_ns = changed_ns;
  Image found;
  bool have_come = false;
  const auto is_built = [&found](const UnbuiltImage& image) {
    return FindBundleLocked([&image](const store::VariantStore& in) { return in.FindByLink(image.link); }, &found);
  };
  images->unbuilt.TakeBuilt(is_built, [&](const UnbuiltImage& unbuilt) {
    Image* const image = AddImageLocked(std::exchange(found, {}), unbuilt.owner, unbuilt.is_library, unbuilt.context);
    for (const UnbuiltKernel& kernel : unbuilt.kernels) {
      Variant* const variant = image != nullptr ? VariantOfLocked(image, kernel.name.c_str()) : nullptr;
      if (variant == nullptr) continue;
      if (kernel.shared_below != UINT64_MAX) variant->shared_below.store(kernel.shared_below);
      BindLocked(image, kernel.function, variant);
    }
    RaiseLaunchEpoch();
    have_come = true;
  });
  if (have_come) variants_came.Announce();
}

Variant* FindVariant(const void* function) noexcept {
  return reinterpret_cast<Variant*>(by_function.Find(function, 0));
}

CUfunction FunctionBeside(Image* image, store::ImageKind kind, CUcontext context, CUstream stream,
                          const std::string& name) noexcept {
  return FunctionIn(&images->resting, KeyOf(*image), image, kind, context, stream, name);
}

void ForgetImagesAfterFork() noexcept {
  images_mutex = PTHREAD_MUTEX_INITIALIZER;
  by_function.ResetAfterFork();
  ForgetLookingAfterFork();
  images = nullptr;  // not freed: another thread of the parent may have been changing it
  OpenVariantStore();
}

}  // namespace cupola::intercept
