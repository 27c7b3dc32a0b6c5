#include "base/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include <gtest/gtest.h>

namespace cupola {
namespace {

namespace fs = std::filesystem;

PrivateFolder MakeOne() {
  Result<PrivateFolder> made = PrivateFolder::Make(PrivateFolder::First::kTemporary);
  EXPECT_TRUE(made) << made.error().ToString();
  return *std::move(made);
}

TEST(PrivateFolder, OnlyThisUserMayEnter) {
  const PrivateFolder folder = MakeOne();
  struct stat facts {};
  ASSERT_EQ(stat(folder.path().c_str(), &facts), 0);
  EXPECT_TRUE(S_ISDIR(facts.st_mode));
  EXPECT_EQ(facts.st_mode & 07777, 0700u);
  EXPECT_EQ(facts.st_uid, geteuid());
}

TEST(PrivateFolder, IsRemovedWithAllThatIsInIt) {
  std::string path;
  {
    const PrivateFolder folder = MakeOne();
    path = folder.path();
    fs::create_directory(path + "/inner");
    std::ofstream(path + "/inner/file") << "text";
    ASSERT_TRUE(fs::exists(path + "/inner/file"));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(PrivateFolder, GoesWithWhomItIsMovedTo) {
  std::optional<PrivateFolder> first(MakeOne());
  const std::string path = first->path();
  std::optional<PrivateFolder> second(*std::move(first));
  EXPECT_EQ(first->path(), "");
  EXPECT_EQ(second->path(), path);
  first.reset();
  EXPECT_TRUE(fs::exists(path));
  second.reset();
  EXPECT_FALSE(fs::exists(path));
}

TEST(PrivateFolder, AnotherOneTakesItsPlace) {
  std::optional<PrivateFolder> other(MakeOne());
  PrivateFolder folder = MakeOne();
  const std::string before = folder.path(), after = other->path();
  folder = *std::move(other);
  EXPECT_EQ(folder.path(), after);
  EXPECT_FALSE(fs::exists(before));
  other.reset();
  EXPECT_TRUE(fs::exists(after));
}

TEST(PrivateFolder, LiesInTheFirstPlaceThatCanBeWritten) {
  const PrivateFolder outer = MakeOne();
  const Result<PrivateFolder> inner =
      PrivateFolder::MakeIn({nullptr, "relative", "", "/no/such/folder", outer.path().c_str(), "/tmp"});
  ASSERT_TRUE(inner) << inner.error().ToString();
  EXPECT_EQ(fs::path(inner->path()).parent_path(), outer.path());
}

TEST(PrivateFolder, AnErrorNamesThePlacesAndTheReason) {
  const Result<PrivateFolder> folder = PrivateFolder::MakeIn({nullptr, "relative", "/no/such/folder", "/dev/null"});
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, ErrorCode::kIo);
  EXPECT_EQ(folder.error().ToString(),
            "cannot make a folder in any of /no/such/folder, /dev/null: No such file or directory");
}

// The variables of this process while the test runs.
class PrivateFolderPlaces : public testing::Test {
 protected:
  PrivateFolderPlaces() : memory_(MakeOne()), temporary_(MakeOne()) {
    setenv("XDG_RUNTIME_DIR", memory_.path().c_str(), 1);
    setenv("TMPDIR", temporary_.path().c_str(), 1);
  }
  ~PrivateFolderPlaces() override {
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("TMPDIR");
  }
  static std::string PlaceOf(PrivateFolder::First first) {
    const Result<PrivateFolder> folder = PrivateFolder::Make(first);
    return folder ? fs::path(folder->path()).parent_path().string() : folder.error().ToString();
  }

  const PrivateFolder memory_, temporary_;
};

TEST_F(PrivateFolderPlaces, MemoryOrTheTemporaryFolderComesFirst) {
  EXPECT_EQ(PlaceOf(PrivateFolder::First::kMemory), memory_.path());
  EXPECT_EQ(PlaceOf(PrivateFolder::First::kTemporary), temporary_.path());
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(PlaceOf(PrivateFolder::First::kMemory), temporary_.path());
  setenv("TMPDIR", "/no/such/folder", 1);
  EXPECT_EQ(PlaceOf(PrivateFolder::First::kTemporary), "/tmp");
}

}  // namespace
}  // namespace cupola
