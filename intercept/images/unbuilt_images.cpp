#include "intercept/images/unbuilt_images.h"

#include <algorithm>
#include <cstring>

#include "device/compiler/store/variant_store.h"

namespace cupola::intercept {
namespace {

// What begins every cubin, and a directive that every PTX text begins with, after comments [PTX ISA, Directives: .version].
constexpr char kElf[] = "\177ELF", kVersion[] = ".version";
constexpr size_t kMostComments = 4096;  // bytes before that directive

bool BeginsWith(std::span<const std::byte> bytes, const char* text) {
  return bytes.size() >= strlen(text) && memcmp(bytes.data(), text, strlen(text)) == 0;
}

}  // namespace

bool UnbuiltImages::IsWanted(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty() || bytes.size() > kMostBytes) return false;
  const size_t searched = std::min(bytes.size(), kMostComments);
  return BeginsWith(bytes, kElf) || memmem(bytes.data(), searched, kVersion, strlen(kVersion)) != nullptr;
}

void UnbuiltImages::Add(const void* owner, bool is_library, CUcontext context, std::span<const std::byte> bytes) {
  if (by_owner_.size() >= kMost) return;
  UnbuiltImage& image = by_owner_[owner];
  image.owner = owner;
  image.is_library = is_library;
  image.context = is_library ? nullptr : context;
  image.link = store::ContentsLink(bytes.size(), store::Sha256Of(bytes), store::kLoadedArch);
}

void UnbuiltImages::ForgetKernels(const UnbuiltImage& image) {
  for (const UnbuiltKernel& kernel : image.kernels) {
    const auto found = owner_of_.find(kernel.function);
    if (found != owner_of_.end() && found->second == image.owner) owner_of_.erase(found);
  }
}

void UnbuiltImages::Remove(const void* owner) {
  const auto found = by_owner_.find(owner);
  if (found == by_owner_.end()) return;
  ForgetKernels(found->second);
  by_owner_.erase(found);
}

void UnbuiltImages::RemoveOf(CUcontext context) {
  TakeBuilt([context](const UnbuiltImage& image) { return !image.is_library && image.context == context; },
            [](const UnbuiltImage&) {});
}

void UnbuiltImages::AddKernel(const void* owner, const void* function, const char* name) {
  const auto found = by_owner_.find(owner);
  if (found == by_owner_.end()) return;
  const auto [known, is_new] = owner_of_.try_emplace(function, owner);
  if (!is_new && known->second == owner) return;
  known->second = owner;  // a handle of an image that was unloaded may come again for this one
  found->second.kernels.push_back({function, name});
}

UnbuiltKernel* UnbuiltImages::Find(const void* function) {
  const auto owner = owner_of_.find(function);
  if (owner == owner_of_.end()) return nullptr;
  const auto image = by_owner_.find(owner->second);
  if (image == by_owner_.end()) return nullptr;
  auto& kernels = image->second.kernels;
  const auto has_it = [function](const UnbuiltKernel& kernel) { return kernel.function == function; };
  const auto kernel = std::find_if(kernels.begin(), kernels.end(), has_it);
  return kernel != kernels.end() ? &*kernel : nullptr;
}

void UnbuiltImages::AddAlias(const void* alias, const void* function) {
  const UnbuiltKernel* const kernel = Find(function);
  if (kernel == nullptr || alias == function) return;
  const UnbuiltKernel other{alias, kernel->name, kernel->shared_below};
  const void* const owner = owner_of_[function];
  AddKernel(owner, alias, other.name.c_str());
  if (UnbuiltKernel* const made = Find(alias)) made->shared_below = other.shared_below;
}

}  // namespace cupola::intercept
