// A program that compiles its kernel while it runs, by NVRTC or nvJitLink, which it opens by dlopen or is linked with
// (late_variants_test.py).
//
//   compiling_app ptx LIBRARY STOP      loads the PTX, and launches the kernel until the file STOP exists; says whether all
//                                       results are right
//   compiling_app cubin LIBRARY         compiles to a cubin, and says how many bytes it has
//   compiling_app jitlink LIBRARY LINKER   compiles to PTX, and links it to a cubin by nvJitLink
//
// LIBRARY is a libnvrtc.so.<n>, LINKER a libnvJitLink.so.<n>.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr char kSource[] =
    "extern \"C\" __global__ void Scale(unsigned* values, unsigned n) {\n"
    "  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) values[i] = values[i] * 3 + 1;\n"
    "}\n";
constexpr unsigned kCount = 4096, kBlock = 128;
constexpr int kPtxInput = 2;  // NVJITLINK_INPUT_PTX

void* Open(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    printf("no %s\n", library);
    exit(77);
  }
  return handle;
}

template <typename Function>
Function Find(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) {
    printf("no %s\n", name);
    exit(77);
  }
  return reinterpret_cast<Function>(found);
}

void Check(int result, const char* call) {
  if (result == 0) return;
  printf("%s: error %d\n", call, result);
  exit(1);
}

/// A program of NVRTC that is compiled.
class Compiled {
 public:
  explicit Compiled(const char* library) : library_(Open(library)) {
    const auto create = Find<int (*)(void**, const char*, const char*, int, const char* const*, const char* const*)>(
        library_, "nvrtcCreateProgram");
    const auto compile = Find<int (*)(void*, int, const char* const*)>(library_, "nvrtcCompileProgram");
    const char* const options[] = {"-arch=sm_90"};
    Check(create(&program_, kSource, "scale.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
    Check(compile(program_, 1, options), "nvrtcCompileProgram");
  }
  std::vector<char> Get(const char* what) const {
    size_t bytes = 0;
    Check(Find<int (*)(void*, size_t*)>(library_, (std::string(what) + "Size").c_str())(program_, &bytes), "size");
    std::vector<char> code(bytes);
    Check(Find<int (*)(void*, char*)>(library_, what)(program_, code.data()), what);
    return code;
  }

 private:
  void* library_;
  void* program_ = nullptr;
};

// The driver's call, under the name that cuda.h maps it to.
#define NAME_OF(call) #call
#define MAKE_CALL(call, ...) Check(Find<decltype(&(call))>(driver, NAME_OF(call))(__VA_ARGS__), #call)

int Launch(const std::vector<char>& ptx, const char* stop) {
  void* const driver = Open("libcuda.so.1");
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CUdeviceptr values;
  MAKE_CALL(cuInit, 0);
  MAKE_CALL(cuDeviceGet, &device, 0);
  MAKE_CALL(cuDevicePrimaryCtxRetain, &context, device);
  MAKE_CALL(cuCtxSetCurrent, context);
  MAKE_CALL(cuModuleLoadData, &module, ptx.data());
  MAKE_CALL(cuModuleGetFunction, &function, module, "Scale");
  MAKE_CALL(cuMemAlloc, &values, kCount * sizeof(uint32_t));
  MAKE_CALL(cuMemsetD32, values, 1, kCount);
  uint32_t expected = 1;
  unsigned count = kCount;
  void* parameters[] = {&values, &count};
  while (access(stop, F_OK) != 0) {
    MAKE_CALL(cuLaunchKernel, function, kCount / kBlock, 1, 1, kBlock, 1, 1, 0, nullptr, parameters, nullptr);
    expected = expected * 3 + 1;
    usleep(10'000);
  }
  std::vector<uint32_t> found(kCount);
  MAKE_CALL(cuMemcpyDtoH, found.data(), values, kCount * sizeof(uint32_t));
  unsigned wrong = 0;
  for (const uint32_t value : found) wrong += value != expected;
  printf("%u wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}

int LinkBy(const char* linker, const std::vector<char>& ptx) {
  void* const library = Open(linker);
  void* link = nullptr;
  const char* options[] = {"-arch=sm_90"};
  Check(Find<int (*)(void**, uint32_t, const char**)>(library, "nvJitLinkCreate")(&link, 1, options), "nvJitLinkCreate");
  Check(Find<int (*)(void*, int, const void*, size_t, const char*)>(library, "nvJitLinkAddData")(
            link, kPtxInput, ptx.data(), ptx.size(), "scale.ptx"),
        "nvJitLinkAddData");
  Check(Find<int (*)(void*)>(library, "nvJitLinkComplete")(link), "nvJitLinkComplete");
  size_t bytes = 0;
  Check(Find<int (*)(void*, size_t*)>(library, "nvJitLinkGetLinkedCubinSize")(link, &bytes), "nvJitLinkGetLinkedCubinSize");
  std::vector<char> cubin(bytes);
  Check(Find<int (*)(void*, char*)>(library, "nvJitLinkGetLinkedCubin")(link, cubin.data()), "nvJitLinkGetLinkedCubin");
  Check(Find<int (*)(void**)>(library, "nvJitLinkDestroy")(&link), "nvJitLinkDestroy");
  printf("a cubin of %zu bytes\n", bytes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string way = argv[1];
  const Compiled compiled(argv[2]);
  if (way == "cubin") {
    printf("a cubin of %zu bytes\n", compiled.Get("nvrtcGetCUBIN").size());
    return 0;
  }
  if (argc < 4) return 2;
  const std::vector<char> ptx = compiled.Get("nvrtcGetPTX");
  return way == "ptx" ? Launch(ptx, argv[3]) : LinkBy(argv[3], ptx);
}
