#include "tests/unit/fatbin/container_builder.h"

#include <lz4.h>
#include <zstd.h>

#include <cstring>

namespace cupola::fatbin {
namespace {

template <typename T>
void Put(std::string& out, size_t at, T value) {
  std::memcpy(out.data() + at, &value, sizeof(T));
}

std::string Compress(const EntrySpec& spec) {
  std::string out;
  if (spec.compression == EntrySpec::kLz4) {
    out.resize(static_cast<size_t>(LZ4_compressBound(static_cast<int>(spec.contents.size()))));
    out.resize(static_cast<size_t>(LZ4_compress_default(spec.contents.data(), out.data(),
                                                        static_cast<int>(spec.contents.size()),
                                                        static_cast<int>(out.size()))));
  } else if (spec.compression == EntrySpec::kZstd) {
    out.resize(ZSTD_compressBound(spec.contents.size()));
    out.resize(
        ZSTD_compress(out.data(), out.size(), spec.contents.data(), spec.contents.size(), 3));
  } else {
    out = spec.contents;
  }
  return out;
}

std::string BuildEntry(const EntrySpec& spec) {
  std::string payload = Compress(spec);
  const size_t real_size = payload.size();
  payload.resize((payload.size() + 7) / 8 * 8);
  std::string header(64, '\0');
  uint32_t name_offset = 0;
  uint32_t options_offset = 0;
  if (!spec.name.empty()) {
    name_offset = static_cast<uint32_t>(header.size());
    header += spec.name;
    header.resize((header.size() + 8) / 8 * 8);
  }
  if (!spec.options.empty()) {
    options_offset = static_cast<uint32_t>(header.size());
    header.resize(header.size() + 8);
    Put<uint32_t>(header, options_offset, options_offset + 8);
    Put<uint32_t>(header, options_offset + 4, static_cast<uint32_t>(spec.options.size()));
    header += spec.options;
    header.resize((header.size() + 8) / 8 * 8);
  }
  const bool compressed = spec.compression != EntrySpec::kStored;
  uint64_t flags = spec.flags;
  if (spec.compression == EntrySpec::kLz4) flags |= 0x2000;
  if (spec.compression == EntrySpec::kZstd) flags |= 0x8000;
  Put<uint16_t>(header, 0, spec.kind);
  Put<uint16_t>(header, 2, 0x0101);
  Put<uint32_t>(header, 4, static_cast<uint32_t>(header.size()));
  Put<uint64_t>(header, 8, payload.size());
  Put<uint32_t>(header, 16, compressed ? static_cast<uint32_t>(real_size) : 0);
  Put<uint32_t>(header, 20, options_offset);
  Put<uint16_t>(header, 24, spec.minor);
  Put<uint16_t>(header, 26, spec.major);
  Put<uint32_t>(header, 28, spec.arch);
  Put<uint32_t>(header, 32, name_offset);
  Put<uint32_t>(header, 36, static_cast<uint32_t>(spec.name.size()));
  Put<uint64_t>(header, 40, flags);
  Put<uint64_t>(header, 56, compressed ? spec.contents.size() : 0);
  return header + payload;
}

}  // namespace

std::vector<uint8_t> BuildContainer(const std::vector<EntrySpec>& entries) {
  std::string out(16, '\0');
  for (const EntrySpec& entry : entries) out += BuildEntry(entry);
  Put<uint32_t>(out, 0, 0xBA55ED50);
  Put<uint16_t>(out, 4, 1);
  Put<uint16_t>(out, 6, 16);
  Put<uint64_t>(out, 8, out.size() - 16);
  return {out.begin(), out.end()};
}

std::string SamplePtx(uint32_t arch, std::string_view kernel) {
  std::string text = ".version 9.0\n.target sm_" + std::to_string(arch) + "\n.address_size 64\n\n";
  text += ".visible .entry " + std::string(kernel) + "(.param .u64 p)\n{\n";
  for (int i = 0; i < 20; ++i) text += "\tmov.u32 %r1, %tid.x;\n";
  return text + "\tret;\n}\n";
}

}  // namespace cupola::fatbin
