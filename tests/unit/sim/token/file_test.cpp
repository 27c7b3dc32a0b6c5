// What happens to files that are not a token, or not any more.
#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/standard_error.h"
#include "device/sim/token/token.h"
#include "tests/unit/sim/token/child.h"

namespace cupola::sim {
namespace {

class FileTest : public TokenTest {
 protected:
  void Write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  std::string Read() {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// A file as a process leaves it that has the device and dies.
  void WriteHeld() {
    Child holder([&](const Say&) {
      auto mapping = TokenMapping::Open(path_);
      std::atomic<bool> stop{false};
      TokenQueue queue(mapping.value().get(), &stop);
      _exit(queue.Join() == TokenQueue::Outcome::kDone ? 0 : 1);
      return 2;
    });
    ASSERT_EQ(holder.End(), 0);
  }
  ErrorCode OpenError() {
    auto mapping = TokenMapping::Open(path_);
    EXPECT_FALSE(mapping.ok());
    return mapping ? ErrorCode::kInternal : mapping.error().code;
  }
  /// Passes a token's gate in a child, which says what it wrote to standard error.
  std::string ErrorOutput() {
    Child child([&](const Say& say) {
      const std::string to = path_ + ".stderr";
      if (freopen(to.c_str(), "w", stderr) == nullptr) return 1;
      TakeStandardError(IdentityOf(STDERR_FILENO));  // as if the process had started so
      {
        Token token({path_, 1'000'000});
        for (int i = 0; i < 3; ++i) {
          std::thread([&] {
            token.gate().Enter();
            token.gate().Pause();
            token.gate().Leave();
          }).join();
        }
      }
      fflush(stderr);
      std::ifstream file(to);
      for (std::string line; std::getline(file, line);) say(line);
      unlink(to.c_str());
      return 0;
    });
    std::string text;
    for (std::string line; !(line = child.Line()).empty();) text += line + "\n";
    EXPECT_EQ(child.End(), 0);
    return text;
  }
};

TEST_F(FileTest, IsMadeForItsUserAlone) {
  ASSERT_TRUE(TokenMapping::Open(path_).ok());
  struct stat about{};
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  EXPECT_EQ(static_cast<size_t>(about.st_size), sizeof(SharedToken));
}

TEST_F(FileTest, AnEmptyFileIsFilled) {
  Write("");
  EXPECT_TRUE(TokenMapping::Open(path_).ok());
}

TEST_F(FileTest, AFileLeftHalfFilledIsFilled) {
  Write(std::string(sizeof(SharedToken), '\0'));
  auto mapping = TokenMapping::Open(path_);
  ASSERT_TRUE(mapping.ok());
  EXPECT_EQ(mapping.value()->header.magic, SharedToken::kMagic);
  EXPECT_EQ(mapping.value()->waits_for[3].load(), SharedToken::kNone);
}

TEST_F(FileTest, ADamagedFileIsSaidOnceAndNothingIsShared) {
  const std::string damage = std::string(sizeof(SharedToken), 'x');
  Write(damage);
  EXPECT_EQ(OpenError(), ErrorCode::kDamaged);
  EXPECT_EQ(ErrorOutput(), "cupola simulated device: " + path_ +
                               ": is not a token of the simulated device; not shared with other "
                               "processes\n");
  EXPECT_EQ(Read(), damage) << "it may be somebody's";
}

TEST_F(FileTest, ATruncatedFileIsDamaged) {
  ASSERT_TRUE(TokenMapping::Open(path_).ok());
  ASSERT_EQ(truncate(path_.c_str(), 200), 0);
  EXPECT_EQ(OpenError(), ErrorCode::kDamaged);
  ASSERT_EQ(truncate(path_.c_str(), 7), 0);
  EXPECT_EQ(OpenError(), ErrorCode::kDamaged);
}

TEST_F(FileTest, AnotherVersionIsSaidOnceAndNothingIsShared) {
  {
    auto mapping = TokenMapping::Open(path_);
    ASSERT_TRUE(mapping.ok());
    mapping.value()->header.version = 7;
  }
  EXPECT_EQ(OpenError(), ErrorCode::kUnsupported);
  const std::string said = ErrorOutput();
  EXPECT_NE(said.find("is a token of version 7"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

TEST_F(FileTest, ItsOwnersDoNotSurviveARestartOfTheMachine) {
  {
    auto mapping = TokenMapping::Open(path_);
    ASSERT_TRUE(mapping.ok());
    mapping.value()->header.boot_id[0] ^= 1;
    // A lock of a thread that no kernel remembers.
    mapping.value()->lock.__data.__lock = 12345;
  }
  EXPECT_EQ(ErrorOutput(), "");
}

TEST_F(FileTest, ACopyHasNoOwners) {
  {
    auto mapping = TokenMapping::Open(path_);
    ASSERT_TRUE(mapping.ok());
    mapping.value()->lock.__data.__lock = 12345;
  }
  const std::string copy = path_ + ".copy";  // beside the file: another inode
  std::filesystem::copy_file(path_, copy);
  std::filesystem::rename(copy, path_);
  EXPECT_EQ(ErrorOutput(), "");
}

TEST_F(FileTest, AStuckLockIsSaidAndNothingIsShared) {
  {
    auto mapping = TokenMapping::Open(path_);
    ASSERT_TRUE(mapping.ok());
    mapping.value()->lock.__data.__lock = 12345;
  }
  EXPECT_EQ(ErrorOutput(), "cupola simulated device: " + path_ +
                               ": is damaged, or its lock is stuck; not shared with other "
                               "processes\n");
}

TEST_F(FileTest, AFileOfTheDeadIsUsedAgain) {
  WriteHeld();
  EXPECT_EQ(ErrorOutput(), "");
  EXPECT_EQ(ReadTokenTotals(path_).value().recoveries, 1u);
}

TEST_F(FileTest, SymbolicLinksAndFoldersAreRefused) {
  const std::string target = path_ + ".target";
  ASSERT_TRUE(TokenMapping::Open(target).ok());
  ASSERT_EQ(symlink(target.c_str(), path_.c_str()), 0);
  EXPECT_EQ(OpenError(), ErrorCode::kIo);
  unlink(path_.c_str());
  unlink(target.c_str());
  path_ = ::testing::TempDir();
  EXPECT_EQ(OpenError(), ErrorCode::kIo);
  path_ = "/nowhere/token";
  EXPECT_EQ(OpenError(), ErrorCode::kIo);
}

TEST_F(FileTest, AFileOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_TRUE(TokenMapping::Open(path_).ok());
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(OpenError(), ErrorCode::kIo);
}

}  // namespace
}  // namespace cupola::sim
