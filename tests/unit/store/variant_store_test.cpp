#include "device/compiler/store/variant_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "device/compiler/store/image_identity.h"
#include "device/compiler/store/store_writer.h"
#include "tests/unit/store/sample_bundle.h"
#include "tests/unit/store/store_folder.h"

namespace cupola::store {
namespace {

const std::vector<uint8_t> kBuildId = {0xAB, 0xCD, 0x01};

class VariantStoreTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    Result<StoreWriter> writer = StoreWriter::Open(folder_);
    ASSERT_TRUE(writer) << writer.error().ToString();
    ASSERT_TRUE(writer->Publish(KeyOf('a'), SampleBundle()));
    ASSERT_TRUE(writer->Link(PlaceLink(kBuildId, 0x1000, 90), KeyOf('a')));
    ASSERT_TRUE(writer->Link(ContentsLink(kImage.size(), Sha256Of(Image()), 90), KeyOf('a')));
  }
  std::span<const std::byte> Image() const {
    return std::as_bytes(std::span(kImage.data(), kImage.size()));
  }
  Result<MappedBundle> Find() {
    Result<VariantStore> store = VariantStore::Open(folder_);
    if (!store) return store.error();
    return store->FindAt(kBuildId, 0x1000, 90);
  }
  void Overwrite(const std::string& text) {
    std::ofstream(At("bundles/" + KeyOf('a')), std::ios::trunc) << text;
  }

  const std::string kImage = ".version 9.0 // an image";
};

TEST_F(VariantStoreTest, FindsByPlaceAndByContents) {
  Result<VariantStore> store = VariantStore::Open(folder_);
  ASSERT_TRUE(store);
  Result<MappedBundle> at = store->FindAt(kBuildId, 0x1000, 90);
  ASSERT_TRUE(at) << at.error().ToString();
  EXPECT_EQ(at->key(), KeyOf('a'));
  EXPECT_NE(at->view().Find("_Z3addv"), nullptr);
  Result<MappedBundle> by = store->FindByContents(Image(), 90);
  ASSERT_TRUE(by) << by.error().ToString();
  // The image lies on the heap of this program: by its contents.
  EXPECT_TRUE(store->FindForImage(kImage.c_str(), 90));
}

TEST_F(VariantStoreTest, WhatWasNotBuiltIsNotFound) {
  Result<VariantStore> store = VariantStore::Open(folder_);
  ASSERT_TRUE(store);
  EXPECT_EQ(store->FindAt(kBuildId, 0x1008, 90).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->FindAt(kBuildId, 0x1000, 100).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->FindAt({}, 0x1000, 90).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->FindAt(std::vector<uint8_t>{1}, 0x1000, 90).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->FindByContents(Image().first(5), 90).error().code, ErrorCode::kNotFound);
  std::string same_size = kImage;
  same_size.back() = '?';
  EXPECT_EQ(store->FindForImage(same_size.c_str(), 90).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->FindForImage("", 90).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(VariantStore::Open(outer_ + "/no").error().code, ErrorCode::kNotFound);
}

TEST_F(VariantStoreTest, TheMappingOutlivesTheFile) {
  Result<MappedBundle> bundle = Find();
  ASSERT_TRUE(bundle);
  ASSERT_EQ(unlink(At("bundles/" + KeyOf('a')).c_str()), 0);
  EXPECT_NE(bundle->view().Find("_Z3addv"), nullptr);
  MappedBundle moved = *std::move(bundle);
  EXPECT_TRUE(moved.view().ChecksumHolds());
  EXPECT_EQ(Find().error().code, ErrorCode::kNotFound);
}

TEST_F(VariantStoreTest, DamagedEntriesAreNamed) {
  for (const std::string& text : {std::string(), std::string("short"), std::string(5000, 'x')}) {
    Overwrite(text);
    Result<MappedBundle> bundle = Find();
    ASSERT_FALSE(bundle);
    EXPECT_EQ(bundle.error().code, ErrorCode::kDamaged);
    EXPECT_EQ(bundle.error().where.file, At("bundles/" + KeyOf('a')));
  }
  std::vector<std::byte> bytes = SampleBundle();
  bytes[bytes.size() - 20] ^= std::byte{1};
  Overwrite(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  EXPECT_EQ(Find().error().code, ErrorCode::kDamaged);
}

TEST_F(VariantStoreTest, WhatIsNoFileIsNotRead) {
  const std::string file = At("bundles/" + KeyOf('a'));
  ASSERT_EQ(unlink(file.c_str()), 0);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(Find().error().code, ErrorCode::kDamaged);
  ASSERT_EQ(unlink(file.c_str()), 0);
  ASSERT_EQ(mkdir(file.c_str(), 0700), 0);
  EXPECT_FALSE(Find());
  ASSERT_EQ(rmdir(file.c_str()), 0);
  ASSERT_EQ(symlink("/dev/zero", file.c_str()), 0);
  EXPECT_FALSE(Find());
}

TEST_F(VariantStoreTest, LinksLeadToKeysOnly) {
  const std::string link = At(PlaceLink(kBuildId, 0x1000, 90));
  ASSERT_EQ(unlink(link.c_str()), 0);
  ASSERT_EQ(symlink("/etc/passwd", link.c_str()), 0);
  EXPECT_EQ(Find().error().code, ErrorCode::kDamaged);
  ASSERT_EQ(unlink(link.c_str()), 0);
  ASSERT_EQ(mkdir(link.c_str(), 0700), 0);
  EXPECT_FALSE(Find());
}

TEST_F(VariantStoreTest, OthersMayNotWrite) {
  const std::string file = At("bundles/" + KeyOf('a'));
  for (const mode_t mode : {0620, 0602, 0666}) {
    ASSERT_EQ(chmod(file.c_str(), mode), 0);
    EXPECT_EQ(Find().error().code, ErrorCode::kIo) << mode;
  }
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  EXPECT_TRUE(Find());
  for (const mode_t mode : {0720, 0702}) {
    ASSERT_EQ(chmod(folder_.c_str(), mode), 0);
    EXPECT_EQ(Find().error().code, ErrorCode::kInvalidArgument) << mode;
  }
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  EXPECT_TRUE(Find());
}

TEST_F(VariantStoreTest, AnotherUsersFilesAreNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const std::string file = At("bundles/" + KeyOf('a'));
  ASSERT_EQ(chown(file.c_str(), 65534, 65534), 0);
  EXPECT_EQ(Find().error().code, ErrorCode::kIo);
  ASSERT_EQ(chown(file.c_str(), 0, 0), 0);
  ASSERT_EQ(chown(folder_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(Find().error().code, ErrorCode::kInvalidArgument);
}

TEST_F(VariantStoreTest, FindingMarksAsUsed) {
  const std::string file = At("bundles/" + KeyOf('a'));
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), old, 0), 0);
  ASSERT_TRUE(Find());
  struct stat facts {};
  ASSERT_EQ(stat(file.c_str(), &facts), 0);
  EXPECT_GT(facts.st_mtime, 1000);
}

TEST(VariantStoreFolder, ByTheEnvironment) {
  const auto set = [](const char* name, const char* value) {
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  };
  set("HOME", "/home/me");
  set("XDG_CACHE_HOME", nullptr);
  set("CUPOLA_STORE", nullptr);
  EXPECT_EQ(VariantStore::DefaultFolder(), "/home/me/.cache/cupola/variants");
  set("XDG_CACHE_HOME", "relative/is/ignored");
  EXPECT_EQ(VariantStore::DefaultFolder(), "/home/me/.cache/cupola/variants");
  set("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(VariantStore::DefaultFolder(), "/cache/cupola/variants");
  set("CUPOLA_STORE", "/store");
  EXPECT_EQ(VariantStore::DefaultFolder(), "/store");
  set("CUPOLA_STORE", nullptr);
  set("XDG_CACHE_HOME", nullptr);
  set("HOME", nullptr);
  EXPECT_EQ(VariantStore::DefaultFolder(), "");
  EXPECT_EQ(VariantStore::Open("").error().code, ErrorCode::kNotFound);
}

TEST(PlaceLink, NeedsABuildId) {
  EXPECT_EQ(PlaceLink({}, 16, 90), "");
  EXPECT_EQ(PlaceLink(std::vector<uint8_t>(65), 16, 90), "");
  EXPECT_EQ(PlaceLink(kBuildId, 0xABC0, 90), "places/abcd01/abc0-90");
}

TEST_F(VariantStoreTest, KeepsNotes) {
  Result<VariantStore> store = VariantStore::Open(folder_);
  ASSERT_TRUE(store);
  EXPECT_FALSE(store->HasNote("many-streams-1"));
  EXPECT_TRUE(store->AddNote("many-streams-1"));
  EXPECT_TRUE(store->AddNote("many-streams-1"));
  EXPECT_TRUE(store->HasNote("many-streams-1"));
  EXPECT_FALSE(store->HasNote("many-streams-2"));
  EXPECT_TRUE(Find());
}

}  // namespace
}  // namespace cupola::store
