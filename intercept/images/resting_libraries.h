// Resting libraries: libraries of ours whose image was unloaded, kept loaded for the next image with the same
// bundle, because programs load and unload the same module again and again. That saves the load. It also saves
// memory: of each load of a module with fences of system scope, as side modules have, the driver keeps some 900
// bytes of host memory a fence, and more of device memory, until the context ends [measured:
// docs/notes/2026-11-27-fences-in-modules.md]. images.cpp owns the object and uses it under ImagesMutex.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <deque>
#include <string>

#include "device/compiler/store/bundle.h"

namespace cupola::intercept {

class RestingLibraries {
 public:
  static constexpr size_t kMost = 64;
  static constexpr size_t kMostBytes = size_t{64} << 20;  ///< the most bytes of their cubins

  /// Takes out a library of `kind` that an image with the bundle `key` had; the caller owns it then. Null: there is
  /// none. Its variables still point into the earlier image, and must be filled anew.
  CUlibrary Take(const std::string& key, store::ImageKind kind) noexcept;

  /// Puts in a library of which nothing is outstanding, and whose cubin has `bytes` bytes. If they become too many,
  /// unloads those that rest longest; that may wait for the device.
  void Put(const std::string& key, store::ImageKind kind, CUlibrary library, size_t bytes) noexcept;

 private:
  struct Resting {
    std::string key;
    store::ImageKind kind;
    CUlibrary library;
    size_t bytes;
  };
  std::deque<Resting> resting_;  // the oldest first
  size_t bytes_ = 0;             // sum over `resting_`
};

}  // namespace cupola::intercept
