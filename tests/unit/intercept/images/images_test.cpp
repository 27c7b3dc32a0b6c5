// Images that come and go: what is loaded beside them, and when it is let go. The clock is the test's.
#include "intercept/images/images.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "device/compiler/store/bundle_writer.h"
#include "intercept/images/variant.h"
#include "intercept/process/driver.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/mutex_lock.h"
#include "tests/unit/intercept/own_calls.h"

namespace cupola::intercept {

namespace {

uint64_t now_ns = 1'000'000'000'000;
uint64_t loads = 0;                  // libraries that were ever loaded
std::set<CUlibrary> loaded;          // those that are loaded now

}  // namespace

uint64_t MonotonicNs() noexcept { return now_ns; }
bool IsDriverSimulated() noexcept { return false; }

namespace {

CUresult Load(CUlibrary* library, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
  *library = reinterpret_cast<CUlibrary>(0x1000 + ++loads);
  loaded.insert(*library);
  return CUDA_SUCCESS;
}
CUresult Unload(CUlibrary library) { return loaded.erase(library) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; }
CUresult GetKernel(CUkernel* kernel, CUlibrary library, const char*) {
  *kernel = reinterpret_cast<CUkernel>(library);
  return CUDA_SUCCESS;
}
CUresult GetFunction(CUfunction* function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
CUresult LoadFunction(CUfunction) { return CUDA_SUCCESS; }

class ImageLife : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    SetCall(Call::k_cuLibraryLoadData, &Load);
    SetCall(Call::k_cuLibraryUnload, &Unload);
    SetCall(Call::k_cuLibraryGetKernel, &GetKernel);
    SetCall(Call::k_cuKernelGetFunction, &GetFunction);
    SetCall(Call::k_cuFuncLoad, &LoadFunction);
    store::BundleWriter writer(90);
    store::BundleKernel kernel;
    kernel.name = "kernel";
    kernel.entry.flags = store::kPreemptible;
    writer.AddKernel(kernel);
    const std::byte code[64] = {};
    writer.SetCode(store::ImageKind::kSide, code, "");
    const auto bytes = writer.Finish();
    ASSERT_TRUE(bytes) << bytes.error().message;
    const std::string path = testing::TempDir() + "images_test." + std::to_string(getpid());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
    setenv("CUPOLA_BUNDLE", path.c_str(), 1);
    OpenVariantStore();
    unlink(path.c_str());
    ASSERT_TRUE(HasVariantStore());
  }

  static constexpr uint64_t kLongNs = 10'000'000'000;  ///< no image that was unloaded stays so long
  const void* const owner_ = reinterpret_cast<void*>(0x100);
  const void* const kernel_ = reinterpret_cast<void*>(0x200);

  /// Loads the program's image, and the library with its variants beside it.
  void LoadAll() {
    RegisterImage(owner_, /*is_library=*/true, "image", nullptr);
    RegisterKernel(kernel_, owner_, "kernel");
    Variant* const variant = FindVariant(kernel_);
    ASSERT_NE(variant, nullptr);
    const MutexLock lock(ImagesMutex());
    EXPECT_NE(FunctionBeside(variant->image, store::ImageKind::kSide, nullptr, nullptr, "side"), nullptr);
  }
};

// The library rests when the image is unloaded, and the next image has it.
TEST_F(ImageLife, AnImageThatIsUnloadedLeavesItsLibraryToTheNext) {
  const uint64_t before = loads;
  for (int round = 0; round < 20; ++round) {
    LoadAll();
    ForgetImage(owner_);
    now_ns += kLongNs;
  }
  EXPECT_LE(loads - before, 1u);
}

// The program's handle comes again, and no hook saw the earlier image being unloaded.
TEST_F(ImageLife, SoDoesAnImageWhoseEndNobodySaw) {
  const uint64_t before = loads;
  for (int round = 0; round < 20; ++round) {
    LoadAll();
    now_ns += kLongNs;
  }
  ForgetImage(owner_);
  EXPECT_LE(loads - before, 2u);
  EXPECT_LE(loaded.size(), 3u);
}

}  // namespace
}  // namespace cupola::intercept
