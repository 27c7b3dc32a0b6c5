// The folder `compiled` of the variant store: device images that a program compiled while it ran, with their PTX, for
// `cupola build --watch`, which builds their variants and removes them. Both the door and the library write to it. Only
// functions of every C library; any thread; no driver call.
#pragma once

#include <cstddef>
#include <span>

namespace cupola::intercept {

/// Whether a `cupola build --watch` of this user lives that uses the store. Some system calls; errno stays as it was.
bool IsCompiledWatched() noexcept;

/// Keeps an image with the PTX that it was compiled from; a `cubin` of no bytes: the image is the PTX itself, a text
/// without its NUL. Does nothing unless IsCompiledWatched. Returns whether it
/// was kept. errno stays as it was.
bool KeepCompiled(std::span<const std::byte> cubin, std::span<const std::byte> ptx) noexcept;

}  // namespace cupola::intercept
