// Bounds-checked little-endian reads from borrowed bytes. This folder reads its input only through
// these functions. Pure; any thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace cupola::fatbin {

/// Borrowed bytes of an image or file.
using Bytes = std::span<const uint8_t>;

/// The T at `offset`, with any alignment; std::nullopt where it does not lie wholly inside.
template <typename T>
std::optional<T> ReadAt(Bytes bytes, uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// bytes[offset, offset + size); std::nullopt where that does not lie wholly inside.
inline std::optional<Bytes> SliceAt(Bytes bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return std::nullopt;
  return bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
}

/// The bytes seen as text.
inline std::string_view AsText(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace cupola::fatbin
