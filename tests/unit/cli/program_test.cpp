#include "cli/program.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>

namespace cupola {
namespace {

namespace fs = std::filesystem;

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    char folder[] = "/tmp/cupola-program-XXXXXX";
    root_ = mkdtemp(folder);
    if (const char* path = std::getenv("PATH")) path_ = path;
  }
  ~ProgramTest() override {
    setenv("PATH", path_.c_str(), 1);
    fs::remove_all(root_);
  }

  std::string Write(const std::string& name, const std::string& text, bool executable) {
    const std::string path = root_ + "/" + name;
    std::ofstream(path) << text;
    fs::permissions(path, fs::perms(executable ? 0755 : 0644));
    return path;
  }

  std::string root_;
  std::string path_;
};

TEST_F(ProgramTest, FindsByPath) {
  const std::string tool = Write("tool", "", true);
  fs::create_directory(root_ + "/sub");
  fs::create_directory(root_ + "/sub/tool");  // a folder of that name is passed over
  setenv("PATH", ("/nonexistent:" + root_ + "/sub:" + root_).c_str(), 1);
  ASSERT_TRUE(FindProgram("tool").ok());
  EXPECT_EQ(*FindProgram("tool"), tool);
  EXPECT_EQ(FindProgram("none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(FindProgram("").error().code, ErrorCode::kNotFound);
  setenv("PATH", (root_ + "/sub").c_str(), 1);
  EXPECT_EQ(FindProgram("tool").error().code, ErrorCode::kNotFound);
}

TEST_F(ProgramTest, TellsMissingFromNotExecutable) {
  EXPECT_EQ(FindProgram(root_ + "/none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(FindProgram(Write("data", "x", false)).error().code, ErrorCode::kIo);
  EXPECT_EQ(FindProgram(root_).error().code, ErrorCode::kIo);
}

TEST_F(ProgramTest, LooksThroughScripts) {
  const std::string inner = Write("inner", "#! /bin/sh -e\n", true);
  const ProgramFacts facts = LookAtProgram(Write("outer", "#!" + inner + "\r\n", true));
  EXPECT_EQ(facts.file, "/bin/sh");
  EXPECT_FALSE(facts.is_static);
  EXPECT_FALSE(facts.foreign);
}

TEST_F(ProgramTest, ScriptsThatNameEachOtherEnd) {
  Write("a", "#!" + root_ + "/b\n", true);
  Write("b", "#!" + root_ + "/a\n", true);
  EXPECT_FALSE(LookAtProgram(root_ + "/a").secure);
}

TEST_F(ProgramTest, KnowsSetUidPrograms) {
  const std::string copy = root_ + "/copy";
  fs::copy_file("/bin/true", copy);
  EXPECT_FALSE(LookAtProgram(copy).secure);
  fs::permissions(copy, fs::perms(04755));
  EXPECT_FALSE(LookAtProgram(copy).secure) << "set to the caller itself changes nothing";
  if (getuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(copy.c_str(), 65534, 65534), 0);
  fs::permissions(copy, fs::perms(04755));
  EXPECT_TRUE(LookAtProgram(copy).secure);
  fs::permissions(copy, fs::perms(02755));
  EXPECT_TRUE(LookAtProgram(copy).secure) << "set-gid";
  fs::permissions(copy, fs::perms(02745));
  EXPECT_FALSE(LookAtProgram(copy).secure) << "set-gid without execute means file locking";
  fs::permissions(copy, fs::perms(04755));
  EXPECT_TRUE(LookAtProgram(Write("script", "#!" + copy + "\n", true)).secure);
}

TEST_F(ProgramTest, DamagedFilesHaveNoFacts) {
  std::ifstream file("/bin/true", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  for (size_t length = 0; length < 1024; length += 7) {
    const ProgramFacts facts = LookAtProgram(Write("cut", whole.substr(0, length), true));
    EXPECT_FALSE(facts.secure);
    EXPECT_FALSE(facts.has_kernels);
  }
  std::string wild = whole;
  for (size_t at = 24; at < 64; ++at) wild[at] = '\xFF';  // every offset and count of the header
  EXPECT_FALSE(LookAtProgram(Write("wild", wild, true)).has_kernels);
}

}  // namespace
}  // namespace cupola
