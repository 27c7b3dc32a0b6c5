// The calls cuFunc*, those for attributes of kernels, and those for occupancy.
#include <algorithm>

#include "device/sim/driver/api.h"

using namespace cupola::sim;  // NOLINT

namespace {

/// The function that the handle means in the current context: a CUfunction, or a CUkernel cast to
/// one.
CUresult Find(CUfunction handle, Driver** driver, std::shared_ptr<Function>* function) {
  Context* context;
  SIM_TRY(Enter(driver, &context));
  return (*driver)->ResolveFunction(*context, handle, function);
}

CUresult FindExact(CUfunction handle, Driver** driver, std::shared_ptr<Function>* function) {
  SIM_TRY(Enter(driver));
  *function = (*driver)->functions.Find(handle);
  return *function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult Get(const Function& function, CUfunction_attribute attribute, int* value) {
  const KernelInfo& info = *function.info;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(info.max_threads_per_block);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(info.static_shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = static_cast<int>(info.local_bytes); break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = static_cast<int>(info.registers); break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(function.max_dynamic_shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = function.shared_carveout;
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: *value = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult Set(Driver& driver, Function& function, CUfunction_attribute attribute, int value) {
  const int64_t most = static_cast<int64_t>(driver.device().config().max_shared_bytes_per_block) -
                       function.info->static_shared_bytes;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value > most) return CUDA_ERROR_INVALID_VALUE;
      function.max_dynamic_shared_bytes = static_cast<uint32_t>(value);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      function.shared_carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      SayLacks("a kernel with thread block clusters");
      return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult ParamInfoOf(const Function& function, size_t index, size_t* offset, size_t* bytes) {
  if (index >= function.info->params.size() || offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *offset = function.info->params[index].offset;
  if (bytes != nullptr) *bytes = function.info->params[index].size;
  return CUDA_SUCCESS;
}

/// A function of the kernel, for calls that need no current context: that of the current context if
/// the library is loaded there, else that of the library's spare module, else that of any context.
CUresult FindKernel(CUkernel handle, CUdevice device, Driver** driver,
                    std::shared_ptr<Function>* function) {
  SIM_TRY(Enter(driver));
  SIM_TRY(CheckDevice(device));
  std::shared_ptr<Kernel> kernel = (*driver)->kernels.Find(handle);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(kernel->library->mutex);
  Context* current = (*driver)->Current();
  auto own = kernel->library->modules.find(current);
  if (own != kernel->library->modules.end()) {
    *function = own->second->functions[kernel->index];
  } else if (kernel->library->spare) {
    *function = kernel->library->spare->functions[kernel->index];
  } else if (!kernel->library->modules.empty()) {
    *function = kernel->library->modules.begin()->second->functions[kernel->index];
  }
  return *function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace

SIM_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                       CUfunction handle) {
  Driver* driver;
  std::shared_ptr<Function> function;
  SIM_TRY(FindExact(handle, &driver, &function));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Get(*function, attribute, value);
}

SIM_EXPORT CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute,
                                       int value) {
  Driver* driver;
  std::shared_ptr<Function> function;
  SIM_TRY(FindExact(handle, &driver, &function));
  return Set(*driver, *function, attribute, value);
}

SIM_EXPORT CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute,
                                         CUkernel handle, CUdevice device) {
  Driver* driver;
  std::shared_ptr<Function> function;
  SIM_TRY(FindKernel(handle, device, &driver, &function));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Get(*function, attribute, value);
}

SIM_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                                         CUdevice device) {
  Driver* driver;
  std::shared_ptr<Function> function;
  SIM_TRY(FindKernel(handle, device, &driver, &function));
  return Set(*driver, *function, attribute, value);
}

SIM_EXPORT CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset,
                                         size_t* bytes) {
  Driver* driver;
  std::shared_ptr<Function> function;
  SIM_TRY(FindKernel(handle, 0, &driver, &function));
  return ParamInfoOf(*function, index, offset, bytes);
}

SIM_EXPORT CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset,
                                       size_t* bytes) {
  Driver* driver;
  std::shared_ptr<Function> function;
  SIM_TRY(FindExact(handle, &driver, &function));
  return ParamInfoOf(*function, index, offset, bytes);
}

SIM_EXPORT CUresult cuFuncGetName(const char** name, CUfunction handle) {
  Driver* driver;
  std::shared_ptr<Function> function;
  SIM_TRY(FindExact(handle, &driver, &function));
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = function->info->name.c_str();
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
  Driver* driver;
  std::shared_ptr<Function> function;
  SIM_TRY(FindExact(handle, &driver, &function));
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = reinterpret_cast<CUmodule>(function->module);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncLoad(CUfunction handle) {
  Driver* driver;
  std::shared_ptr<Function> function;
  return FindExact(handle, &driver, &function);
}

SIM_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  SIM_TRY(cuFuncLoad(handle));
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache) {
  return cuFuncLoad(handle);  // only a hint, without effect here
}
SIM_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig) {
  return cuFuncLoad(handle);  // only a hint
}
SIM_EXPORT CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache, CUdevice device) {
  Driver* driver;
  std::shared_ptr<Function> function;
  return FindKernel(handle, device, &driver, &function);  // only a hint
}

SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction handle, int threads, size_t dynamic_bytes, unsigned int) {
  Driver* driver;
  std::shared_ptr<Function> function;
  SIM_TRY(Find(handle, &driver, &function));
  if (blocks == nullptr || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  *blocks = 0;
  const DeviceConfig& config = driver->device().config();
  if (dynamic_bytes > config.max_shared_bytes_per_block || threads > 1024) return CUDA_SUCCESS;
  *blocks = static_cast<int>(driver->device().MaxResidentBlocks(
      *function->info, static_cast<uint32_t>(threads), static_cast<uint32_t>(dynamic_bytes)));
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle,
                                                                int threads, size_t dynamic_bytes) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, threads,
                                                              dynamic_bytes, 0);
}

SIM_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* min_grid, int* block, CUfunction handle, CUoccupancyB2DSize bytes_of, size_t dynamic_bytes,
    int limit, unsigned int flags) {
  Driver* driver;
  std::shared_ptr<Function> function;
  SIM_TRY(Find(handle, &driver, &function));
  if (min_grid == nullptr || block == nullptr || limit < 0) return CUDA_ERROR_INVALID_VALUE;
  const int most = static_cast<int>(function->info->max_threads_per_block);
  int best_threads = 0, best_blocks = 0, best = 0;
  for (int threads = limit == 0 ? most : std::min(limit, most); threads > 0;
       threads = (threads - 1) / 32 * 32) {
    int blocks = 0;
    const size_t bytes = bytes_of != nullptr ? bytes_of(threads) : dynamic_bytes;
    SIM_TRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, handle, threads, bytes,
                                                                 flags));
    if (blocks * threads <= best) continue;
    best = blocks * threads;
    best_threads = threads;
    best_blocks = blocks;
  }
  *block = best_threads;
  *min_grid = best_blocks * static_cast<int>(driver->device().config().sm_count);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* min_grid, int* block, CUfunction handle,
                                                     CUoccupancyB2DSize bytes_of,
                                                     size_t dynamic_bytes, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block, handle, bytes_of, dynamic_bytes,
                                                   limit, 0);
}

SIM_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle,
                                                            int blocks, int threads) {
  Driver* driver;
  std::shared_ptr<Function> function;
  SIM_TRY(Find(handle, &driver, &function));
  if (bytes == nullptr || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  const DeviceConfig& config = driver->device().config();
  const uint64_t reserved = 1024 + uint64_t{function->info->static_shared_bytes};
  const uint64_t share = config.shared_bytes_per_sm / static_cast<uint64_t>(blocks);
  const uint64_t most = config.max_shared_bytes_per_block - function->info->static_shared_bytes;
  *bytes = share > reserved ? std::min(share - reserved, most) : 0;
  return CUDA_SUCCESS;
}
