#include "intercept/batches/batch_kernels.h"

#include <cstring>
#include <new>

#include "intercept/facts/launch_limits.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/packed_launch.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/handle_map.h"

namespace cupola::intercept::batches {
namespace {

HandleMap kernels;  // program's handle -> BatchKernel*
uint32_t known = 0;  // kernels in the map

// The block's dimensions and dynamic shared memory in one word; 0 if no driver accepts such blocks.
uint64_t ShapeOf(const Launch& launch) {
  if (!BlockIsAllowed(launch.block)) return 0;
  return uint64_t{launch.shared_bytes} << 32 | launch.block[0] << 20 | launch.block[1] << 8 | launch.block[2];
}

bool KnowsShape(const BatchKernel& kernel, uint64_t shape) {
  for (uint32_t i = 0; i < kernel.shape_count && i < BatchKernel::kMostShapes; ++i) {
    if (kernel.shapes[i] == shape) return true;
  }
  return false;
}

// The function of a CUfunction or CUkernel: launches take both, but queries about functions only the first.
CUfunction FunctionOf(const void* program) {
  const auto get_function = CUPOLA_CALL_REAL(cuKernelGetFunction, PFN_cuKernelGetFunction_v12000);
  const auto get_name = CUPOLA_CALL_REAL(cuFuncGetName, PFN_cuFuncGetName_v12030);
  const auto as_function = static_cast<CUfunction>(const_cast<void*>(program));
  const char* name = nullptr;
  if (get_name(&name, as_function) == CUDA_SUCCESS) return as_function;
  CUfunction function = nullptr;
  const auto as_kernel = static_cast<CUkernel>(const_cast<void*>(program));
  return get_function(&function, as_kernel) == CUDA_SUCCESS ? function : nullptr;
}

bool HasClusters(CUfunction function) {
  const auto get = CUPOLA_CALL_REAL(cuFuncGetAttribute, PFN_cuFuncGetAttribute_v2020);
  for (const CUfunction_attribute attribute :
       {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH}) {
    int value = 0;
    if (get(&value, attribute, function) == CUDA_SUCCESS && value != 0) return true;
  }
  return false;
}

// Asks where the parameters lie. False: the driver does not tell (before CUDA 12.4), or they are too many.
bool AskParameters(BatchKernel* kernel) {
  const auto info = CUPOLA_CALL_REAL(cuFuncGetParamInfo, PFN_cuFuncGetParamInfo_v12040);
  for (uint32_t i = 0;; ++i) {
    size_t offset = 0, bytes = 0;
    const CUresult result = info(kernel->function, i, &offset, &bytes);
    if (result == CUDA_ERROR_INVALID_VALUE) {
      kernel->parameters = i;
      return true;
    }
    if (result != CUDA_SUCCESS || i == BatchKernel::kMostParameters || offset + bytes > kMostParameterBytes) {
      return false;
    }
    kernel->each[i] = {static_cast<uint16_t>(offset), static_cast<uint16_t>(bytes)};
    kernel->bytes = static_cast<uint32_t>(offset + bytes);
  }
}

BatchKernel* Find(const void* program) {
  return reinterpret_cast<BatchKernel*>(kernels.Find(program, 0));
}

}  // namespace

bool HeldLaunch::IsSame(const HeldLaunch& other) const noexcept {
  return kernel == other.kernel && memcmp(grid, other.grid, sizeof(grid)) == 0 &&
         memcmp(block, other.block, sizeof(block)) == 0 && shared_bytes == other.shared_bytes &&
         bytes == other.bytes && memcmp(parameters, other.parameters, bytes) == 0;
}

const BatchKernel* FindKernel(const Launch& launch, CUcontext context) noexcept {
  const BatchKernel* const kernel = Find(launch.function);
  if (kernel == nullptr || !kernel->is_usable || kernel->context != context) return nullptr;
  return GridIsAllowed(launch.grid) && KnowsShape(*kernel, ShapeOf(launch)) ? kernel : nullptr;
}

const BatchKernel* LearnKernel(const Launch& launch, CUcontext context) noexcept {
  BatchKernel* kernel = Find(launch.function);
  if (kernel == nullptr) {
    kernel = new (std::nothrow) BatchKernel;
    if (kernel == nullptr) return nullptr;
    kernel->program = launch.function;
    kernel->context = context;
    kernel->function = FunctionOf(launch.function);
    kernel->is_usable =
        kernel->function != nullptr && !HasClusters(kernel->function) && AskParameters(kernel);
    if (!kernels.Set(launch.function, reinterpret_cast<uint64_t>(kernel))) {
      delete kernel;
      return nullptr;
    }
    ++known;
  }
  const uint64_t shape = ShapeOf(launch);
  if (shape != 0 && !KnowsShape(*kernel, shape)) {
    kernel->shapes[kernel->shape_count++ % BatchKernel::kMostShapes] = shape;
  }
  return kernel->is_usable && kernel->context == context ? kernel : nullptr;
}

void HeldLaunch::Take(const Launch& launch, const BatchKernel& of) noexcept {
  kernel = &of;
  memcpy(grid, launch.grid, sizeof(grid));
  memcpy(block, launch.block, sizeof(block));
  shared_bytes = launch.shared_bytes;
  bytes = of.bytes;
}

void HeldLaunch::PointAtArguments(void** params) const noexcept {
  for (uint32_t i = 0; i < kernel->parameters; ++i) {
    params[i] = const_cast<std::byte*>(parameters + kernel->each[i].offset);
  }
}

bool CopyLaunch(const Launch& launch, const BatchKernel& kernel,
                HeldLaunch* to) noexcept {
  to->Take(launch, kernel);
  // Clears the padding between arguments too, so that IsSame can compare launches as bytes.
  memset(to->parameters, 0, kernel.bytes);
  return CopyArguments(launch.params, launch.extra, kernel.each, kernel.parameters, kernel.bytes,
                                to->parameters);
}

bool KnowsKernels() noexcept { return known != 0; }

void ForgetKernels() noexcept {
  kernels.EraseIf([](const void*, uint64_t value) {
    delete reinterpret_cast<BatchKernel*>(value);
    return true;
  });
  known = 0;
}

void ForgetKernelsAfterFork() noexcept {
  kernels.ResetAfterFork();
  known = 0;
}

}  // namespace cupola::intercept::batches
