// How the preloaded library says which device image a program hands to the driver: by where it lies
// in a loaded file (build id and offset), or by its bytes. libc only; any thread; may be called
// while the loader's lock is free (it takes it).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace cupola::store {

/// Where an address of a loaded object comes from.
struct LoadedPlace {
  std::array<uint8_t, 64> build_id{};
  uint32_t build_id_bytes = 0;  ///< 0: the object has none, or a longer one
  uint64_t offset = 0;          ///< of the address, bytes from the start of the object's file

  std::span<const uint8_t> id() const { return {build_id.data(), build_id_bytes}; }
};

/// The place of `address` when it lies in the file-backed part of a loaded ELF object
/// (dl_iterate_phdr); nothing for other memory. Some hundred ns for each loaded object.
std::optional<LoadedPlace> FindLoadedPlace(const void* address);

/// The bytes that stand for an image in the store, given what cuLibraryLoadData or cuModuleLoadData
/// were given: the container of a fatbin wrapper (of the first form and of device linking), a
/// container, a cubin, or the text of PTX without its NUL. Empty for anything else, and above
/// `max_bytes`. As the driver does, it trusts the sizes in the headers; PTX is looked through for
/// its end.
std::span<const std::byte> IdentityBytes(const void* image, size_t max_bytes = size_t{1} << 28);

/// The same for the contents of a file that cuModuleLoad or cuLibraryLoadFromFile was given the name
/// of: a container, a cubin, or PTX. Nothing beyond the file is looked at.
std::span<const std::byte> IdentityOfFile(std::span<const std::byte> file);

}  // namespace cupola::store
