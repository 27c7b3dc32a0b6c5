#include "device/compiler/store/sha256.h"

#include <gtest/gtest.h>

namespace cupola::store {
namespace {

std::string Of(std::string_view text) {
  return HexOf(Sha256Of(std::as_bytes(std::span(text.data(), text.size()))));
}

// FIPS 180-4 examples (csrc.nist.gov, "SHA256.pdf").
TEST(Sha256, PublishedExamples) {
  EXPECT_EQ(Of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheSameAsTheWhole) {
  const std::string text(200, 'x');
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 hash;
    hash.Add(std::string_view(text).substr(0, cut));
    hash.Add(std::string_view(text).substr(cut));
    EXPECT_EQ(HexOf(hash.Finish()), Of(text)) << cut;
  }
}

TEST(Sha256, EveryLengthAroundABlockDiffers) {
  std::string last;
  for (size_t length = 50; length < 140; ++length) {
    const std::string digest = Of(std::string(length, '\0'));
    EXPECT_NE(digest, last) << length;
    last = digest;
  }
}

}  // namespace
}  // namespace cupola::store
