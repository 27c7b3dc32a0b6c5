// The shared object itself: what it needs and exports, and whether it implements (rather than
// stubs) what the programs of tests/apps call.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "tests/paths.h"

namespace {

const std::string kLibrary = std::string(CUPOLA_BINARY_DIR) + "/lib/sim/libcudart.so.13";

std::string Output(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (pipe != nullptr && std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
  if (pipe != nullptr) pclose(pipe);
  return text;
}

/// The dynamic symbols of the runtime in a file, defined ones or imported ones. nm calls a weak
/// definition, which is what the generated stubs are, 'W'.
std::set<std::string> Symbols(const std::string& path, bool defined, bool with_weak) {
  const std::string which = defined ? " --defined-only " : " --undefined-only ";
  std::istringstream lines(Output(CUPOLA_NM " -D" + which + path));
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string address, type, name;
    if (defined) words >> address;
    words >> type >> name;
    if (!with_weak && type == "W") continue;
    name = name.substr(0, name.find('@'));
    if (name.rfind("cuda", 0) == 0 || name.rfind("__cuda", 0) == 0) names.insert(name);
  }
  return names;
}

TEST(LibcudartTest, NeedsNothingButTheCLibrary) {
  std::istringstream lines(Output("readelf -dW " + kLibrary));
  const std::set<std::string> allowed{"[libc.so.6]", "[libm.so.6]", "[libdl.so.2]",
                                      "[libpthread.so.0]", "[ld-linux-x86-64.so.2]"};
  std::string soname;
  int needed = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string value = line.substr(line.find('[') == std::string::npos ? 0 : line.find('['));
    if (line.find("(SONAME)") != std::string::npos) soname = value;
    if (line.find("(NEEDED)") == std::string::npos) continue;
    ++needed;
    EXPECT_EQ(allowed.count(value), 1u) << line;
  }
  EXPECT_EQ(soname, "[libcudart.so.13]");
  EXPECT_GT(needed, 0);
}

TEST(LibcudartTest, ExportsWhatTheToolkitsRuntimeExports) {
  const std::set<std::string> ours = Symbols(kLibrary, true, true);
  const std::set<std::string> theirs = Symbols(CUPOLA_CUDART_LIBRARY, true, true);
  EXPECT_GT(theirs.size(), 300u);
  for (const std::string& name : theirs) EXPECT_EQ(ours.count(name), 1u) << name;
}

TEST(LibcudartTest, ImplementsWhatTheProgramsCall) {
  const std::filesystem::path folder = std::string(CUPOLA_BINARY_DIR) + "/apps/shared";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "the programs are not built";
  const std::set<std::string> implemented = Symbols(kLibrary, true, false);
  int calls = 0;
  for (const auto& program : std::filesystem::directory_iterator(folder)) {
    for (const std::string& name : Symbols(program.path(), false, true)) {
      ++calls;
      EXPECT_EQ(implemented.count(name), 1u) << name << " of " << program.path().filename();
    }
  }
  EXPECT_GT(calls, 50);
}

}  // namespace
