#include "intercept/preempt/variants.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/compiler/store/variant_store.h"
#include "intercept/handle_map.h"
#include "intercept/launch_path.h"
#include "intercept/mutex_lock.h"
#include "intercept/notice.h"
#include "intercept/preempt/carveout.h"
#include "intercept/preempt/driver_calls.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/preemption.h"

namespace cupola::intercept::preempt {

/// A module or library of the program that has a bundle, and its side library.
struct Image {
  const void* owner = nullptr;
  bool is_library = false;
  CUcontext context = nullptr;  // of a module
  store::MappedBundle mapped;
  store::BundleView bundle;
  enum class Side : uint8_t { kNotLoaded, kLoaded, kFailed } side = Side::kNotLoaded;
  CUlibrary side_library = nullptr;
  std::vector<PreemptContext*> filled;  // contexts whose cupola_variables are set
  std::unordered_map<const store::KernelEntry*, Variant*> variants;
  std::vector<const void*> handles;
};

namespace {

// Made at first use and never destroyed: threads may launch while the process exits.
struct Images {
  std::optional<store::VariantStore> store;
  std::unordered_map<const void*, Image*> by_owner;
  std::string file;  // CUPOLA_BUNDLE
  std::span<const std::byte> file_bytes;
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Images* images = nullptr;
HandleMap by_function;  // CUfunction or CUkernel -> Variant*

constexpr uint32_t kArch = 90;
constexpr uint32_t kUnknownWorkers = UINT32_MAX;
constexpr uint64_t kShapeFactor = 0x9e3779b97f4a7c15;  // odd; spreads sums over the high bits

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

// `find` looks for it in the store.
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
  image->mapped = *std::move(found);
  image->bundle = image->mapped.view();
  return true;
}

Variant* VariantOfLocked(Image* image, const char* name) {
  const store::KernelEntry* entry = image->bundle.Find(name);
  constexpr uint32_t kForms = store::kPreemptible | store::kSliced;
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

void BindLocked(Image* image, const void* function, Variant* variant) {
  image->handles.push_back(function);
  by_function.Set(function, reinterpret_cast<uint64_t>(variant));
}

// The driver's own form first; PTX for drivers that take no cubin.
bool LoadSide(Image* image) {
  if (image->side != Image::Side::kNotLoaded) return image->side == Image::Side::kLoaded;
  const auto load = CUPOLA_CALL_REAL(cuLibraryLoadData, PFN_cuLibraryLoadData_v12000);
  const std::span<const std::byte> cubin = image->bundle.cubin();
  CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  const bool only_ptx = getenv("CUPOLA_SIDE_PTX") != nullptr;
  if (!cubin.empty() && !only_ptx) {
    result = load(&image->side_library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  }
  if (result != CUDA_SUCCESS && image->bundle.ptx() != nullptr) {
    result =
        load(&image->side_library, image->bundle.ptx(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  }
  image->side = result == CUDA_SUCCESS ? Image::Side::kLoaded : Image::Side::kFailed;
  if (result != CUDA_SUCCESS) {
    Say(Level::kWarn, {"the driver does not load a side module: error ", Decimal(result)});
  }
  return result == CUDA_SUCCESS;
}

bool AddressOf(const Image& image, const char* name, bool is_managed, uint64_t* address) {
  CUdeviceptr found = 0;
  size_t bytes = 0;
  CUresult result;
  const auto library = static_cast<CUlibrary>(const_cast<void*>(image.owner));
  if (image.is_library && is_managed) {
    result = CUPOLA_CALL_REAL(cuLibraryGetManaged, PFN_cuLibraryGetManaged_v12000)(&found, &bytes,
                                                                                   library, name);
  } else if (image.is_library) {
    result = CUPOLA_CALL_REAL(cuLibraryGetGlobal, PFN_cuLibraryGetGlobal_v12000)(&found, &bytes,
                                                                                 library, name);
  } else {
    const auto owner = static_cast<CUmodule>(const_cast<void*>(image.owner));
    result = CUPOLA_CALL_REAL(cuModuleGetGlobal_v2, PFN_cuModuleGetGlobal_v3020)(&found, &bytes,
                                                                                 owner, name);
  }
  *address = found;
  return result == CUDA_SUCCESS;
}

// Fills cupola_variables of the current context.
bool FillVariables(Image* image, PreemptContext* context) {
  for (PreemptContext* filled : image->filled) {
    if (filled == context) return true;
  }
  const auto variables = image->bundle.variables();
  std::vector<uint64_t> addresses(variables.size());
  for (size_t i = 0; i < variables.size(); ++i) {
    const char* name = image->bundle.Text(variables[i].name_offset);
    const bool is_managed = (variables[i].flags & store::kManaged) != 0;
    if (!AddressOf(*image, name, is_managed, &addresses[i])) {
      Say(Level::kWarn, {"a side module is not used: no variable ", name});
      return false;
    }
  }
  if (!addresses.empty()) {
    CUdeviceptr table = 0;
    size_t bytes = 0;
    const auto find = CUPOLA_CALL_REAL(cuLibraryGetGlobal, PFN_cuLibraryGetGlobal_v12000);
    const auto copy = CUPOLA_CALL_REAL(cuMemcpyHtoDAsync_v2, PFN_cuMemcpyHtoDAsync_v3020);
    const auto wait = CUPOLA_CALL_REAL(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000);
    if (find(&table, &bytes, image->side_library, "cupola_variables") != CUDA_SUCCESS ||
        bytes < addresses.size() * sizeof(uint64_t) ||
        copy(table, addresses.data(), addresses.size() * sizeof(uint64_t), context->helpers[0]) !=
            CUDA_SUCCESS ||
        wait(context->helpers[0]) != CUDA_SUCCESS) {
      Say(Level::kWarn, {"a side module is not used: its table of variables cannot be filled"});
      return false;
    }
  }
  image->filled.push_back(context);
  return true;
}

CUfunction FunctionOf(Image* image, const Variant& variant, PreemptContext* context) {
  if (!LoadSide(image) || !FillVariables(image, context)) return nullptr;
  const std::string name =
      std::string(variant.name) + (variant.is_sliced ? "__cupola_sliced" : "__cupola_preemptible");
  const auto get_kernel = CUPOLA_CALL_REAL(cuLibraryGetKernel, PFN_cuLibraryGetKernel_v12000);
  const auto get_function = CUPOLA_CALL_REAL(cuKernelGetFunction, PFN_cuKernelGetFunction_v12000);
  const auto load = CUPOLA_CALL_REAL(cuFuncLoad, PFN_cuFuncLoad_v12040);
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  if (get_kernel(&kernel, image->side_library, name.c_str()) != CUDA_SUCCESS ||
      get_function(&function, kernel) != CUDA_SUCCESS) {
    Say(Level::kWarn, {"a side module has no ", name});
    return nullptr;
  }
  (void)load(function);  // older drivers lack it; the first launch then loads
  return function;
}

// The original in the current context. `program` may be a CUkernel, which only launches take.
CUfunction OriginalOf(const Variant& variant, const void* program) {
  if (!variant.image->is_library) return static_cast<CUfunction>(const_cast<void*>(program));
  const auto get_kernel = CUPOLA_CALL_REAL(cuLibraryGetKernel, PFN_cuLibraryGetKernel_v12000);
  const auto get_function = CUPOLA_CALL_REAL(cuKernelGetFunction, PFN_cuKernelGetFunction_v12000);
  const auto owner = static_cast<CUlibrary>(const_cast<void*>(variant.image->owner));
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  if (get_kernel(&kernel, owner, variant.name) != CUDA_SUCCESS ||
      get_function(&function, kernel) != CUDA_SUCCESS) {
    return nullptr;
  }
  return function;
}

void SettleUse(Variant* variant, const PreemptContext& context) {
  if (variant->settled.load(std::memory_order_acquire)) return;
  const sched::VariantChoice choice = context.gpu->VariantFor(variant->name);
  const uint32_t flags = variant->entry->flags;
  const auto has = [flags](uint32_t form) { return (flags & form) != 0; };
  const auto may_use = [&](uint32_t form, uint32_t inexact) {
    return has(form) && (!has(inexact) || settings.allow_inexact);
  };
  variant->is_ruled = choice != sched::VariantChoice::kAuto;
  switch (choice) {
    case sched::VariantChoice::kOriginal:
      variant->usable = false;
      break;
    case sched::VariantChoice::kPreemptible:
      variant->usable = variant->is_configured = has(store::kPreemptible);
      break;
    case sched::VariantChoice::kSliced:
      variant->usable = variant->is_configured = variant->is_sliced = has(store::kSliced);
      break;
    case sched::VariantChoice::kAuto: {
      // A hand-made barrier of a whole grid is no longer one in slices.
      const bool preemptible = may_use(store::kPreemptible, store::kNotBitExact);
      variant->is_sliced = variant->is_fallback =
          !preemptible && may_use(store::kSliced, store::kSlicedNotBitExact) &&
          !has(store::kMayWaitOnBlocks);
      variant->usable = preemptible || variant->is_fallback;
      break;
    }
  }
  if (const models::PlanView* plan = context.gpu->plan()) {
    const std::string& key = variant->image->mapped.key();
    variant->plan_kernel =
        plan->Find(variant->name, key.empty() ? 0 : models::HashBytes(key.data(), key.size()));
    if (variant->plan_kernel != nullptr) variant->plan = plan;
  }
  variant->settled.store(true, std::memory_order_release);
}

template <typename Find>
void NoteFound(const void* owner, bool is_library, CUcontext context, Find&& find) {
  const MutexLock lock(mutex);
  if (images == nullptr) return;
  Image found;
  if (!FindBundleLocked(find, &found)) return;
  auto* image = new (std::nothrow) Image(std::move(found));
  if (image == nullptr) return;
  image->owner = owner;
  image->is_library = is_library;
  image->context = is_library ? nullptr : context;
  images->by_owner[owner] = image;
}

}  // namespace

void OpenVariantStore() noexcept {
  const MutexLock lock(mutex);
  if (images != nullptr) return;
  images = new Images;
  if (const char* file = getenv("CUPOLA_BUNDLE"); file != nullptr && *file != '\0') {
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

void NoteImage(const void* owner, bool is_library, const void* bytes, CUcontext context) noexcept {
  if (owner == nullptr || bytes == nullptr) return;
  NoteFound(owner, is_library, context, [bytes](const store::VariantStore& store) {
    return store.FindForImage(bytes, kArch);
  });
}

void NoteImageFile(const void* owner, bool is_library, const char* path, const FileFacts& before,
                   CUcontext context) noexcept {
  if (owner == nullptr) return;
  const FileContents file = ReadUnchangedFile(path, before);
  if (file.size == 0) return;
  NoteFound(owner, is_library, context, [&file](const store::VariantStore& store) {
    return store.FindForFile(file.bytes(), kArch);
  });
}

void NoteKernel(const void* function, const void* owner, const char* name) noexcept {
  if (function == nullptr || name == nullptr) return;
  const MutexLock lock(mutex);
  if (images == nullptr) return;
  const auto found = images->by_owner.find(owner);
  if (found == images->by_owner.end()) return;
  Variant* const variant = VariantOfLocked(found->second, name);
  if (variant != nullptr) BindLocked(found->second, function, variant);
}

void NoteAlias(const void* alias, const void* function) noexcept {
  Variant* const variant = FindVariant(function);
  if (variant == nullptr || alias == nullptr) return;
  const MutexLock lock(mutex);
  BindLocked(variant->image, alias, variant);
}

// Variants and their image are left behind: a thread may just have looked one up.
void ForgetImage(const void* owner) noexcept {
  const MutexLock lock(mutex);
  if (images == nullptr) return;
  const auto found = images->by_owner.find(owner);
  if (found == images->by_owner.end()) return;
  Image* const image = found->second;
  images->by_owner.erase(found);
  for (const void* handle : image->handles) by_function.Erase(handle);
  if (image->side == Image::Side::kLoaded) {
    (void)CUPOLA_CALL_REAL(cuLibraryUnload, PFN_cuLibraryUnload_v12000)(image->side_library);
  }
  image->side = Image::Side::kFailed;
}

void ForgetImagesOf(CUcontext context) noexcept {
  PreemptContext* const known = FindContext(context);
  std::vector<const void*> owners;
  {
    const MutexLock lock(mutex);
    if (images == nullptr) return;
    for (auto& [owner, image] : images->by_owner) {
      if (!image->is_library && image->context == context) owners.push_back(owner);
      std::erase(image->filled, known);
      for (auto& [entry, variant] : image->variants) {
        for (PreparedVariant& prepared : variant->prepared) {
          PreemptContext* expected = known;
          if (known != nullptr) prepared.context.compare_exchange_strong(expected, nullptr);
        }
      }
    }
  }
  for (const void* owner : owners) ForgetImage(owner);
}

Variant* FindVariant(const void* function) noexcept {
  return reinterpret_cast<Variant*>(by_function.Find(function, 0));
}

void SettleVariant(Variant& variant, const PreemptContext& context) noexcept {
  if (variant.settled.load(std::memory_order_acquire)) [[likely]] return;
  const MutexLock lock(mutex);
  SettleUse(&variant, context);
}

PreparedVariant* FindPrepared(Variant& variant, const PreemptContext& context) noexcept {
  for (PreparedVariant& prepared : variant.prepared) {
    if (prepared.context.load(std::memory_order_acquire) == &context) return &prepared;
  }
  return nullptr;
}

PreparedVariant* PrepareVariant(Variant& variant, PreemptContext& context) noexcept {
  const RelaxedCapture relaxed;
  const MutexLock lock(mutex);
  SettleUse(&variant, context);
  if (variant.history.load() == nullptr) {
    variant.history.store(new (std::nothrow) models::HistoryModel(nullptr, 0));
  }
  if (PreparedVariant* made = FindPrepared(variant, context)) return made;
  for (PreparedVariant& prepared : variant.prepared) {
    if (prepared.context.load() != nullptr) continue;
    for (Shape& shape : prepared.shapes) shape.key.store(0);
    prepared.most_shared = 0;
    prepared.function = variant.usable ? FunctionOf(variant.image, variant, &context) : nullptr;
    prepared.context.store(&context, std::memory_order_release);
    return &prepared;
  }
  return nullptr;
}

namespace {

const Shape* FindShape(const PreparedVariant& prepared, uint32_t threads, uint32_t shared) {
  const uint64_t key = (uint64_t{threads} << 32 | shared) + 1;
  for (const Shape& shape : prepared.shapes) {
    if (shape.key.load(std::memory_order_acquire) == key) return &shape;
  }
  return nullptr;
}

}  // namespace

uint32_t FindWorkers(const PreparedVariant& prepared, uint32_t threads, uint32_t shared) noexcept {
  const Shape* const shape = FindShape(prepared, threads, shared);
  return shape != nullptr ? shape->workers.load(std::memory_order_relaxed) : kUnknownWorkers;
}

uint32_t FindResidentBlocks(const PreparedVariant& prepared, uint32_t threads,
                            uint32_t shared) noexcept {
  const Shape* const shape = FindShape(prepared, threads, shared);
  return shape != nullptr ? shape->blocks.load(std::memory_order_relaxed) : UINT32_MAX;
}

uint32_t FindCarveout(const PreparedVariant& prepared, uint32_t threads, uint32_t shared) noexcept {
  const Shape* const shape = FindShape(prepared, threads, shared);
  return shape != nullptr ? shape->carveout.load(std::memory_order_relaxed) : 0;
}

uint32_t PrepareShape(Variant& variant, PreparedVariant& prepared, const PreemptContext& context,
                      const void* program, uint32_t threads, uint32_t shared) noexcept {
  const RelaxedCapture relaxed;
  const MutexLock lock(mutex);
  if (const uint32_t known = FindWorkers(prepared, threads, shared); known != kUnknownWorkers) {
    return known;
  }
  uint32_t workers = 0;
  const auto get = CUPOLA_CALL_REAL(cuFuncGetAttribute, PFN_cuFuncGetAttribute_v2020);
  const auto set = CUPOLA_CALL_REAL(cuFuncSetAttribute, PFN_cuFuncSetAttribute_v9000);
  const auto occupancy = CUPOLA_CALL_REAL(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                                          PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050);
  // What the original may have, the variant may have: a launch beyond that goes out plain and
  // fails.
  CUfunction original = OriginalOf(variant, program);
  int limit = 0;
  // The variant has some bytes of its own, so it is given what it needs, not the original's limit.
  const uint32_t most = std::max(shared, prepared.most_shared);
  const bool fits =
      get(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, original) == CUDA_SUCCESS &&
      shared <= static_cast<uint32_t>(limit) &&
      set(prepared.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
          static_cast<int>(most)) == CUDA_SUCCESS;
  if (fits) prepared.most_shared = most;
  int blocks = 0;
  if (fits &&
      occupancy(&blocks, prepared.function, static_cast<int>(threads), shared) == CUDA_SUCCESS) {
    workers = static_cast<uint32_t>(blocks) * context.gpu->sm_count();
  }
  int of_original = 0;
  const bool known =
      occupancy(&of_original, original, static_cast<int>(threads), shared) == CUDA_SUCCESS;
  // The program may raise the limit before it tries again.
  if (shared > static_cast<uint32_t>(limit)) return 0;
  for (Shape& shape : prepared.shapes) {
    if (shape.key.load() != 0) continue;
    shape.workers.store(workers, std::memory_order_relaxed);
    shape.blocks.store(
        known ? static_cast<uint32_t>(of_original) * context.gpu->sm_count() : UINT32_MAX,
        std::memory_order_relaxed);
    const uint32_t less = blocks > 1 ? static_cast<uint32_t>(blocks - 1) : 0;
    shape.carveout = CarveoutFor(prepared.function, shared, less, context.gpu->device());
    shape.key.store((uint64_t{threads} << 32 | shared) + 1, std::memory_order_release);
    break;
  }
  return workers;
}

uint32_t TakeTurn(Variant& variant, const LaunchFacts& facts) noexcept {
  uint64_t shape = facts.shared_bytes;
  for (int i = 0; i < 3; ++i) {
    shape = (shape * kShapeFactor + facts.grid[i]) * kShapeFactor + facts.block[i];
  }
  std::atomic<uint32_t>& turns = variant.turns[(shape >> 32) % Variant::kTurnCounters];
  return settings.turns[turns.fetch_add(1, std::memory_order_relaxed) % settings.turn_count];
}

void ForgetVariantsAfterFork() noexcept {
  mutex = PTHREAD_MUTEX_INITIALIZER;
  by_function.ResetAfterFork();
  images = nullptr;  // left behind: another thread of the parent may have been changing it
  OpenVariantStore();
}

}  // namespace cupola::intercept::preempt
