// Errors: which is remembered, what it is called, devices that are not there, calls that are
// lacking, processes without a driver or after fork.
#include <thread>
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/unit/sim/cudart/fixture.h"

namespace cupola::cudart_test {
namespace {

using ErrorsTest = CudartTest;

TEST_F(ErrorsTest, TheLastErrorStaysUntilTaken) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(ErrorsTest, NamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaSuccess), "cudaSuccess");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(77777)), "unrecognized error code");
  EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(77777)), "unrecognized error code");
}

TEST_F(ErrorsTest, DevicesAndTheirProperties) {
  int count = 0, value = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
  cudaDeviceProp found;
  ASSERT_EQ(cudaGetDeviceProperties(&found, 0), cudaSuccess);
  EXPECT_EQ(found.major, 9);
  EXPECT_EQ(found.warpSize, 32);
  EXPECT_EQ(found.maxThreadsPerBlock, 1024);
  EXPECT_GT(found.multiProcessorCount, 0);
  EXPECT_GT(found.totalGlobalMem, 0u);
  EXPECT_GT(std::strlen(found.name), 0u);
  ASSERT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  EXPECT_EQ(value, found.multiProcessorCount);
  EXPECT_EQ(cudaGetDeviceProperties(&found, 5), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 5), cudaErrorInvalidDevice);
  char bus[32] = "";
  ASSERT_EQ(cudaDeviceGetPCIBusId(bus, sizeof(bus), 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetByPCIBusId(&value, bus), cudaSuccess);
  EXPECT_EQ(value, 0);
}

TEST_F(ErrorsTest, FlagsOfTheDevice) {
  unsigned flags = 0;
  ASSERT_EQ(cudaGetDeviceFlags(&flags), cudaSuccess);
  EXPECT_EQ(flags, cudaDeviceMapHost) << "before there is a context";
  ASSERT_EQ(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync | cudaDeviceMapHost), cudaSuccess);
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);  // makes a context
  ASSERT_EQ(cudaGetDeviceFlags(&flags), cudaSuccess);
  EXPECT_EQ(flags, static_cast<unsigned>(cudaDeviceScheduleBlockingSync | cudaDeviceMapHost));
  ASSERT_EQ(cudaSetDeviceFlags(cudaDeviceScheduleYield), cudaSuccess);
  ASSERT_EQ(cudaGetDeviceFlags(&flags), cudaSuccess);
  EXPECT_EQ(flags, static_cast<unsigned>(cudaDeviceScheduleYield | cudaDeviceMapHost));
  EXPECT_EQ(cudaSetDeviceFlags(3), cudaErrorInvalidValue) << "two schedules";
  EXPECT_EQ(cudaSetDeviceFlags(0x100), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetDeviceFlags(nullptr), cudaErrorInvalidValue);
  ASSERT_EQ(cudaSetDeviceFlags(0), cudaSuccess);
}

TEST_F(ErrorsTest, NoDeviceIsItsOwnPeer) {
  int can = -1;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 0), cudaSuccess);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaErrorInvalidDevice);
}

TEST_F(ErrorsTest, SharedBytesAreNotCut) {
  uint32_t* word = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&word), 4), cudaSuccess);
  uint32_t value = 1;
  void* args[] = {&word, &value};
  const size_t too_many = size_t{1} << 32;  // the low 32 bits are none
  EXPECT_EQ(cudaLaunchKernel(&store_stub, dim3(1), dim3(1), args, too_many, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaLaunchCooperativeKernel(&store_stub, dim3(1), dim3(1), args, too_many, nullptr),
            cudaErrorInvalidValue);
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1);
  config.dynamicSmemBytes = too_many;
  EXPECT_EQ(cudaLaunchKernelExC(&config, &store_stub, args), cudaErrorInvalidValue);
  int blocks = -1;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &store_stub, 32, too_many),
            cudaSuccess);
  EXPECT_EQ(blocks, 0);
}

TEST_F(ErrorsTest, FunctionsAndTheirAttributes) {
  cudaFuncAttributes found;
  ASSERT_EQ(cudaFuncGetAttributes(&found, &store_stub), cudaSuccess);
  EXPECT_EQ(found.sharedSizeBytes, 256u);
  EXPECT_EQ(found.maxThreadsPerBlock, 1024);
  ASSERT_EQ(cudaFuncSetAttribute(&store_stub, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536),
            cudaSuccess);
  ASSERT_EQ(cudaFuncGetAttributes(&found, &store_stub), cudaSuccess);
  EXPECT_EQ(found.maxDynamicSharedSizeBytes, 65536);
  const char* name = nullptr;
  ASSERT_EQ(cudaFuncGetName(&name, &store_stub), cudaSuccess);
  EXPECT_STREQ(name, "Store");
  int blocks = 0;
  ASSERT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &store_stub, 1024, 0),
            cudaSuccess);
  EXPECT_EQ(blocks, 2);
  EXPECT_EQ(cudaFuncGetAttributes(&found, &missing_stub), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaFuncGetAttributes(&found, nullptr), cudaErrorInvalidDeviceFunction);
  int stranger = 0;
  EXPECT_EQ(cudaFuncGetAttributes(&found, &stranger), cudaErrorInvalidDeviceFunction);
}

TEST_F(ErrorsTest, AResetDeviceIsUsableInEveryThread) {
  void* before = nullptr;
  ASSERT_EQ(cudaMalloc(&before, 256), cudaSuccess);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  void* after = nullptr;
  EXPECT_EQ(cudaMalloc(&after, 256), cudaSuccess);
  cudaError_t in_thread = cudaErrorUnknown;
  std::thread([&in_thread] {
    void* own = nullptr;
    in_thread = cudaMalloc(&own, 256);
  }).join();
  EXPECT_EQ(in_thread, cudaSuccess);
}

TEST_F(ErrorsTest, DriverEntryPoints) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status;
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuDriverGetVersion", &found, 12000,
                                             cudaEnableDefault, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  int version = 0;
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(reinterpret_cast<CUresult (*)(int*)>(found)(&version), CUDA_SUCCESS);
  EXPECT_GE(version, 13000);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNoSuchCall", &found, 12000, cudaEnableDefault,
                                             &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(found, nullptr);
}

// Of the test below, in a process of its own: what is said goes to the standard error of its start.
TEST_F(ErrorsTest, DISABLED_CallWhatIsMissing) {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format{32, 0, 0, 0, cudaChannelFormatKindFloat};
  EXPECT_EQ(cudaMallocArray(&array, &format, 4, 4, 0), cudaErrorNotSupported);
  EXPECT_EQ(cudaMallocArray(&array, &format, 4, 4, 0), cudaErrorNotSupported);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
}

TEST_F(ErrorsTest, AMissingCallNamesItselfOnce) {
  const std::string command =
      std::filesystem::read_symlink("/proc/self/exe").string() +
      " --gtest_also_run_disabled_tests --gtest_filter=*.DISABLED_CallWhatIsMissing 2>&1 >/dev/null";
  FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said;
  for (int c; (c = std::fgetc(pipe)) != EOF;) said += static_cast<char>(c);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(said, "cupola: the simulated device's CUDA runtime lacks cudaMallocArray\n");
}

TEST_F(ErrorsTest, AForkedChildHasNoRuntime) {
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    void* pointer = nullptr;
    _exit(cudaMalloc(&pointer, 64) == cudaErrorInitializationError &&
                  cudaGetLastError() == cudaErrorInitializationError
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

/// Ends the process: 0 where the answers are those of a machine without a driver, or there is one.
[[noreturn]] void AskWithoutDriver() {
  unsetenv("LD_LIBRARY_PATH");
  int version = -1, count = -1;
  const bool as_documented =
      cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver && count == 0 &&
      cudaGetLastError() == cudaErrorInsufficientDriver &&
      cudaDriverGetVersion(&version) == cudaSuccess && version == 0;
  const bool has_driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr;
  _exit(as_documented || has_driver ? 0 : 1);
}

// Not of the fixture: it runs in a new process, which never loads the simulated driver.
TEST(NoDriverDeathTest, IsAnInsufficientOne) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(AskWithoutDriver(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cupola::cudart_test
