#include "device/compiler/build/process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "device/compiler/build/loaded_objects.h"
#include "device/compiler/build/name_pattern.h"

namespace cupola::build {
namespace {

using namespace std::chrono_literals;

TEST(RunProcess, GivesOutputAndExitCode) {
  const Result<ProcessEnd> end =
      RunProcess({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, 20s);
  ASSERT_TRUE(end) << end.error().ToString();
  EXPECT_EQ(end->exit_code, 3);
  EXPECT_EQ(end->output, "out\nerr\n");
}

TEST(RunProcess, SaysWhatEndedIt) {
  EXPECT_EQ(RunProcess({"/bin/sh", "-c", "kill -9 $$"}, 20s)->signal, SIGKILL);
  EXPECT_EQ(RunProcess({"/no/such/program"}, 20s).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(RunProcess({"/etc/passwd"}, 20s));
}

TEST(RunProcess, EndsWhatTakesTooLong) {
  const auto start = std::chrono::steady_clock::now();
  // With a child of its own, which holds the output too.
  const Result<ProcessEnd> end = RunProcess({"/bin/sh", "-c", "sleep 60 & sleep 60"}, 200ms);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::kExhausted);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

TEST(RunProcess, KeepsTheBeginningOfMuchOutput) {
  const Result<ProcessEnd> end = RunProcess({"/bin/sh", "-c", "yes | head -c 1000000"}, 60s);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_code, 0);
  EXPECT_EQ(end->output.size(), 64u << 10);
}

TEST(LoadedObjects, OfTheListing) {
  const LoadedObjects objects = ParseListing(
      "\tlinux-vdso.so.1 (0x00007ffc)\n"
      "\tlibcublas.so.13 => /a b/libcublas.so.13 (0x00007f01)\n"
      "\tlibplugin.so => not found\n"
      "\t/by/its/path.so (0x00007f05)\n"
      "\t/lib64/ld-linux-x86-64.so.2 (0x00007f02)\n"
      "\tlibc.so.6 => /lib/libc.so.6 (0x00007f03)");
  EXPECT_EQ(objects.files, (std::vector<std::string>{"/a b/libcublas.so.13", "/by/its/path.so",
                                                     "/lib/libc.so.6"}));
  EXPECT_EQ(objects.missing, std::vector<std::string>{"libplugin.so"});
  EXPECT_TRUE(ParseListing("").files.empty());
  EXPECT_TRUE(ParseListing("\tstatically linked\n").files.empty());
}

TEST(LoadedObjects, OfThisProgram) {
  const Result<LoadedObjects> objects = FindLoadedObjects("/proc/self/exe");
  ASSERT_TRUE(objects) << objects.error().ToString();
  bool has_libc = false;
  for (const std::string& file : objects->files) {
    has_libc = has_libc || file.find("/libc.so.6") != std::string::npos;
  }
  EXPECT_TRUE(has_libc);
  EXPECT_FALSE(FindLoadedObjects("/no/such/file"));
  EXPECT_TRUE(FindLoadedObjects("/etc/passwd")->files.empty());
}

TEST(NamePattern, SearchesMangledAndDemangledNames) {
  const Result<NamePattern> pattern = NamePattern::Make("^scale\\(float");
  ASSERT_TRUE(pattern);
  EXPECT_TRUE(pattern->Matches("_Z5scalePff"));
  EXPECT_FALSE(pattern->Matches("_Z5scalePii"));
  EXPECT_TRUE(NamePattern::Make("Z5sc|other")->Matches("_Z5scalePff"));
  EXPECT_TRUE(NamePattern::Make("")->Matches("anything"));
  EXPECT_EQ(NamePattern::Make("(").error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace cupola::build
