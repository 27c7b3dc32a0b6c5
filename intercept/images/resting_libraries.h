// Libraries of ours whose image was unloaded, kept for the next image with the same bundle: programs load and
// unload the same module again and again. It saves the load; and of each load of a module with fences of system
// scope, as side modules have, the driver keeps some 900 bytes of the host's memory a fence and more of the
// device's until the context ends [measured: docs/notes/2026-11-27-fences-in-modules.md]. All under
// ImagesMutex.
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
  static constexpr size_t kMostBytes = size_t{64} << 20;  ///< of their cubins

  /// The library of `kind` that an image with the bundle of this key had, which is the caller's now; null: none
  /// rests. What its variables point to is of that image.
  CUlibrary Take(const std::string& key, store::ImageKind kind) noexcept;

  /// Nothing of `library` is outstanding, whose cubin has `bytes`. Unloads it, or those that rest longest, where
  /// they would be too many: may wait for the device.
  void Put(const std::string& key, store::ImageKind kind, CUlibrary library, size_t bytes) noexcept;

 private:
  struct Resting {
    std::string key;
    store::ImageKind kind;
    CUlibrary library;
    size_t bytes;
  };
  std::deque<Resting> resting_;  // the oldest first
  size_t bytes_ = 0;
};

}  // namespace cupola::intercept
