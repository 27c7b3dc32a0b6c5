// Builds fatbin containers byte by byte, for tests of their readers. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cupola::fatbin {

/// What to write into one entry; fields that a test wants wrong can be set to anything.
struct EntrySpec {
  uint16_t kind = 1;
  std::string contents;  ///< uncompressed
  enum { kStored, kLz4, kZstd } compression = kStored;
  uint32_t arch = 90;
  uint64_t flags = 0x11;  ///< compression flags are added
  uint16_t major = 9, minor = 0;
  std::string name;
  std::string options;
};

/// The bytes of one container with these entries.
std::vector<uint8_t> BuildContainer(const std::vector<EntrySpec>& entries);

/// A small PTX module for sm_`arch`.
std::string SamplePtx(uint32_t arch, std::string_view kernel = "scale");

}  // namespace cupola::fatbin
