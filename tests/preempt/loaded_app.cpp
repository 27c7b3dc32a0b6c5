// Takes a kernel from a file, one way or the other, and runs it: loaded_app module|library|data FILE.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/apps/support/check_driver.h"

namespace {

constexpr unsigned kBlocks = 3000;

template <typename Function>
Function Find(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const found = driver != nullptr ? dlsym(driver, name) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "loaded_app: %s\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Function>(found);
}

CUfunction Load(const std::string& how, const char* file) {
  CUfunction function;
  if (how == "library") {
    CUlibrary library;
    CUkernel kernel;
    CHECK(Find<PFN_cuLibraryLoadFromFile_v12000>("cuLibraryLoadFromFile")(
        &library, file, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(Find<PFN_cuLibraryGetKernel_v12000>("cuLibraryGetKernel")(&kernel, library, "Scale"));
    CHECK(Find<PFN_cuKernelGetFunction_v12000>("cuKernelGetFunction")(&function, kernel));
    return function;
  }
  CUmodule module;
  if (how == "module") {
    CHECK(Find<PFN_cuModuleLoad_v2000>("cuModuleLoad")(&module, file));
  } else {
    std::ifstream in(file, std::ios::binary);
    std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    bytes.push_back(0);
    CHECK(Find<PFN_cuModuleLoadData_v2000>("cuModuleLoadData")(&module, bytes.data()));
  }
  CHECK(Find<PFN_cuModuleGetFunction_v2000>("cuModuleGetFunction")(&function, module, "Scale"));
  return function;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  CUdevice device;
  CUcontext context;
  CUdeviceptr out;
  CHECK(Find<PFN_cuInit_v2000>("cuInit")(0));
  CHECK(Find<PFN_cuDeviceGet_v2000>("cuDeviceGet")(&device, 0));
  CHECK(Find<PFN_cuDevicePrimaryCtxRetain_v7000>("cuDevicePrimaryCtxRetain")(&context, device));
  CHECK(Find<PFN_cuCtxSetCurrent_v4000>("cuCtxSetCurrent")(context));
  const CUfunction scale = Load(argv[1], argv[2]);
  CHECK(Find<PFN_cuMemAlloc_v3020>("cuMemAlloc_v2")(&out, 4 * kBlocks));
  CHECK(Find<PFN_cuMemsetD8_v3020>("cuMemsetD8_v2")(out, 0, 4 * kBlocks));
  void* arguments[] = {&out};
  CHECK(Find<PFN_cuLaunchKernel_v4000>("cuLaunchKernel")(scale, kBlocks, 1, 1, 32, 1, 1, 0, nullptr,
                                                         arguments, nullptr));
  std::vector<unsigned> values(kBlocks);
  CHECK(Find<PFN_cuMemcpyDtoH_v3020>("cuMemcpyDtoH_v2")(values.data(), out, 4 * kBlocks));
  for (unsigned i = 0; i < kBlocks; ++i) {
    if (values[i] != i * 3 + 1) return std::printf("value %u is %u\n", i, values[i]), 1;
  }
  std::printf("%u values\n", kBlocks);
  return 0;
}
