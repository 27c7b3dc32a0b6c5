#include "device/sim/driver/copy.h"

#include "device/sim/driver/result.h"
#include "device/sim/driver/say.h"

namespace cupola::sim {
namespace {

/// An asynchronous copy from pageable memory of up to this size copies its source aside and
/// returns. A larger one waits until the copy has ended.
constexpr uint64_t kStagedBytes = 64 * 1024;

uint64_t Extent(uint64_t pitch, uint64_t slice, const CopyWork& copy) {
  return (copy.depth - 1) * slice + (copy.height - 1) * pitch + copy.width_bytes;
}
uint64_t SourceExtent(const CopyWork& copy) {
  return Extent(copy.source_pitch, copy.source_slice, copy);
}
uint64_t DestinationExtent(const CopyWork& copy) {
  return Extent(copy.destination_pitch, copy.destination_slice, copy);
}

bool IsPageable(Driver& driver, uint64_t address) { return !driver.memory().Find(address); }

bool IsDeviceMemory(Driver& driver, uint64_t address) {
  const std::optional<Allocation> found = driver.memory().Find(address);
  return found && !found->is_host() && found->kind != MemoryKind::kManaged;
}

CUresult CheckSides(Driver& driver, const CopyWork& copy, CopyDirection direction) {
  if (copy.source == 0 || copy.destination == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool source_is_device = direction == CopyDirection::kDeviceToHost ||
                                direction == CopyDirection::kDeviceToDevice;
  const bool destination_is_device = direction == CopyDirection::kHostToDevice ||
                                     direction == CopyDirection::kDeviceToDevice;
  // A side that must be device memory must lie within one allocation. So must any other side that
  // starts in device memory.
  const bool holds_source = driver.memory().Holds(copy.source, SourceExtent(copy));
  const bool holds_destination = driver.memory().Holds(copy.destination, DestinationExtent(copy));
  if (!holds_source && (source_is_device || IsDeviceMemory(driver, copy.source))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!holds_destination && (destination_is_device || IsDeviceMemory(driver, copy.destination))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

void Stage(CopyWork& copy) {
  const auto* source = reinterpret_cast<const std::byte*>(copy.source);
  copy.staged = std::make_shared<std::vector<std::byte>>(source, source + SourceExtent(copy));
}

struct Side {
  uint64_t address, pitch, slice;
};

CUresult ResolveSide(CUmemorytype type, const void* host, CUdeviceptr device, size_t x, size_t y,
                     size_t z, size_t pitch, size_t height, const CUDA_MEMCPY3D& box, Side* side) {
  uint64_t base = 0;
  switch (type) {
    case CU_MEMORYTYPE_HOST: base = reinterpret_cast<uint64_t>(host); break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED: base = device; break;
    case CU_MEMORYTYPE_ARRAY:
      SayLacks("a copy from or to a CUDA array");
      return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  side->pitch = pitch != 0 ? pitch : box.WidthInBytes + x;
  side->slice = side->pitch * (height != 0 ? height : box.Height + y);
  if (box.Height > 1 && side->pitch < box.WidthInBytes + x) return CUDA_ERROR_INVALID_VALUE;
  side->address = base == 0 ? 0 : base + z * side->slice + y * side->pitch + x;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Copy(Driver& driver, Stream& stream, CopyWork copy, CopyDirection direction,
              CopyForm form) {
  if (copy.width_bytes == 0 || copy.height == 0 || copy.depth == 0) return CUDA_SUCCESS;
  SIM_TRY(CheckSides(driver, copy, direction));
  const bool is_device_only = IsDeviceMemory(driver, copy.source) &&
                              IsDeviceMemory(driver, copy.destination);
  const bool is_captured =
      driver.CaptureOf(stream, nullptr, nullptr) != CU_STREAM_CAPTURE_STATUS_NONE;
  if (is_device_only || (is_captured && form == CopyForm::kAsync)) {
    return driver.Enqueue(stream, std::move(copy));
  }
  if (form == CopyForm::kPlain) return driver.EnqueueAndWait(stream, std::move(copy));
  if (IsPageable(driver, copy.destination)) return driver.EnqueueAndWait(stream, std::move(copy));
  if (IsPageable(driver, copy.source)) {
    if (SourceExtent(copy) > kStagedBytes) return driver.EnqueueAndWait(stream, std::move(copy));
    Stage(copy);
  }
  return driver.Enqueue(stream, std::move(copy));
}

CUresult MakeCopyBox(Driver& driver, const CUDA_MEMCPY3D& box, CopyWork* copy) {
  Side source{}, destination{};
  SIM_TRY(ResolveSide(box.srcMemoryType, box.srcHost, box.srcDevice, box.srcXInBytes, box.srcY,
                      box.srcZ, box.srcPitch, box.srcHeight, box, &source));
  SIM_TRY(ResolveSide(box.dstMemoryType, box.dstHost, box.dstDevice, box.dstXInBytes, box.dstY,
                      box.dstZ, box.dstPitch, box.dstHeight, box, &destination));
  *copy = {.source = source.address,
           .destination = destination.address,
           .source_pitch = source.pitch,
           .source_slice = source.slice,
           .destination_pitch = destination.pitch,
           .destination_slice = destination.slice,
           .width_bytes = box.WidthInBytes,
           .height = box.Height,
           .depth = box.Depth,
           .source_type = box.srcMemoryType,
           .destination_type = box.dstMemoryType};
  if (copy->width_bytes == 0 || copy->height == 0 || copy->depth == 0) return CUDA_SUCCESS;
  CopyDirection direction = CopyDirection::kUnified;
  const bool from_device = box.srcMemoryType == CU_MEMORYTYPE_DEVICE;
  const bool to_device = box.dstMemoryType == CU_MEMORYTYPE_DEVICE;
  if (from_device && to_device) direction = CopyDirection::kDeviceToDevice;
  if (from_device && !to_device) direction = CopyDirection::kDeviceToHost;
  if (!from_device && to_device) direction = CopyDirection::kHostToDevice;
  return CheckSides(driver, *copy, direction);
}

CUresult CopyBox(Driver& driver, Stream& stream, const CUDA_MEMCPY3D& box, CopyForm form) {
  CopyWork copy;
  SIM_TRY(MakeCopyBox(driver, box, &copy));
  return Copy(driver, stream, std::move(copy), CopyDirection::kUnified, form);
}

CUresult CheckFill(Driver& driver, const FillWork& fill) {
  if (fill.width == 0 || fill.height == 0) return CUDA_SUCCESS;
  if (fill.address % fill.element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  if (fill.height > 1 && fill.pitch % fill.element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t row = fill.width * fill.element_bytes;
  if (fill.height > 1 && fill.pitch < row) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t bytes = (fill.height - 1) * fill.pitch + row;
  return driver.memory().Holds(fill.address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace cupola::sim
