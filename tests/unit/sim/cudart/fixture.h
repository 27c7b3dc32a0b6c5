// A fixture for the tests of the simulated runtime: it loads the simulated driver under the name for
// which the runtime asks, and registers a module as nvcc's host code does. Under ctest each case has a
// process of its own.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/paths.h"

extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                            int threads, void*, void*, void*, void*, int*);
void __cudaRegisterVar(void** handle, char* host, char* address, const char* name, int is_extern,
                       size_t bytes, int is_constant, int is_global);
}

namespace cupola::cudart_test {

inline char store_stub;    // stands for the host function of the kernel
inline char missing_stub;  // registered, but not in the module
inline int word_symbol;    // stands for the host's shadow of the variable

inline constexpr char kModule[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 word = 3;
.visible .entry Store(.param .u64 to, .param .u32 value)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  .shared .align 4 .b8 room[256];
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [value];
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

/// Loads the driver and registers kModule.
class CudartTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_NE(dlopen((std::string(CUPOLA_BINARY_DIR) + "/lib/sim/libcuda.so.1").c_str(), RTLD_NOW), nullptr) << dlerror();
    static void** handle = nullptr;
    if (handle != nullptr) return;
    handle = __cudaRegisterFatBinary(const_cast<char*>(kModule));
    char name[] = "Store";
    char missing[] = "NotThere";
    char word[] = "word";
    __cudaRegisterFunction(handle, &store_stub, name, name, -1, nullptr, nullptr, nullptr, nullptr,
                           nullptr);
    __cudaRegisterFunction(handle, &missing_stub, missing, missing, -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
    __cudaRegisterVar(handle, reinterpret_cast<char*>(&word_symbol), word, word, 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
  }
  void SetUp() override { cudaGetLastError(); }

  static cudaError_t Store(void* to, uint32_t value, cudaStream_t stream = nullptr) {
    void* args[] = {&to, &value};
    return cudaLaunchKernel(&store_stub, dim3(1), dim3(1), args, 0, stream);
  }
};

}  // namespace cupola::cudart_test
