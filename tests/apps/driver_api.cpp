// The driver API without any runtime: modules from PTX text and from a fatbin, a library, launches
// in every form, stream memory operations, module variables, a refused image.
#include <cstddef>
#include <vector>

#include "driver_api_kernels_fatbin.h"
#include "driver_api_kernels_ptx.h"
#include "support/check_driver.h"
#include "support/checksum.h"

namespace {

struct Pair {
  int factor;
  short offset;
};

constexpr unsigned kBlock = 128;

struct Work {
  int n;
  unsigned blocks;
  size_t bytes;
  CUdeviceptr in, out;
  std::vector<unsigned> expected;
};

unsigned Rotated(unsigned value, unsigned by) { return (value << by) | (value >> (32 - by)); }

CUmodule LoadPtx() {
  char info[1024] = "", error[1024] = "";
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {info, reinterpret_cast<void*>(sizeof(info)), error,
                    reinterpret_cast<void*>(sizeof(error))};
  CUmodule module;
  CHECK(cuModuleLoadDataEx(&module, driver_api_kernels_ptx, 4, options, values));
  return module;
}

// out = in * factor + offset by kernelParams, then again in place by a packed buffer.
void LaunchBothWays(Work* work, CUfunction affine, CUstream stream) {
  Pair pair{7, -3};
  void* params[] = {&work->in, &work->out, &pair, &work->n};
  CHECK(cuLaunchKernel(affine, work->blocks, 1, 1, kBlock, 1, 1, 0, stream, params, nullptr));

  struct {
    CUdeviceptr in, out;
    Pair pair;
    int n;
  } packed = {work->out, work->out, {5, 11}, work->n};
  size_t packed_bytes = offsetof(decltype(packed), n) + sizeof(int);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &packed_bytes, CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(affine, work->blocks, 1, 1, kBlock, 1, 1, 0, stream, nullptr, extra));
  for (unsigned& value : work->expected) value = (value * 7 - 3) * 5 + 11;
}

// A variable of the module changed by address, then a launch with an attribute.
void LaunchEx(Work* work, CUmodule module, CUstream stream) {
  CUfunction shift;
  CUdeviceptr shift_by;
  size_t variable_bytes = 0;
  CHECK(cuModuleGetFunction(&shift, module, "Shift"));
  CHECK(cuModuleGetGlobal(&shift_by, &variable_bytes, module, "shift_by"));
  CHECK(cuStreamSynchronize(stream));
  const unsigned nine = 9;
  CHECK(cuMemcpyHtoD(shift_by, &nine, variable_bytes));
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attribute.value.priority = 0;
  CUlaunchConfig config = {};
  config.gridDimX = work->blocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = kBlock;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  void* params[] = {&work->out, &work->n};
  CHECK(cuLaunchKernelEx(&config, shift, params, nullptr));
  for (unsigned& value : work->expected) value = Rotated(value, nine);
}

// The same kernels loaded as a library; the CUkernel handle is launched as it is.
void LaunchFromLibrary(Work* work, CUstream stream) {
  CUlibrary library;
  CUkernel shift;
  CHECK(cuLibraryLoadData(&library, driver_api_kernels_fatbin, nullptr, nullptr, 0, nullptr,
                          nullptr, 0));
  CHECK(cuLibraryGetKernel(&shift, library, "Shift"));
  void* params[] = {&work->out, &work->n};
  CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(shift), work->blocks, 1, 1, kBlock, 1, 1, 0,
                       stream, params, nullptr));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuLibraryUnload(library));
  for (unsigned& value : work->expected) value = Rotated(value, 4);
}

void LaunchCooperative(Work* work, CUmodule module, CUstream stream) {
  CUfunction meet;
  CUdeviceptr arrived;
  CHECK(cuModuleGetFunction(&meet, module, "Meet"));
  CHECK(cuMemAlloc(&arrived, sizeof(unsigned)));
  // On the launch's own stream: a non-blocking one does not wait for the default stream's work.
  CHECK(cuMemsetD32Async(arrived, 0, 1, stream));
  void* params[] = {&work->out, &arrived};
  CHECK(cuLaunchCooperativeKernel(meet, 4, 1, 1, 64, 1, 1, 0, stream, params));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemFree(arrived));
  for (int i = 0; i < 4 * 64; ++i) work->expected[i] ^= 0x04040404u;
}

// `second` may not go on before `first` has written the word.
void OrderByStreamMemory(Work* work, CUmodule module, CUstream first, CUstream second) {
  CUfunction affine;
  CUdeviceptr word;
  CHECK(cuModuleGetFunction(&affine, module, "Affine"));
  CHECK(cuMemAlloc(&word, sizeof(unsigned)));
  CHECK(cuMemsetD32(word, 0, 1));
  CHECK(cuCtxSynchronize());
  Pair one{3, 1}, two{13, 2};
  void* params_one[] = {&work->out, &work->out, &one, &work->n};
  void* params_two[] = {&work->out, &work->out, &two, &work->n};
  CHECK(cuStreamWaitValue32(second, word, 77, CU_STREAM_WAIT_VALUE_EQ));
  CHECK(cuLaunchKernel(affine, work->blocks, 1, 1, kBlock, 1, 1, 0, second, params_two, nullptr));
  CHECK(cuLaunchKernel(affine, work->blocks, 1, 1, kBlock, 1, 1, 0, first, params_one, nullptr));
  CHECK(cuStreamWriteValue32(first, word, 77, CU_STREAM_WRITE_VALUE_DEFAULT));
  CHECK(cuStreamSynchronize(second));
  CHECK(cuMemFree(word));
  for (unsigned& value : work->expected) value = (value * 3 + 1) * 13 + 2;
}

bool CountVisits(CUmodule module) {
  CUfunction visit;
  CUdeviceptr visits;
  size_t bytes = 0;
  unsigned count = 0;
  CHECK(cuModuleGetFunction(&visit, module, "Visit"));
  CHECK(cuLaunchKernel(visit, 3, 2, 1, 5, 4, 2, 0, nullptr, nullptr, nullptr));
  CHECK(cuCtxSynchronize());
  CHECK(cuModuleGetGlobal(&visits, &bytes, module, "visits"));
  CHECK(cuMemcpyDtoH(&count, visits, sizeof(count)));
  return bytes == sizeof(count) && count == 3 * 2 * 5 * 4 * 2;
}

// Mistakes give errors, and the context lives on.
bool RefusesMistakes(CUmodule module) {
  CUmodule damaged_module;
  CUfunction missing;
  const char damaged[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry (((";
  return cuModuleLoadData(&damaged_module, damaged) != CUDA_SUCCESS &&
         cuModuleGetFunction(&missing, module, "NoSuchKernel") == CUDA_ERROR_NOT_FOUND;
}

}  // namespace

int main(int argc, char** argv) {
  Work work;
  work.n = SizeArgument(argc, argv, 5000);
  if (work.n < 256) work.n = 256;
  work.blocks = (work.n + kBlock - 1) / kBlock;
  work.bytes = work.n * sizeof(unsigned);
  for (int i = 0; i < work.n; ++i) work.expected.push_back(Mix(i));

  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CUstream first, second;
  CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&work.in, work.bytes));
  CHECK(cuMemAlloc(&work.out, work.bytes));
  CHECK(cuMemcpyHtoD(work.in, work.expected.data(), work.bytes));
  CHECK(cuCtxSynchronize());  // the streams are non-blocking, the copy is the default stream's

  CUmodule from_fatbin, from_ptx = LoadPtx();
  CUfunction affine;
  CHECK(cuModuleLoadData(&from_fatbin, driver_api_kernels_fatbin));
  CHECK(cuModuleGetFunction(&affine, from_ptx, "Affine"));
  LaunchBothWays(&work, affine, first);
  LaunchEx(&work, from_fatbin, first);
  LaunchFromLibrary(&work, first);
  LaunchCooperative(&work, from_ptx, first);
  OrderByStreamMemory(&work, from_fatbin, first, second);
  const bool visited = CountVisits(from_fatbin);
  const bool refused = RefusesMistakes(from_ptx);

  std::vector<unsigned> out(work.n);
  CHECK(cuMemcpyDtoH(out.data(), work.out, work.bytes));
  CHECK(cuMemFree(work.in));
  CHECK(cuMemFree(work.out));
  CHECK(cuModuleUnload(from_fatbin));
  CHECK(cuModuleUnload(from_ptx));
  CHECK(cuStreamDestroy(first));
  CHECK(cuStreamDestroy(second));
  CHECK(cuDevicePrimaryCtxRelease(device));

  Checksum sum;
  sum.Add(out);
  std::printf("8 launches in 6 forms, last word %08x, visits %s, mistakes %s\n", out.back(),
              visited ? "counted" : "miscounted", refused ? "refused" : "accepted");
  return Report("driver_api", visited && refused && out == work.expected, sum);
}
