// Any bytes as a file: finding its images, unpacking them, reading cubins. Must never crash, hang
// or take memory out of proportion.
#include "device/compiler/fatbin/cubin.h"
#include "device/compiler/fatbin/elf_images.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cupola::fatbin;
  const Bytes bytes(data, size);
  size_t used = 0;
  if (const auto found = ReadImages(bytes, "fuzz")) {
    for (const cupola::Error& damage : found->damages) used += damage.ToString().size();
    for (const Image& image : found->images) {
      used += image.ArchName().size() + image.name.size() + image.options.size();
      const auto contents = image.Contents();
      if (!contents || image.kind != ImageKind::kCubin) continue;
      if (const auto cubin = ReadCubin(contents->bytes())) used += cubin->kernels.size();
    }
  }
  if (const auto cubin = ReadCubin(bytes)) used += cubin->kernels.size();
  return used == SIZE_MAX ? 1 : 0;
}
