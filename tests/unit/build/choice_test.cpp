#include <gtest/gtest.h>

#include <fstream>

#include "base/private_folder.h"
#include "device/compiler/build/image_choice.h"

namespace cupola::build {
namespace {

TEST(ChooseImages, BarePtx) {
  Result<PrivateFolder> folder = PrivateFolder::Make(PrivateFolder::First::kTemporary);
  const std::string path = folder->path() + "/k.ptx";
  const std::string text =
      ".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{\nret;\n}\n";
  std::ofstream(path) << text << std::string(3, '\0');
  const Result<fatbin::ImageFile> file = fatbin::OpenImageFile(path);
  ASSERT_TRUE(file) << file.error().ToString();
  const std::vector<ImageChoice> choices = ChooseImages(*file, 90);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_NE(choices[0].ptx, nullptr);
  // As the driver is given it: up to its NUL.
  EXPECT_EQ(choices[0].identity.size(), text.size());
  EXPECT_EQ(choices[0].refusal, "");
}

TEST(BytesOfHex, OnlyPairsOfLowerCaseDigits) {
  EXPECT_EQ(BytesOfHex("00ff1a"), (std::vector<uint8_t>{0, 255, 26}));
  EXPECT_TRUE(BytesOfHex("0").empty());
  EXPECT_TRUE(BytesOfHex("0g").empty());
  EXPECT_TRUE(BytesOfHex("").empty());
}

}  // namespace
}  // namespace cupola::build
