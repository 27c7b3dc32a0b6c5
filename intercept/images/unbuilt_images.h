// Unbuilt images: the modules and libraries of the program for which the variant store had no bundle when they were loaded,
// but may have one later, since `cupola build --watch` builds what is compiled while programs run. An image is remembered
// by the link under which its bundle would be (its bytes may be gone by then), with the kernels that the program got from
// it. Only bare cubins and PTX are remembered: what a program or its libraries ship was built before or never. images.cpp
// owns the object and uses it under ImagesMutex; no driver call.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace cupola::intercept {

/// A kernel of an unbuilt image, of which the program has a handle.
struct UnbuiltKernel {
  const void* function = nullptr;  ///< CUfunction or CUkernel
  std::string name;
  uint64_t shared_below = UINT64_MAX;  ///< as Variant::shared_below
};

struct UnbuiltImage {
  const void* owner = nullptr;  ///< CUlibrary or CUmodule
  bool is_library = false;
  CUcontext context = nullptr;  ///< the context of a module
  std::string link;             ///< store::ContentsLink
  std::vector<UnbuiltKernel> kernels;
};

class UnbuiltImages {
 public:
  static constexpr size_t kMost = 4096;
  static constexpr size_t kMostBytes = size_t{4} << 20;  ///< larger images are not hashed

  /// Whether an image with these bytes (store::IdentityBytes) is one to remember.
  static bool IsWanted(std::span<const std::byte> bytes) noexcept;

  /// Remembers an image. There is none with that owner.
  void Add(const void* owner, bool is_library, CUcontext context, std::span<const std::byte> bytes);
  void Remove(const void* owner);
  /// Forgets the modules of a context.
  void RemoveOf(CUcontext context);
  bool IsEmpty() const { return by_owner_.empty(); }

  /// The program got the handle `function`. Nothing happens if the image is not here.
  void AddKernel(const void* owner, const void* function, const char* name);
  void AddAlias(const void* alias, const void* function);
  /// The kernel with that handle; null: it is not of an image here. The pointer holds until the next call.
  UnbuiltKernel* Find(const void* function);

  /// Takes out each image for which `is_built(image)`, and passes it to `use(image)`.
  template <typename IsBuilt, typename Use>
  void TakeBuilt(IsBuilt&& is_built, Use&& use) {
    for (auto at = by_owner_.begin(); at != by_owner_.end();) {
      if (!is_built(at->second)) {
        ++at;
        continue;
      }
      const UnbuiltImage image = std::move(at->second);
      at = by_owner_.erase(at);
      ForgetKernels(image);
      use(image);
    }
  }

 private:
  void ForgetKernels(const UnbuiltImage& image);

  std::unordered_map<const void*, UnbuiltImage> by_owner_;
  std::unordered_map<const void*, const void*> owner_of_;  ///< of a kernel's handle
};

}  // namespace cupola::intercept
