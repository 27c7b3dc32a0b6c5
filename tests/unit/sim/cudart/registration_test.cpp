// Modules that are registered and given up again, as a plug-in's are when it is closed.
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/paths.h"
#include "tests/unit/sim/cudart/fixture.h"

extern "C" void __cudaUnregisterFatBinary(void** handle);

namespace cupola::cudart_test {
namespace {

constexpr size_t kTableBytes = 4 << 20;
char own_stub, own_symbol;

/// A kernel `Own`, which waits for a word and stores its value, and 4 MiB of variables.
std::string OwnModule() {
  return R"(.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .b8 table[)" + std::to_string(kTableBytes) + R"(];
.visible .entry Own(.param .u64 wait, .param .u64 to)
{
  .reg .b64 %rd<3>; .reg .b32 %r<2>; .reg .pred %p;
  ld.param.u64 %rd1, [wait];
  ld.param.u64 %rd2, [to];
LOOP:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p, %r1, 0;
  @%p bra LOOP;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";
}

void** Register(const std::string& image) {
  void** handle = __cudaRegisterFatBinary(const_cast<char*>(image.c_str()));
  char kernel[] = "Own", table[] = "table";
  __cudaRegisterFunction(handle, &own_stub, kernel, kernel, -1, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  __cudaRegisterVar(handle, &own_symbol, table, table, 0, kTableBytes, 0, 0);
  __cudaRegisterFatBinaryEnd(handle);
  return handle;
}

class RegistrationTest : public CudartTest {
 protected:
  void SetUp() override {
    CudartTest::SetUp();
    ASSERT_EQ(cudaMallocManaged(reinterpret_cast<void**>(&words_), 8, cudaMemAttachGlobal),
              cudaSuccess);
    words_[0] = 5;
    words_[1] = 0;
  }
  cudaError_t Launch(const void* function) {
    uint32_t *wait = words_, *to = words_ + 1;
    void* args[] = {&wait, &to};
    return cudaLaunchKernel(function, dim3(1), dim3(1), args, 0, nullptr);
  }
  static size_t FreeBytes() {
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return free;
  }
  uint32_t* words_ = nullptr;
};

TEST_F(RegistrationTest, WhatIsGivenUpIsUnloadedAndForgotten) {
  const std::string image = OwnModule();
  const size_t before = FreeBytes();
  void** handle = Register(image);
  EXPECT_EQ(FreeBytes(), before) << "loaded at first use";
  ASSERT_EQ(Launch(&own_stub), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(words_[1], 5u);
  EXPECT_LE(FreeBytes() + kTableBytes, before);
  cudaKernel_t kernel = nullptr;
  ASSERT_EQ(cudaGetKernel(&kernel, &own_stub), cudaSuccess);
  __cudaUnregisterFatBinary(handle);
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(Launch(&own_stub), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(Launch(kernel), cudaErrorInvalidDeviceFunction);
  void* address = nullptr;
  EXPECT_EQ(cudaGetSymbolAddress(&address, &own_symbol), cudaErrorInvalidSymbol);
  // The same addresses may come back with another image, as after closing and opening a plug-in.
  void** again = Register(image);
  words_[0] = 6;
  ASSERT_EQ(Launch(&own_stub), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(words_[1], 6u);
  __cudaUnregisterFatBinary(again);
}

TEST_F(RegistrationTest, WhatWasNeverUsedIsOnlyForgotten) {
  const size_t before = FreeBytes();
  const std::string image = OwnModule();
  __cudaUnregisterFatBinary(Register(image));
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(Launch(&own_stub), cudaErrorInvalidDeviceFunction);
}

/// Ends by exit() with a kernel that runs for ever; as a program's, the handler that gives up the
/// module was there before CUDA was used.
[[noreturn]] void ExitWithARunningKernel() {
  static const std::string image = OwnModule();
  static void** handle = Register(image);
  std::atexit([] { __cudaUnregisterFatBinary(handle); });
  uint32_t* words = nullptr;
  if (dlopen((std::string(CUPOLA_BINARY_DIR) + "/lib/sim/libcuda.so.1").c_str(), RTLD_NOW) == nullptr) _exit(3);
  if (cudaMallocManaged(reinterpret_cast<void**>(&words), 8, cudaMemAttachGlobal) != cudaSuccess) {
    _exit(4);
  }
  words[0] = 0;
  uint32_t* to = words + 1;
  void* args[] = {&words, &to};
  if (cudaLaunchKernel(&own_stub, dim3(1), dim3(1), args, 0, nullptr) != cudaSuccess) _exit(5);
  alarm(20);
  exit(0);
}

TEST(ExitDeathTest, WaitsForNoKernel) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(ExitWithARunningKernel(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cupola::cudart_test
