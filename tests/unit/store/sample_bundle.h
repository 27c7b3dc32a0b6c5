// A small bundle with one of everything, for tests of the store.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "device/compiler/store/bundle_writer.h"

namespace cupola::store {

inline std::vector<std::byte> SampleBundle(const std::string& cubin = "the cubin",
                                           uint32_t arch = 90) {
  BundleWriter writer(arch, kIncomplete);
  BundleKernel scale;
  scale.name = "_Z5scalePfi";
  scale.parameters = {{0, 8, 1}, {8, 4, 0}};
  scale.differences = "FFMA 3, was 2";
  scale.entry.flags = kPreemptible | kNotBitExact;
  scale.entry.registers = 20;
  scale.entry.variant_registers = 24;
  scale.entry.launch_offset = 16;
  BundleKernel add;
  add.name = "_Z3addv";
  add.refusal = "preemptible: clusters";
  add.entry.flags = kSliced;
  writer.AddKernel(scale);
  writer.AddKernel(add);
  writer.AddVariable(ImageKind::kSide, "table", 4096);
  writer.AddVariable(ImageKind::kSide, "count", 4, kManaged);
  writer.SetCode(ImageKind::kSide, std::as_bytes(std::span(cubin.data(), cubin.size())),
                 ".version 9.0\n");
  Result<std::vector<std::byte>> bytes = writer.Finish();
  return bytes ? *std::move(bytes) : std::vector<std::byte>{};
}

}  // namespace cupola::store
