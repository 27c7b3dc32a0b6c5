// How the preloaded library identifies the device image that a program hands to the driver: by its place in a loaded
// file (build id and offset), or by its bytes. libc only; any thread. FindLoadedPlace takes the dynamic loader's lock,
// so it must not be called by a thread that cannot wait for that lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace cupola::store {

/// The place in a file from which an address of a loaded object comes.
struct LoadedPlace {
  std::array<uint8_t, 64> build_id{};
  uint32_t build_id_bytes = 0;  ///< 0: the object has no build id, or a longer one
  uint64_t offset = 0;          ///< bytes from the start of the object's file to the address

  std::span<const uint8_t> id() const { return {build_id.data(), build_id_bytes}; }
};

/// The place of `address` if it lies in the file-backed part of a loaded ELF object (dl_iterate_phdr); std::nullopt for
/// other memory. Takes some hundred ns for each loaded object.
std::optional<LoadedPlace> FindLoadedPlace(const void* address);

/// The bytes that identify an image in the store, given the pointer that cuLibraryLoadData or cuModuleLoadData got: the
/// container of a fatbin wrapper (of the first form and of device linking), a container, a cubin, or the text of PTX
/// without its NUL. Empty for anything else, and above `max_bytes`. As the driver does, the function trusts the sizes
/// in the headers; it searches PTX for its end.
std::span<const std::byte> IdentityBytes(const void* image, size_t max_bytes = size_t{1} << 28);

/// Like IdentityBytes, for the contents of a file whose name cuModuleLoad or cuLibraryLoadFromFile got: a container, a
/// cubin, or PTX. It reads nothing beyond the file.
std::span<const std::byte> IdentityOfFile(std::span<const std::byte> file);

}  // namespace cupola::store
