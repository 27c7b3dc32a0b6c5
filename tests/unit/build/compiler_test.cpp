#include "device/compiler/build/compiler.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/private_folder.h"
#include "device/compiler/fatbin/cubin.h"
#include "tests/paths.h"

namespace cupola::build {
namespace {

using namespace std::chrono_literals;

constexpr char kPtx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";

std::string Script(const PrivateFolder& folder, const std::string& text) {
  const std::string path = folder.path() + "/ptxas";
  std::ofstream(path) << "#!/bin/sh\ncase \"$1\" in --version) echo Build cuda_1.0; exit;; esac\n"
                      << text << "\n";
  chmod(path.c_str(), 0700);
  return path;
}

Result<std::vector<uint8_t>> CompileBy(const std::string& text, std::chrono::milliseconds limit) {
  Result<PrivateFolder> folder = PrivateFolder::Make(PrivateFolder::First::kTemporary);
  Result<std::unique_ptr<Compiler>> compiler = FindCompiler({.ptxas = Script(*folder, text)});
  if (!compiler) return compiler.error();
  EXPECT_EQ((*compiler)->version(), "ptxas cuda_1.0");
  return (*compiler)->Compile({.ptx = kPtx, .limit = limit});
}

TEST(Compiler, CompilesForALaterArchitecture) {
  if (std::string(CUPOLA_PTXAS_PATH).empty()) GTEST_SKIP() << "no ptxas";
  Result<std::unique_ptr<Compiler>> compiler = FindCompiler({.ptxas = CUPOLA_PTXAS_PATH});
  ASSERT_TRUE(compiler) << compiler.error().ToString();
  EXPECT_TRUE((*compiler)->version().starts_with("ptxas cuda_"));
  const Result<std::vector<uint8_t>> cubin = (*compiler)->Compile({.ptx = kPtx, .arch = 90});
  ASSERT_TRUE(cubin) << cubin.error().ToString();
  EXPECT_EQ(fatbin::ReadCubin(*cubin)->arch, 90u);
  const Result<std::vector<uint8_t>> bad =
      (*compiler)->Compile({.ptx = ".version 9.0\n.target x\n"});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(bad.error().message.find("ptxas: "), std::string::npos) << bad.error().message;
}

TEST(Compiler, FailuresHaveReasons) {
  EXPECT_EQ(CompileBy("sleep 60", 300ms).error().code, ErrorCode::kExhausted);
  EXPECT_EQ(CompileBy("kill -11 $$", 20s).error().code, ErrorCode::kInternal);
  EXPECT_EQ(CompileBy("exit 0", 20s).error().code, ErrorCode::kInternal);  // wrote nothing
  const Result<std::vector<uint8_t>> refused =
      CompileBy("echo warm-up; echo 'ptxas m.ptx, line 5; error   : Bad thing'; exit 255", 20s);
  EXPECT_EQ(refused.error().message, "ptxas: Bad thing");
  EXPECT_FALSE(FindCompiler({.ptxas = "/no/such/ptxas"}));
}

/// A compilation by nvJitLink whose worker does `text`. Without a PTX file it says its version.
Result<std::vector<uint8_t>> CompileByWorker(const std::string& text) {
  Result<PrivateFolder> folder = PrivateFolder::Make(PrivateFolder::First::kTemporary);
  const std::string path = folder->path() + "/worker";
  std::ofstream(path) << "#!/bin/sh\n[ $# -gt 3 ] || { echo 13.0; exit 0; }\n" << text << "\n";
  chmod(path.c_str(), 0700);
  Result<std::unique_ptr<Compiler>> compiler = FindJitLink({.worker = path}, "library");
  if (!compiler) return compiler.error();
  return (*compiler)->Compile({.ptx = kPtx, .limit = 20s});
}

// What was refused would be refused again; what could not be done may be done another time.
TEST(Compiler, AWorkerThatCouldNotWorkHasRefusedNothing) {
  const Error refused = CompileByWorker("echo 'error: Bad thing'; exit 1").error();
  EXPECT_EQ(refused.code, ErrorCode::kUnsupported);
  EXPECT_EQ(refused.message, "nvJitLink: Bad thing");
  const Error unable = CompileByWorker("echo 'error: cannot write module.cubin'; exit 2").error();
  EXPECT_EQ(unable.code, ErrorCode::kIo);
  EXPECT_EQ(unable.message, "nvJitLink: cannot write module.cubin");
}

TEST(JitLinkWorker, SaysWhatItCouldNotDo) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(RunJitLinkWorker({"/no/such/library.so", "/no/such.ptx", "/no/such.cubin"}), 2);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("error: "), std::string::npos);
  const char* const library = "/usr/local/cuda/lib64/libnvJitLink.so";
  if (!std::filesystem::exists(library)) GTEST_SKIP() << "no nvJitLink";
  for (const char* ptx : {"/no/such.ptx", "/"}) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(RunJitLinkWorker({library, ptx, "/no/such.cubin"}), 2) << ptx;
    EXPECT_EQ(testing::internal::GetCapturedStdout(), std::string("error: cannot read ") + ptx + "\n");
  }
}

TEST(Compiler, LeavesNoFiles) {
  Result<PrivateFolder> outer = PrivateFolder::Make(PrivateFolder::First::kTemporary);
  ASSERT_TRUE(outer);
  setenv("TMPDIR", outer->path().c_str(), 1);
  EXPECT_FALSE(CompileBy("exit 1", 20s));
  EXPECT_FALSE(CompileBy("sleep 60", 200ms));
  unsetenv("TMPDIR");
  EXPECT_TRUE(std::filesystem::is_empty(outer->path()));
}

TEST(KnownOptions, OnlyWhatIsHarmless) {
  EXPECT_EQ(KnownOptions(" -g --dont-merge-basicblocks --return-at-end "),
            (std::vector<std::string>{"-g", "--dont-merge-basicblocks", "--return-at-end"}));
  EXPECT_EQ(KnownOptions("-O1  -maxrregcount=32 "),
            (std::vector<std::string>{"-O1", "-maxrregcount=32"}));
  EXPECT_TRUE(KnownOptions("--compile-only -o /home/me/.bashrc --options-file=/etc/x").empty());
  EXPECT_TRUE(KnownOptions("-maxrregcount=../x -O").empty());
  EXPECT_TRUE(KnownOptions("").empty());
}

}  // namespace
}  // namespace cupola::build
