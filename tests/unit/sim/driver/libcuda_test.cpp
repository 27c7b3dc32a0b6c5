// The shared object itself, as a program finds it: what it exports and needs, how calls are looked
// up, and what it says about a call that it lacks.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "tests/paths.h"

namespace {

const std::string kLibrary = std::string(CUPOLA_BINARY_DIR) + "/lib/sim/libcuda.so.1";

std::string Output(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (pipe != nullptr && std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
  if (pipe != nullptr) pclose(pipe);
  return text;
}

/// The defined dynamic symbols of a shared object that begin with "cu".
std::set<std::string> Exports(const std::string& path) {
  std::istringstream lines(Output(CUPOLA_NM " -D --defined-only " + path));
  std::set<std::string> names;
  for (std::string address, type, name; lines >> address >> type >> name;) {
    if (name.rfind("cu", 0) == 0) names.insert(name.substr(0, name.find('@')));
  }
  return names;
}

class LibcudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(kLibrary.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  template <typename Call>
  Call Find(const char* name) {
    auto call = reinterpret_cast<Call>(dlsym(library_, name));
    EXPECT_NE(call, nullptr) << name;
    return call;
  }
  void* library_ = nullptr;
};

TEST_F(LibcudaTest, ExportsWhatTheDriverExports) {
  std::set<std::string> exports = Exports(kLibrary);
  EXPECT_EQ(exports.erase("cupola_take_standard_error"), 1u);  // base/standard_error.h
  EXPECT_EQ(exports, Exports(CUPOLA_STUB_LIBRARY));
}

TEST_F(LibcudaTest, NeedsNothingButTheCLibrary) {
  std::istringstream lines(Output("readelf -d " + kLibrary));
  const std::set<std::string> allowed{"[libc.so.6]", "[libm.so.6]", "[ld-linux-x86-64.so.2]"};
  bool has_soname = false;
  int needed = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string last = line.substr(line.rfind(' ') + 1);
    if (line.find("(NEEDED)") != std::string::npos) {
      ++needed;
      EXPECT_EQ(allowed.count(last), 1u) << line;
    }
    if (line.find("(SONAME)") != std::string::npos) has_soname = last == "[libcuda.so.1]";
  }
  EXPECT_GT(needed, 0);
  EXPECT_TRUE(has_soname);
}

TEST_F(LibcudaTest, LooksUpByVersionAndStreamForm) {
  using Look = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  const Look look = Find<Look>("cuGetProcAddress_v2");
  struct Case {
    const char* name;
    int version;
    cuuint64_t flags;
    const char* symbol;  ///< null: none fits
  };
  const Case cases[] = {
      {"cuMemAlloc", 13000, 0, "cuMemAlloc_v2"},
      {"cuMemAlloc", 2000, 0, "cuMemAlloc"},
      {"cuMemcpyHtoD", 13000, 0, "cuMemcpyHtoD_v2"},
      {"cuMemcpyHtoD", 13000, 2, "cuMemcpyHtoD_v2_ptds"},
      {"cuStreamSynchronize", 13000, 2, "cuStreamSynchronize_ptsz"},
      {"cuStreamSynchronize", 13000, 1, "cuStreamSynchronize"},
      {"cuStreamGetCaptureInfo", 11030, 0, "cuStreamGetCaptureInfo_v2"},
      {"cuStreamGetCaptureInfo", 12030, 0, "cuStreamGetCaptureInfo_v3"},
      {"cuStreamBeginCapture", 13000, 2, "cuStreamBeginCapture_v2_ptsz"},
      {"cuGraphInstantiate", 10000, 0, "cuGraphInstantiate"},
      {"cuGraphInstantiate", 11000, 0, "cuGraphInstantiate_v2"},
      {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
      {"cuInit", 13000, 2, "cuInit"},
      {"cuLibraryLoadData", 11000, 0, nullptr},
      {"cuNoSuchCall", 13000, 0, nullptr},
  };
  for (const Case& one : cases) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status;
    const CUresult result = look(one.name, &found, one.version, one.flags, &status);
    const std::string what = std::string(one.name) + " " + std::to_string(one.version);
    if (one.symbol == nullptr) {
      EXPECT_EQ(result, CUDA_ERROR_NOT_FOUND) << what;
      EXPECT_EQ(found, nullptr) << what;
      continue;
    }
    EXPECT_EQ(result, CUDA_SUCCESS) << what;
    EXPECT_EQ(found, dlsym(library_, one.symbol)) << what << " should be " << one.symbol;
  }
}

// Of the test below, in a process of its own: what is said goes to the standard error of its start.
TEST_F(LibcudaTest, DISABLED_CallWhatIsLacking) {
  using Call = CUresult (*)(void);
  const Call lacking = Find<Call>("cuTexObjectCreate");
  EXPECT_EQ(lacking(), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(lacking(), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(LibcudaTest, ALackingCallSaysItsNameOnce) {
  EXPECT_EQ(Output(std::filesystem::read_symlink("/proc/self/exe").string() +
                   " --gtest_also_run_disabled_tests --gtest_filter=*.DISABLED_CallWhatIsLacking 2>&1 >/dev/null"),
            "cupola simulated device: cuTexObjectCreate is not supported\n");
}

TEST_F(LibcudaTest, EveryErrorHasANameAndAText) {
  using Name = CUresult (*)(CUresult, const char**);
  const Name name = Find<Name>("cuGetErrorName"), text = Find<Name>("cuGetErrorString");
  const char* words = nullptr;
  EXPECT_EQ(name(CUDA_ERROR_ILLEGAL_ADDRESS, &words), CUDA_SUCCESS);
  EXPECT_STREQ(words, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_EQ(text(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, &words), CUDA_SUCCESS);
  EXPECT_STREQ(words, "stream capture unjoined");
  EXPECT_EQ(name(static_cast<CUresult>(12345), &words), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(words, nullptr);
}

// In a process of its own: the driver is one a process.
void UseAGreenContext(void* library) {
  const auto check = [](bool is_right, int line) {
    if (!is_right) _exit(line % 256);
  };
#define GREEN_CALL(name) reinterpret_cast<decltype(&name)>(dlsym(library, #name))
#define GREEN_CHECK(is_right) check(is_right, __LINE__)
  CUdevResource all{}, some[2], rest{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext plain = nullptr, converted = nullptr, of_stream = nullptr;
  CUstream stream = nullptr;
  unsigned int groups = 2;
  GREEN_CHECK(GREEN_CALL(cuInit)(0) == CUDA_SUCCESS);
  GREEN_CHECK(GREEN_CALL(cuDeviceGetDevResource)(0, &all, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
  const auto split = GREEN_CALL(cuDevSmResourceSplitByCount);
  GREEN_CHECK(split(some, &groups, &all, &rest, 0, 1) == CUDA_SUCCESS && groups == 2);
  GREEN_CHECK(some[0].sm.smCount == 1 && rest.sm.smCount == all.sm.smCount - 2);
  GREEN_CHECK(split(some, &groups, &all, nullptr, 0, all.sm.smCount + 1) ==
              CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  GREEN_CHECK(GREEN_CALL(cuDevResourceGenerateDesc)(&description, some, 2) == CUDA_SUCCESS);
  const auto create = GREEN_CALL(cuGreenCtxCreate);
  GREEN_CHECK(create(&green, description, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  GREEN_CHECK(create(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
  const auto convert = GREEN_CALL(cuCtxFromGreenCtx);
  GREEN_CHECK(convert(&converted, green) == CUDA_SUCCESS);
  const auto make_stream = GREEN_CALL(cuGreenCtxStreamCreate);
  GREEN_CHECK(make_stream(&stream, green, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
  GREEN_CHECK(GREEN_CALL(cuStreamGetCtx)(stream, &of_stream) == CUDA_SUCCESS);
  GREEN_CHECK(of_stream == converted);
  GREEN_CHECK(GREEN_CALL(cuDevicePrimaryCtxRetain)(&plain, 0) == CUDA_SUCCESS);
  GREEN_CHECK(convert(&converted, reinterpret_cast<CUgreenCtx>(plain)) ==
              CUDA_ERROR_INVALID_CONTEXT);
  const auto end = GREEN_CALL(cuGreenCtxDestroy);
  GREEN_CHECK(end(green) == CUDA_SUCCESS && end(green) == CUDA_ERROR_INVALID_CONTEXT);
#undef GREEN_CALL
#undef GREEN_CHECK
  _exit(0);
}

TEST_F(LibcudaTest, GreenContextsAreContextsOfTheirOwn) {
  const pid_t child = fork();
  if (child == 0) UseAGreenContext(library_);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "line (mod 256) " << WEXITSTATUS(status) << ", status " << status;
}

TEST_F(LibcudaTest, AForkedChildIsNotInitialized) {
  const auto init = Find<CUresult (*)(unsigned)>("cuInit");
  const auto count = Find<CUresult (*)(int*)>("cuDeviceGetCount");
  int devices = 0;
  ASSERT_EQ(init(0), CUDA_SUCCESS);
  EXPECT_EQ(count(&devices), CUDA_SUCCESS);
  EXPECT_EQ(devices, 1);
  const pid_t child = fork();
  if (child == 0) _exit(count(&devices) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
