// Links to no CUDA library at all: opens libcuda.so.1 itself, takes the first functions by dlsym,
// the others, as the CUDA runtime does, from cuGetProcAddress with a version and flags.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <vector>

#include "driver_api_kernels_ptx.h"
#include "support/check_driver.h"
#include "support/checksum.h"

namespace {

struct Driver {
  PFN_cuGetProcAddress_v12000 get_proc_address;
  PFN_cuInit_v2000 init;
  PFN_cuDeviceGet_v2000 device_get;
  PFN_cuDevicePrimaryCtxRetain_v7000 retain;
  PFN_cuCtxSetCurrent_v4000 set_current;
  PFN_cuMemAlloc_v3020 mem_alloc;
  PFN_cuMemFree_v3020 mem_free;
  PFN_cuMemcpyHtoD_v3020 copy_to_device;
  PFN_cuMemcpyDtoH_v3020 copy_to_host;
  PFN_cuModuleLoadData_v2000 load;
  PFN_cuModuleGetFunction_v2000 get_function;
  PFN_cuLaunchKernel_v4000 launch;
  PFN_cuLaunchKernel_v7000_ptsz launch_per_thread;
  PFN_cuStreamSynchronize_v7000_ptsz synchronize_per_thread;
};

template <typename Function>
void FromLibrary(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function != nullptr) return;
  std::fprintf(stderr, "driver_dlopen: %s\n", dlerror());
  std::exit(1);
}

template <typename Function>
void FromDriver(const Driver& driver, const char* name, int version, cuuint64_t flags,
                Function* function) {
  CUdriverProcAddressQueryResult status;
  void* address = nullptr;
  CHECK(driver.get_proc_address(name, &address, version, flags, &status));
  if (status != CU_GET_PROC_ADDRESS_SUCCESS || address == nullptr) {
    std::fprintf(stderr, "driver_dlopen: %s is missing\n", name);
    std::exit(1);
  }
  *function = reinterpret_cast<Function>(address);
}

Driver OpenDriver() {
  Driver driver;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "driver_dlopen: %s\n", dlerror());
    std::exit(1);
  }
  FromLibrary(library, "cuGetProcAddress_v2", &driver.get_proc_address);
  FromLibrary(library, "cuInit", &driver.init);
  FromLibrary(library, "cuLaunchKernel", &driver.launch);
  constexpr cuuint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  FromDriver(driver, "cuDeviceGet", 2000, kLegacy, &driver.device_get);
  FromDriver(driver, "cuDevicePrimaryCtxRetain", 7000, kLegacy, &driver.retain);
  FromDriver(driver, "cuCtxSetCurrent", 4000, kLegacy, &driver.set_current);
  FromDriver(driver, "cuMemAlloc", 3020, kLegacy, &driver.mem_alloc);
  FromDriver(driver, "cuMemFree", 3020, kLegacy, &driver.mem_free);
  FromDriver(driver, "cuMemcpyHtoD", 3020, kLegacy, &driver.copy_to_device);
  FromDriver(driver, "cuMemcpyDtoH", 3020, kLegacy, &driver.copy_to_host);
  FromDriver(driver, "cuModuleLoadData", 2000, kLegacy, &driver.load);
  FromDriver(driver, "cuModuleGetFunction", 2000, kLegacy, &driver.get_function);
  FromDriver(driver, "cuLaunchKernel", 7000, kPerThread, &driver.launch_per_thread);
  FromDriver(driver, "cuStreamSynchronize", 7000, kPerThread, &driver.synchronize_per_thread);
  return driver;
}

}  // namespace

int main(int argc, char** argv) {
  int n = SizeArgument(argc, argv, 3000);
  const size_t bytes = n * sizeof(unsigned);
  const Driver driver = OpenDriver();
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction affine, shift;
  CUdeviceptr data;
  CHECK(driver.init(0));
  CHECK(driver.device_get(&device, 0));
  CHECK(driver.retain(&context, device));
  CHECK(driver.set_current(context));
  CHECK(driver.load(&module, driver_api_kernels_ptx));
  CHECK(driver.get_function(&affine, module, "Affine"));
  CHECK(driver.get_function(&shift, module, "Shift"));

  std::vector<unsigned> out(n), expected(n);
  for (int i = 0; i < n; ++i) {
    out[i] = Mix(i);
    const unsigned value = out[i] * 9 + 6;
    expected[i] = (value << 4) | (value >> 28);
  }
  struct {
    int factor;
    short offset;
  } pair = {9, 6};
  CHECK(driver.mem_alloc(&data, bytes));
  CHECK(driver.copy_to_device(data, out.data(), bytes));
  void* affine_params[] = {&data, &data, &pair, &n};
  void* shift_params[] = {&data, &n};
  const unsigned blocks = (n + 127) / 128;
  CHECK(driver.launch(affine, blocks, 1, 1, 128, 1, 1, 0, nullptr, affine_params, nullptr));
  CHECK(driver.launch_per_thread(shift, blocks, 1, 1, 128, 1, 1, 0, nullptr, shift_params,
                                 nullptr));
  CHECK(driver.synchronize_per_thread(nullptr));
  CHECK(driver.copy_to_host(out.data(), data, bytes));
  CHECK(driver.mem_free(data));

  Checksum sum;
  sum.Add(out);
  std::printf("2 launches through looked-up functions, last word %08x\n", out.back());
  return Report("driver_dlopen", out == expected, sum);
}
