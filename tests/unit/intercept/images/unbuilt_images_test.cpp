// What is remembered of images that have no bundle yet, and forgotten.
#include "intercept/images/unbuilt_images.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace cupola::intercept {
namespace {

constexpr std::string_view kPtx = "// a comment\n.version 8.0\n.target sm_90\n";

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }
const void* Handle(uintptr_t number) { return reinterpret_cast<const void*>(number); }
CUcontext Context(uintptr_t number) { return reinterpret_cast<CUcontext>(number); }

/// The kernels of the image with that owner, which is taken out.
std::vector<UnbuiltKernel> Take(UnbuiltImages& images, const void* owner) {
  std::vector<UnbuiltKernel> found;
  images.TakeBuilt([owner](const UnbuiltImage& image) { return image.owner == owner; },
                   [&found](const UnbuiltImage& image) { found = image.kernels; });
  return found;
}

TEST(UnbuiltImages, WantsCubinsAndPtxOfModerateSize) {
  EXPECT_TRUE(UnbuiltImages::IsWanted(BytesOf(kPtx)));
  EXPECT_TRUE(UnbuiltImages::IsWanted(BytesOf("\177ELF and the rest")));
  EXPECT_FALSE(UnbuiltImages::IsWanted({}));
  EXPECT_FALSE(UnbuiltImages::IsWanted(BytesOf("\x50\xED\x55\xBA a container")));
  EXPECT_FALSE(UnbuiltImages::IsWanted(BytesOf("\177ELF" + std::string(UnbuiltImages::kMostBytes, ' '))));
}

TEST(UnbuiltImages, KeepsKernelsTheirAliasesAndLimits) {
  UnbuiltImages images;
  images.Add(Handle(1), /*is_library=*/true, nullptr, BytesOf(kPtx));
  images.AddKernel(Handle(1), Handle(10), "first");
  images.AddKernel(Handle(1), Handle(11), "second");
  images.AddKernel(Handle(1), Handle(10), "first");
  images.AddKernel(Handle(2), Handle(12), "of no image here");
  ASSERT_NE(images.Find(Handle(11)), nullptr);
  images.Find(Handle(11))->shared_below = 0;  // it has clusters
  images.AddAlias(Handle(20), Handle(11));
  images.AddAlias(Handle(21), Handle(12));
  EXPECT_EQ(images.Find(Handle(12)), nullptr);
  EXPECT_EQ(images.Find(Handle(21)), nullptr);
  const std::vector<UnbuiltKernel> kernels = Take(images, Handle(1));
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels[0].name, "first");
  EXPECT_EQ(kernels[0].shared_below, UINT64_MAX);
  EXPECT_EQ(kernels[2].function, Handle(20));
  EXPECT_EQ(kernels[2].name, "second");
  EXPECT_EQ(kernels[2].shared_below, 0u);
  EXPECT_TRUE(images.IsEmpty());
  EXPECT_EQ(images.Find(Handle(10)), nullptr);
}

TEST(UnbuiltImages, ForgetsWhatIsUnloaded) {
  UnbuiltImages images;
  images.Add(Handle(1), /*is_library=*/false, Context(5), BytesOf(kPtx));
  images.Add(Handle(2), /*is_library=*/false, Context(6), BytesOf(kPtx));
  images.Add(Handle(3), /*is_library=*/true, Context(5), BytesOf(kPtx));
  images.AddKernel(Handle(2), Handle(10), "kernel");
  images.RemoveOf(Context(5));  // a library is of no context
  EXPECT_EQ(Take(images, Handle(2)).size(), 1u);
  images.Add(Handle(4), /*is_library=*/true, nullptr, BytesOf(kPtx));
  images.AddKernel(Handle(4), Handle(10), "another");  // a handle that comes again
  images.Remove(Handle(3));
  ASSERT_NE(images.Find(Handle(10)), nullptr);
  EXPECT_EQ(images.Find(Handle(10))->name, "another");
  images.Remove(Handle(4));
  EXPECT_TRUE(images.IsEmpty());
}

TEST(UnbuiltImages, AHandleThatComesAgainIsOfTheLaterImage) {
  UnbuiltImages images;
  images.Add(Handle(1), /*is_library=*/true, nullptr, BytesOf(kPtx));
  images.Add(Handle(2), /*is_library=*/true, nullptr, BytesOf(kPtx));
  images.AddKernel(Handle(1), Handle(10), "earlier");
  images.AddKernel(Handle(2), Handle(10), "later");  // no hook saw that the first image was unloaded
  ASSERT_NE(images.Find(Handle(10)), nullptr);
  EXPECT_EQ(images.Find(Handle(10))->name, "later");
  images.Remove(Handle(1));
  EXPECT_NE(images.Find(Handle(10)), nullptr);
}

}  // namespace
}  // namespace cupola::intercept
