#include "device/compiler/store/bundle.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/prng.h"
#include "tests/unit/store/sample_bundle.h"

namespace cupola::store {
namespace {

// Reads everything that a view offers: what Open accepts must be safe to read.
size_t ReadAll(const BundleView& view) {
  size_t sum = view.cubin(ImageKind::kSide).size() + (view.ptx(ImageKind::kSide) != nullptr ? std::strlen(view.ptx(ImageKind::kSide)) : 0);
  for (const std::byte byte : view.cubin(ImageKind::kSide)) sum += static_cast<size_t>(byte);
  for (const KernelEntry& kernel : view.kernels()) {
    sum +=
        std::strlen(view.Text(kernel.name_offset)) + std::strlen(view.Text(kernel.refusal_offset));
    sum += std::strlen(view.Text(kernel.exactness_offset));
    for (const ParameterEntry& parameter : view.parameters(kernel)) sum += parameter.bytes;
    EXPECT_EQ(view.Find(view.Text(kernel.name_offset)), &kernel);
  }
  for (const VariableEntry& variable : view.variables(ImageKind::kSide)) {
    sum += std::strlen(view.Text(variable.name_offset)) + variable.bytes;
  }
  return sum;
}

TEST(Bundle, RoundTrip) {
  const std::vector<std::byte> bytes = SampleBundle();
  const Result<BundleView> view = BundleView::Open(bytes);
  ASSERT_TRUE(view) << view.error().ToString();
  EXPECT_TRUE(view->ChecksumHolds());
  EXPECT_EQ(view->header().arch, 90u);
  EXPECT_EQ(view->header().flags, kIncomplete);
  ASSERT_EQ(view->kernels().size(), 2u);
  const KernelEntry* scale = view->Find("_Z5scalePfi");
  ASSERT_NE(scale, nullptr);
  EXPECT_EQ(scale->flags, kPreemptible | kNotBitExact);
  EXPECT_EQ(scale->variant_registers, 24u);
  EXPECT_STREQ(view->Text(scale->exactness_offset), "FFMA 3, was 2");
  EXPECT_STREQ(view->Text(scale->refusal_offset), "");
  ASSERT_EQ(view->parameters(*scale).size(), 2u);
  EXPECT_EQ(view->parameters(*scale)[1].offset, 8u);
  EXPECT_STREQ(view->Text(view->Find("_Z3addv")->refusal_offset), "preemptible: clusters");
  EXPECT_EQ(view->Find("_Z3add"), nullptr);
  EXPECT_EQ(view->Find("_Z9"), nullptr);
  EXPECT_STREQ(view->Text(view->variables(ImageKind::kSide)[0].name_offset), "table");
  EXPECT_EQ(view->variables(ImageKind::kSide)[1].bytes, 4u);
  EXPECT_EQ(view->variables(ImageKind::kSide)[1].flags, kManaged);
  EXPECT_EQ(std::memcmp(view->cubin(ImageKind::kSide).data(), "the cubin", 9), 0);
  EXPECT_STREQ(view->ptx(ImageKind::kSide), ".version 9.0\n");
  EXPECT_GT(ReadAll(*view), 0u);
}

TEST(Bundle, EmptyOneIsFine) {
  const Result<std::vector<std::byte>> bytes = BundleWriter(90).Finish();
  ASSERT_TRUE(bytes);
  const Result<BundleView> view = BundleView::Open(*bytes);
  ASSERT_TRUE(view) << view.error().ToString();
  EXPECT_TRUE(view->kernels().empty());
  EXPECT_EQ(view->ptx(ImageKind::kSide), nullptr);
  EXPECT_EQ(view->Find("x"), nullptr);
}

TEST(Bundle, NamesMustBeNamesOfTheirOwn) {
  BundleWriter twice(90);
  twice.AddKernel({.name = "k"});
  twice.AddKernel({.name = "k"});
  EXPECT_EQ(twice.Finish().error().code, ErrorCode::kInvalidArgument);
  BundleWriter unnamed(90);
  unnamed.AddVariable(ImageKind::kSide, std::string("a\0b", 3), 4);
  EXPECT_EQ(unnamed.Finish().error().code, ErrorCode::kInvalidArgument);
}

TEST(Bundle, EveryLengthButItsOwnIsDamage) {
  const std::vector<std::byte> bytes = SampleBundle();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
    EXPECT_FALSE(BundleView::Open(cut)) << size;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(BundleView::Open(longer));
}

TEST(Bundle, EveryChangedByteIsNoticed) {
  const std::vector<std::byte> bytes = SampleBundle();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const unsigned change : {1u, 0x80u, 0xFFu}) {
      std::vector<std::byte> changed = bytes;
      changed[at] ^= static_cast<std::byte>(change);
      const Result<BundleView> view = BundleView::Open(changed);
      if (!view) continue;
      EXPECT_FALSE(view->ChecksumHolds()) << at;
      EXPECT_EQ(view->kernels().size(), 2u);
    }
  }
}

TEST(Bundle, OtherVersionsAreUnsupported) {
  std::vector<std::byte> bytes = SampleBundle();
  auto* header = reinterpret_cast<BundleHeader*>(bytes.data());
  header->pass_version += 1;
  EXPECT_EQ(BundleView::Open(bytes).error().code, ErrorCode::kUnsupported);
  header->pass_version = kPassVersion;
  header->bytes_of_header += 8;
  EXPECT_EQ(BundleView::Open(bytes).error().code, ErrorCode::kUnsupported);
}

TEST(Bundle, UnorderedKernelsAreDamage) {
  std::vector<std::byte> bytes = SampleBundle();
  const auto* header = reinterpret_cast<const BundleHeader*>(bytes.data());
  auto* kernels = reinterpret_cast<KernelEntry*>(&bytes[header->kernels_offset]);
  std::swap(kernels[0], kernels[1]);
  EXPECT_EQ(BundleView::Open(bytes).error().code, ErrorCode::kDamaged);
  kernels[0] = kernels[1];
  EXPECT_EQ(BundleView::Open(bytes).error().code, ErrorCode::kDamaged);
}

// Without PTX nothing at the end of a bundle need be a NUL.
TEST(Bundle, TextsMustEndInside) {
  BundleWriter writer(90);
  writer.AddKernel({.name = "k"});
  const std::string cubin(40, 'x');
  writer.SetCode(ImageKind::kSide, std::as_bytes(std::span(cubin.data(), cubin.size())), "");
  Result<std::vector<std::byte>> bytes = writer.Finish();
  ASSERT_TRUE(bytes && BundleView::Open(*bytes));
  const auto* header = reinterpret_cast<const BundleHeader*>(bytes->data());
  auto* kernel = reinterpret_cast<KernelEntry*>(&(*bytes)[header->kernels_offset]);
  kernel->refusal_offset = static_cast<uint32_t>(header->images[0].cubin_offset);
  EXPECT_EQ(BundleView::Open(*bytes).error().code, ErrorCode::kDamaged);
}

// Words of the tables and the header are overwritten; whatever Open lets through must be safe to
// read (the sanitizers watch).
TEST(Bundle, RandomDamageIsRefusedOrSafe) {
  const std::vector<std::byte> bytes = SampleBundle();
  size_t opened = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    std::vector<std::byte> changed = bytes;
    for (uint64_t times = 1 + prng.Below(3); times > 0; --times) {
      const size_t at = 8 + 4 * prng.Below((changed.size() - 12) / 4);
      constexpr uint32_t kInteresting[] = {0, 1, 4, 8, 104, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
      uint32_t word = kInteresting[prng.Below(8)];
      if (prng.Below(3) == 0) word = static_cast<uint32_t>(prng.Below(changed.size() + 8));
      if (prng.Below(4) == 0) word = static_cast<uint32_t>(prng.Next());
      std::memcpy(&changed[at], &word, sizeof(word));
    }
    const Result<BundleView> view = BundleView::Open(changed);
    if (!view) continue;
    ++opened;
    ReadAll(*view);
  }
  EXPECT_GT(opened, 100u);  // else the damage is too coarse to test anything
  EXPECT_LT(opened, 19000u);
}

}  // namespace
}  // namespace cupola::store
