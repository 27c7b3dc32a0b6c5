// Images good and bad, launches, faults that stick.
#include <cstring>

#include "tests/unit/sim/driver/fixture.h"

namespace cupola::sim {
namespace {

constexpr char kStore[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 counter = 3;
.visible .entry Store(.param .u64 to, .param .u32 value)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [value];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry Trap()
{
  trap;
}
)";

class ModuleTest : public DriverTest {
 protected:
  std::shared_ptr<Module> Load(const char* ptx) {
    std::shared_ptr<Module> module;
    const LoadFailure failure = driver_.LoadModuleImage(context_, ptx, &module);
    EXPECT_EQ(failure.result, CUDA_SUCCESS) << failure.message;
    return module;
  }
  CUfunction Handle(const Module& module, const char* name) {
    return reinterpret_cast<CUfunction>(module.Find(name));
  }
  CUresult Launch(CUfunction function, const Driver::LaunchShape& shape, void** params) {
    KernelWork work;
    const CUresult made = driver_.MakeKernelWork(context_, function, shape, params, nullptr, &work);
    return made != CUDA_SUCCESS ? made : driver_.Enqueue(Legacy(), std::move(work));
  }
};

TEST_F(ModuleTest, RunsAKernel) {
  auto module = Load(kStore);
  uint64_t to = driver_.memory().AllocateDevice(4, MemoryKind::kDevice, &context_);
  uint32_t value = 41;
  void* params[] = {&to, &value};
  ASSERT_EQ(Launch(Handle(*module, "Store"), {}, params), CUDA_SUCCESS);
  ASSERT_EQ(driver_.Synchronize(context_), CUDA_SUCCESS);
  EXPECT_EQ(*reinterpret_cast<uint32_t*>(to), 41u);
  const GlobalInfo* counter = module->FindGlobal("counter");
  ASSERT_NE(counter, nullptr);
  EXPECT_EQ(counter->bytes, 4u);
  EXPECT_TRUE(driver_.memory().Holds(counter->address, 4));
}

TEST_F(ModuleTest, RefusesBadShapes) {
  auto module = Load(kStore);
  const CUfunction store = Handle(*module, "Store");
  uint64_t to = 0;
  uint32_t value = 0;
  void* params[] = {&to, &value};
  EXPECT_EQ(Launch(store, {.grid = {0, 1, 1}}, params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(store, {.block = {1025, 1, 1}}, params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(store, {.grid = {1, 65536, 1}}, params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(store, {.dynamic_shared_bytes = 49153}, params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(store, {}, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(reinterpret_cast<CUfunction>(0x10), {}, params), CUDA_ERROR_INVALID_HANDLE);
  const Driver::LaunchShape huge{.grid = {1 << 20, 1, 1}, .cooperative = true};
  EXPECT_EQ(Launch(store, huge, params), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

TEST_F(ModuleTest, AFaultSticksAndLaterWorkIsSkipped) {
  auto module = Load(kStore);
  Event& event = NewEvent();
  std::atomic<bool> ran{false};
  ASSERT_EQ(Launch(Handle(*module, "Trap"), {}, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(Call(Legacy(), [&] { ran = true; }), CUDA_SUCCESS);
  ASSERT_EQ(driver_.Record(Legacy(), event, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.Synchronize(context_), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(driver_.Synchronize(event),
            CUDA_ERROR_LAUNCH_FAILED);  // returns: nobody waits for ever
  EXPECT_EQ(driver_.Synchronize(Legacy()), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_FALSE(ran.load());
  EXPECT_EQ(context_.sticky(), CUDA_ERROR_LAUNCH_FAILED);
  driver_.ResetPrimary();
  EXPECT_EQ(driver_.RetainPrimary()->sticky(), CUDA_SUCCESS);
}

TEST_F(ModuleTest, StoreToNowhereIsAnIllegalAddress) {
  auto module = Load(kStore);
  uint64_t to = 0x10;
  uint32_t value = 1;
  void* params[] = {&to, &value};
  ASSERT_EQ(Launch(Handle(*module, "Store"), {}, params), CUDA_SUCCESS);
  EXPECT_EQ(driver_.Synchronize(context_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(ModuleTest, BadImagesHaveTheirErrors) {
  std::shared_ptr<Module> module;
  const auto load = [&](const void* image) {
    return driver_.LoadModuleImage(context_, image, &module);
  };
  const LoadFailure damaged =
      load(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry (");
  EXPECT_EQ(damaged.result, CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(damaged.message.find("4:"), std::string::npos) << damaged.message;
  EXPECT_EQ(load(nullptr).result, CUDA_ERROR_INVALID_VALUE);
  alignas(8) const char rubbish[64] = "\x01\x02\x03\x04 not an image";
  EXPECT_EQ(load(rubbish).result, CUDA_ERROR_INVALID_IMAGE);
  // An empty container: magic, version 1, header of 16 bytes, nothing in it.
  alignas(8) const unsigned char empty[16] = {0x50, 0xED, 0x55, 0xBA, 1, 0, 16, 0};
  EXPECT_EQ(load(empty).result, CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_F(ModuleTest, UnloadedHandlesAreInvalid) {
  auto module = Load(kStore);
  const CUfunction store = Handle(*module, "Store");
  EXPECT_EQ(driver_.UnloadModule(reinterpret_cast<CUmodule>(module.get())), CUDA_SUCCESS);
  EXPECT_EQ(Launch(store, {}, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(driver_.UnloadModule(reinterpret_cast<CUmodule>(module.get())),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, AKernelOfALibraryStandsForItsFunction) {
  std::shared_ptr<Library> library;
  ASSERT_EQ(driver_.LoadLibrary(kStore, &library).result, CUDA_SUCCESS);
  ASSERT_EQ(library->kernels.size(), 2u);
  const auto kernel = reinterpret_cast<CUfunction>(library->kernels[0].get());
  uint64_t to = driver_.memory().AllocateDevice(4, MemoryKind::kDevice, &context_);
  uint32_t value = 9;
  void* params[] = {&to, &value};
  ASSERT_EQ(Launch(kernel, {}, params), CUDA_SUCCESS);
  ASSERT_EQ(driver_.Synchronize(context_), CUDA_SUCCESS);
  EXPECT_EQ(*reinterpret_cast<uint32_t*>(to), 9u);
}

TEST_F(ModuleTest, UnitsAreLinkedIntoOneModule) {
  const std::string head = ".version 8.0\n.target sm_90\n.address_size 64\n";
  const std::string user = head +
                           ".extern .global .align 4 .u32 shared_word;\n"
                           ".extern .func helper;\n"
                           ".visible .entry Go()\n{\n  .reg .b32 %r<2>;\n"
                           "  ld.global.u32 %r1, [shared_word];\n  call helper;\n  ret;\n}\n";
  const std::string owner = head +
                            ".visible .global .align 4 .u32 shared_word = 7;\n"
                            ".visible .func helper\n{\n  ret;\n}\n";
  std::shared_ptr<Module> module;
  const LoadFailure linked = LoadModule(driver_.device(), {user, owner}, &module);
  ASSERT_EQ(linked.result, CUDA_SUCCESS) << linked.message;
  EXPECT_NE(module->Find("Go"), nullptr);
  const GlobalInfo* word = module->FindGlobal("shared_word");
  ASSERT_NE(word, nullptr);
  EXPECT_EQ(*reinterpret_cast<const uint32_t*>(word->address), 7u);
  const LoadFailure twice = LoadModule(driver_.device(), {owner, owner}, &module);
  EXPECT_EQ(twice.result, CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(twice.message.find("shared_word"), std::string::npos) << twice.message;
}

}  // namespace
}  // namespace cupola::sim
