// The calls cuMemcpy* and cuMemset*.
#include "device/sim/driver/api.h"
#include "device/sim/driver/copy.h"

using namespace cupola::sim;  // NOLINT

namespace {

CUresult Linear(DefaultStream null_means, CUstream handle, CUdeviceptr destination,
                CUdeviceptr source, size_t bytes, CopyDirection direction, CopyForm form) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  CopyWork copy{.source = source, .destination = destination, .width_bytes = bytes};
  return Copy(*driver, *stream, std::move(copy), direction, form);
}

uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

CUresult Box(DefaultStream null_means, CUstream handle, const CUDA_MEMCPY3D* box, CopyForm form) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  if (box == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CopyBox(*driver, *stream, *box, form);
}

CUDA_MEMCPY3D ToBox(const CUDA_MEMCPY2D& flat) {
  CUDA_MEMCPY3D box{};
  box.srcXInBytes = flat.srcXInBytes;
  box.srcY = flat.srcY;
  box.srcMemoryType = flat.srcMemoryType;
  box.srcHost = flat.srcHost;
  box.srcDevice = flat.srcDevice;
  box.srcArray = flat.srcArray;
  box.srcPitch = flat.srcPitch;
  box.dstXInBytes = flat.dstXInBytes;
  box.dstY = flat.dstY;
  box.dstMemoryType = flat.dstMemoryType;
  box.dstHost = flat.dstHost;
  box.dstDevice = flat.dstDevice;
  box.dstArray = flat.dstArray;
  box.dstPitch = flat.dstPitch;
  box.WidthInBytes = flat.WidthInBytes;
  box.Height = flat.Height;
  box.Depth = 1;
  return box;
}

CUresult Flat(DefaultStream null_means, CUstream handle, const CUDA_MEMCPY2D* flat, CopyForm form) {
  if (flat == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY3D box = ToBox(*flat);
  return Box(null_means, handle, &box, form);
}

CUresult Fill(DefaultStream null_means, CUstream handle, const FillWork& fill, CopyForm form) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  SIM_TRY(CheckFill(*driver, fill));
  // CUDA driver API, "API synchronization behavior", "Memset": a fill is asynchronous unless the target
  // is pinned host memory or managed memory.
  const std::optional<Allocation> target = driver->memory().Find(fill.address);
  const bool is_on_host = target && (target->is_host() || target->kind == MemoryKind::kManaged);
  if (form == CopyForm::kPlain && is_on_host) return driver->EnqueueAndWait(*stream, fill);
  return driver->Enqueue(*stream, fill);
}

constexpr CopyForm kPlain = CopyForm::kPlain;
constexpr CopyForm kAsync = CopyForm::kAsync;

}  // namespace

SIM_CALL_BOTH(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void* from, size_t bytes),
              (to, from, bytes)) {
  return Linear(null_means, nullptr, to, Address(from), bytes, CopyDirection::kHostToDevice,
                kPlain);
}
SIM_CALL_BOTH(cuMemcpyDtoH_v2, _ptds, (void* to, CUdeviceptr from, size_t bytes),
              (to, from, bytes)) {
  return Linear(null_means, nullptr, Address(to), from, bytes, CopyDirection::kDeviceToHost,
                kPlain);
}
SIM_CALL_BOTH(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
              (to, from, bytes)) {
  return Linear(null_means, nullptr, to, from, bytes, CopyDirection::kDeviceToDevice, kPlain);
}
SIM_CALL_BOTH(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
              (to, from, bytes)) {
  return Linear(null_means, nullptr, to, from, bytes, CopyDirection::kUnified, kPlain);
}
SIM_CALL_BOTH(cuMemcpyHtoDAsync_v2, _ptsz,
              (CUdeviceptr to, const void* from, size_t bytes, CUstream stream),
              (to, from, bytes, stream)) {
  return Linear(null_means, stream, to, Address(from), bytes, CopyDirection::kHostToDevice, kAsync);
}
SIM_CALL_BOTH(cuMemcpyDtoHAsync_v2, _ptsz,
              (void* to, CUdeviceptr from, size_t bytes, CUstream stream),
              (to, from, bytes, stream)) {
  return Linear(null_means, stream, Address(to), from, bytes, CopyDirection::kDeviceToHost, kAsync);
}
SIM_CALL_BOTH(cuMemcpyDtoDAsync_v2, _ptsz,
              (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
              (to, from, bytes, stream)) {
  return Linear(null_means, stream, to, from, bytes, CopyDirection::kDeviceToDevice, kAsync);
}
SIM_CALL_BOTH(cuMemcpyAsync, _ptsz,
              (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
              (to, from, bytes, stream)) {
  return Linear(null_means, stream, to, from, bytes, CopyDirection::kUnified, kAsync);
}

// CUDA may make the copies of a batch in any order, so making them one after the other is correct.
// `attributes` holds hints and when the sources are read; neither makes a difference here. The default
// streams are refused.
SIM_CALL_BOTH(cuMemcpyBatchAsync_v2, _ptsz,
              (CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
               CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count, CUstream stream),
              (to, from, bytes, count, attributes, indices, attribute_count, stream)) {
  const bool is_default = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  if (to == nullptr || from == nullptr || bytes == nullptr || count == 0 || attributes == nullptr ||
      indices == nullptr || attribute_count == 0 || attribute_count > count || is_default) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    SIM_TRY(Linear(null_means, stream, to[i], from[i], bytes[i], CopyDirection::kUnified, kAsync));
  }
  return CUDA_SUCCESS;
}

SIM_CALL_BOTH(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* box), (box)) {
  return Flat(null_means, nullptr, box, kPlain);
}
SIM_CALL_BOTH(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* box), (box)) {
  return Flat(null_means, nullptr, box, kPlain);
}
SIM_CALL_BOTH(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* box, CUstream stream),
              (box, stream)) {
  return Flat(null_means, stream, box, kAsync);
}
SIM_CALL_BOTH(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* box), (box)) {
  return Box(null_means, nullptr, box, kPlain);
}
SIM_CALL_BOTH(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* box, CUstream stream),
              (box, stream)) {
  return Box(null_means, stream, box, kAsync);
}

SIM_CALL_BOTH(cuMemsetD8_v2, _ptds, (CUdeviceptr to, unsigned char value, size_t count),
              (to, value, count)) {
  return Fill(null_means, nullptr, {to, 0, value, 1, count, 1}, kPlain);
}
SIM_CALL_BOTH(cuMemsetD16_v2, _ptds, (CUdeviceptr to, unsigned short value, size_t count),
              (to, value, count)) {
  return Fill(null_means, nullptr, {to, 0, value, 2, count, 1}, kPlain);
}
SIM_CALL_BOTH(cuMemsetD32_v2, _ptds, (CUdeviceptr to, unsigned int value, size_t count),
              (to, value, count)) {
  return Fill(null_means, nullptr, {to, 0, value, 4, count, 1}, kPlain);
}
SIM_CALL_BOTH(cuMemsetD2D8_v2, _ptds,
              (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height),
              (to, pitch, value, width, height)) {
  return Fill(null_means, nullptr, {to, pitch, value, 1, width, height}, kPlain);
}
SIM_CALL_BOTH(cuMemsetD2D16_v2, _ptds,
              (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height),
              (to, pitch, value, width, height)) {
  return Fill(null_means, nullptr, {to, pitch, value, 2, width, height}, kPlain);
}
SIM_CALL_BOTH(cuMemsetD2D32_v2, _ptds,
              (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height),
              (to, pitch, value, width, height)) {
  return Fill(null_means, nullptr, {to, pitch, value, 4, width, height}, kPlain);
}
SIM_CALL_BOTH(cuMemsetD8Async, _ptsz,
              (CUdeviceptr to, unsigned char value, size_t count, CUstream stream),
              (to, value, count, stream)) {
  return Fill(null_means, stream, {to, 0, value, 1, count, 1}, kAsync);
}
SIM_CALL_BOTH(cuMemsetD16Async, _ptsz,
              (CUdeviceptr to, unsigned short value, size_t count, CUstream stream),
              (to, value, count, stream)) {
  return Fill(null_means, stream, {to, 0, value, 2, count, 1}, kAsync);
}
SIM_CALL_BOTH(cuMemsetD32Async, _ptsz,
              (CUdeviceptr to, unsigned int value, size_t count, CUstream stream),
              (to, value, count, stream)) {
  return Fill(null_means, stream, {to, 0, value, 4, count, 1}, kAsync);
}
SIM_CALL_BOTH(cuMemsetD2D8Async, _ptsz,
              (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
               CUstream stream),
              (to, pitch, value, width, height, stream)) {
  return Fill(null_means, stream, {to, pitch, value, 1, width, height}, kAsync);
}
SIM_CALL_BOTH(cuMemsetD2D16Async, _ptsz,
              (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
               CUstream stream),
              (to, pitch, value, width, height, stream)) {
  return Fill(null_means, stream, {to, pitch, value, 2, width, height}, kAsync);
}
SIM_CALL_BOTH(cuMemsetD2D32Async, _ptsz,
              (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
               CUstream stream),
              (to, pitch, value, width, height, stream)) {
  return Fill(null_means, stream, {to, pitch, value, 4, width, height}, kAsync);
}
