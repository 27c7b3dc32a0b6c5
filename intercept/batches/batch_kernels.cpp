#include "intercept/batches/batch_kernels.h"

#include <cstring>
#include <new>

#include "intercept/driver_calls.h"
#include "intercept/handle_map.h"
#include "intercept/launch_path.h"
#include "intercept/preempt/launch_arguments.h"

namespace cupola::intercept::batches {
namespace {

HandleMap kernels;  // program's handle -> BatchKernel*

// What a block needs of an SM; 0 where no driver takes such blocks.
uint64_t ShapeOf(const LaunchFacts& facts) {
  constexpr uint32_t kMostXY = 1024, kMostZ = 64;
  const uint32_t x = facts.block[0], y = facts.block[1], z = facts.block[2];
  if (x > kMostXY || y > kMostXY || z > kMostZ || x == 0 || y == 0 || z == 0) return 0;
  return uint64_t{facts.shared_bytes} << 32 | x << 20 | y << 8 | z;
}

bool GridIsAllowed(const LaunchFacts& facts) {
  constexpr uint32_t kMostX = INT32_MAX, kMostYZ = 65'535;
  return facts.grid[0] - 1 < kMostX && facts.grid[1] - 1 < kMostYZ && facts.grid[2] - 1 < kMostYZ;
}

bool KnowsShape(const BatchKernel& kernel, uint64_t shape) {
  for (uint32_t i = 0; i < kernel.shape_count && i < BatchKernel::kMostShapes; ++i) {
    if (kernel.shapes[i] == shape) return true;
  }
  return false;
}

// Launches take a CUkernel too; what asks about a function does not.
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

// False: the driver does not tell where the parameters lie (before CUDA 12.4), or they are too many.
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

const BatchKernel* FindKernel(const LaunchFacts& facts, CUcontext context) noexcept {
  const BatchKernel* const kernel = Find(facts.function);
  if (kernel == nullptr || !kernel->is_usable || kernel->context != context) return nullptr;
  return GridIsAllowed(facts) && KnowsShape(*kernel, ShapeOf(facts)) ? kernel : nullptr;
}

const BatchKernel* LearnKernel(const LaunchFacts& facts, CUcontext context) noexcept {
  BatchKernel* kernel = Find(facts.function);
  if (kernel == nullptr) {
    kernel = new (std::nothrow) BatchKernel;
    if (kernel == nullptr) return nullptr;
    kernel->program = facts.function;
    kernel->context = context;
    kernel->function = FunctionOf(facts.function);
    kernel->is_usable =
        kernel->function != nullptr && !HasClusters(kernel->function) && AskParameters(kernel);
    kernels.Set(facts.function, reinterpret_cast<uint64_t>(kernel));
  }
  const uint64_t shape = ShapeOf(facts);
  if (shape != 0 && !KnowsShape(*kernel, shape)) {
    kernel->shapes[kernel->shape_count++ % BatchKernel::kMostShapes] = shape;
  }
  return kernel->is_usable && kernel->context == context ? kernel : nullptr;
}

bool CopyLaunch(const LaunchFacts& facts, const LaunchDetails& details, const BatchKernel& kernel,
                HeldLaunch* to) noexcept {
  to->kernel = &kernel;
  memcpy(to->grid, facts.grid, sizeof(to->grid));
  memcpy(to->block, facts.block, sizeof(to->block));
  to->shared_bytes = facts.shared_bytes;
  to->bytes = kernel.bytes;
  if (details.params != nullptr && details.extra != nullptr) return false;
  if (details.extra != nullptr) {
    const std::byte* buffer = nullptr;
    size_t bytes = 0;
    if (!preempt::UnpackExtra(details.extra, &buffer, &bytes) || bytes != kernel.bytes) return false;
    if (bytes != 0 && buffer == nullptr) return false;
    if (bytes != 0) memcpy(to->parameters, buffer, bytes);
    return true;
  }
  if (kernel.parameters == 0) return true;
  if (details.params == nullptr) return false;
  // Two launches with equal arguments are to be equal in the bytes between these too.
  memset(to->parameters, 0, kernel.bytes);
  for (uint32_t i = 0; i < kernel.parameters; ++i) {
    if (details.params[i] == nullptr) return false;
    memcpy(to->parameters + kernel.each[i].offset, details.params[i], kernel.each[i].bytes);
  }
  return true;
}

void ForgetKernels() noexcept {
  kernels.EraseIf([](const void*, uint64_t value) {
    delete reinterpret_cast<BatchKernel*>(value);
    return true;
  });
}

}  // namespace cupola::intercept::batches
