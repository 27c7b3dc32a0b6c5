// Any bytes as a fatbin container, and as the data of an image in each compression.
#include "device/compiler/fatbin/container.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cupola::fatbin;
  const Bytes bytes(data, size);
  size_t used = 0;
  const ContainerReading reading = ReadContainer(bytes, 0, "fuzz");
  if (reading.damage) used += reading.damage->ToString().size();
  if (reading.size > size || reading.consumed > size) __builtin_trap();
  for (const Image& image : reading.images) {
    for (const char c : image.name) used += c == 'x';
    for (const char c : image.options) used += c == 'x';
    if (const auto contents = image.Contents()) used += contents->size();
  }
  if (size > 4) {
    const uint64_t claimed = uint64_t{data[0]} << (data[1] % 16);
    for (const Compression each : {Compression::kLz4, Compression::kZstd}) {
      if (const auto contents = Decompress(each, bytes.subspan(2), claimed))
        used += contents->size();
    }
  }
  return used == SIZE_MAX ? 1 : 0;
}
