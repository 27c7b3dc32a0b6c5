#include "cli/installation.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <elf.h>
#include <gtest/gtest.h>

namespace cupola {
namespace {

namespace fs = std::filesystem;

/// A folder tree with files that look like shared objects, removed at the end.
class InstallationTest : public testing::Test {
 protected:
  InstallationTest() {
    char folder[] = "/tmp/cupola-install-XXXXXX";
    root_ = mkdtemp(folder);
  }
  ~InstallationTest() override { fs::remove_all(root_); }

  std::string Path(const std::string& name) const { return root_ + "/" + name; }

  /// A file with the first bytes of a shared object for `machine`.
  std::string MakeLibrary(const std::string& name, uint16_t machine = EM_X86_64,
                          uint8_t elf_class = ELFCLASS64) {
    fs::create_directories(fs::path(Path(name)).parent_path());
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = elf_class;
    header.e_machine = machine;
    std::ofstream(Path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(&header), sizeof(header));
    return Path(name);
  }

  Installation Install(bool with_sim) {
    MakeLibrary("home/lib/libcupola.so");
    MakeLibrary("home/lib/libcupola/libcuda.so.1");
    if (with_sim) MakeLibrary("home/lib/sim/libcuda.so.1");
    auto found = FindInstallation(Path("home"));
    EXPECT_TRUE(found.ok());
    return std::move(found).value();
  }

  std::string root_;
};

/// The text of an ld.so.cache in format 1.1 with these (soname, path) pairs.
std::string Cache(const std::vector<std::pair<std::string, std::string>>& entries,
                  const std::string& before = "") {
  const size_t table = 48 + entries.size() * 24;
  std::string head = "glibc-ld.so.cache1.1";
  std::string strings;
  const auto number = [](uint64_t value, size_t bytes) {
    return std::string(reinterpret_cast<const char*>(&value), bytes);
  };
  std::string body;
  for (const auto& [soname, path] : entries) {
    body += number(0x303, 4) + number(table + strings.size(), 4);
    strings += soname + '\0';
    body += number(table + strings.size(), 4) + number(0, 4) + number(0, 8);
    strings += path + '\0';
  }
  head += number(entries.size(), 4) + number(strings.size(), 4) + std::string(20, '\0');
  return before + head + body + strings;
}

TEST_F(InstallationTest, FindsBothLayouts) {
  const Installation built = Install(true);
  EXPECT_EQ(built.preload, Path("home/lib/libcupola.so"));
  EXPECT_EQ(built.sim_folder, Path("home/lib/sim"));
  EXPECT_EQ(built.front_folder, Path("home/lib/libcupola"));
  MakeLibrary("usr/lib/cupola/libcupola.so");
  auto half = FindInstallation(Path("usr"));
  ASSERT_FALSE(half.ok());
  EXPECT_NE(half.error().message.find("libcupola/libcuda.so.1"), std::string::npos);
  MakeLibrary("usr/lib/cupola/libcupola/libcuda.so.1");
  auto installed = FindInstallation(Path("usr"));
  ASSERT_TRUE(installed.ok());
  EXPECT_EQ(installed->preload, Path("usr/lib/cupola/libcupola.so"));
  EXPECT_EQ(installed->sim_folder, "");
  auto none = FindInstallation(Path("nothing"));
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("CUPOLA_HOME"), std::string::npos);
}

TEST_F(InstallationTest, ReadsTheLoaderCache) {
  const std::string cache = Cache({{"libc.so.6", "/lib/libc.so.6"},
                                   {"libcuda.so.1", "/a/libcuda.so.1"},
                                   {"libcuda.so.1", "/b/libcuda.so.1"}});
  EXPECT_EQ(LoaderCacheEntries(cache, "libcuda.so.1"),
            (std::vector<std::string>{"/a/libcuda.so.1", "/b/libcuda.so.1"}));
  EXPECT_EQ(LoaderCacheEntries(Cache({{"x", "/x"}}, "ld.so-1.7.0 and an old table"), "x"),
            std::vector<std::string>{"/x"});
}

TEST_F(InstallationTest, DamagedCachesGiveNothing) {
  const std::string cache = Cache({{"x", "/x"}, {"x", "/y"}});
  for (size_t length = 0; length < 48 + 2 * 24; ++length) {
    EXPECT_TRUE(LoaderCacheEntries(cache.substr(0, length), "x").empty()) << length;
  }
  std::string wild = cache;
  std::memset(wild.data() + 48 + 4, 0xFF, 8);  // first entry's offsets
  EXPECT_EQ(LoaderCacheEntries(wild, "x"), std::vector<std::string>{"/y"});
  std::memset(wild.data() + 20, 0xFF, 4);  // count
  EXPECT_TRUE(LoaderCacheEntries(wild, "x").empty());
  EXPECT_TRUE(LoaderCacheEntries("", "x").empty());
}

TEST_F(InstallationTest, DriverInTheLoadersOrder) {
  const Installation home = Install(true);
  const std::string in_path = MakeLibrary("path/libcuda.so.1");
  const std::string in_cache = MakeLibrary("cached/libcuda.so.1");
  const std::string in_folder = MakeLibrary("usual/libcuda.so.1");
  std::ofstream(Path("cache")) << Cache({{"libcuda.so.1", in_cache}});
  DriverPlaces places{.named = "", .library_path = "/nowhere:" + Path("path"),
                      .cache_file = Path("cache"), .folders = {Path("usual")}};
  EXPECT_EQ(*FindDriver(places, home), in_path);
  fs::remove(in_path);
  EXPECT_EQ(*FindDriver(places, home), in_cache);
  fs::remove(in_cache);
  EXPECT_EQ(*FindDriver(places, home), in_folder);
  fs::remove(in_folder);
  EXPECT_EQ(FindDriver(places, home).error().code, ErrorCode::kNotFound);
}

TEST_F(InstallationTest, PassesOverWhatIsNoDriver) {
  const Installation home = Install(true);
  MakeLibrary("cuda/lib64/stubs/libcuda.so.1");
  MakeLibrary("arm/libcuda.so.1", EM_AARCH64);
  MakeLibrary("small/libcuda.so.1", EM_386, ELFCLASS32);
  fs::create_directories(Path("text"));
  std::ofstream(Path("text/libcuda.so.1"))
      << "not a library at all, though long enough to be a header of one";
  fs::create_directories(Path("ours"));
  fs::create_symlink(home.preload, Path("ours/libcuda.so.1"));
  DriverPlaces places;
  for (const std::string folder :
       {"cuda/lib64/stubs", "arm", "small", "text", "ours", "home/lib/sim", "home/lib/libcupola"}) {
    places.library_path = Path(folder);
    EXPECT_FALSE(FindDriver(places, home).ok()) << folder;
  }
}

TEST_F(InstallationTest, NamedDriverIsTheOnlyPlace) {
  const Installation home = Install(true);
  MakeLibrary("path/libcuda.so.1");
  DriverPlaces places{.named = MakeLibrary("mine/driver.so"), .library_path = Path("path")};
  EXPECT_EQ(*FindDriver(places, home), Path("mine/driver.so"));
  places.named = Path("missing.so");
  EXPECT_FALSE(FindDriver(places, home).ok());
  EXPECT_FALSE(ChooseDevice("gpu", places, home).ok());
  EXPECT_FALSE(ChooseDevice("auto", places, home).ok()) << "a wrong name is not passed over";
}

TEST_F(InstallationTest, ChoosesTheDevice) {
  const Installation home = Install(true);
  const std::string sim = home.sim_folder + "/libcuda.so.1";
  DriverPlaces none;
  EXPECT_EQ(ChooseDevice("auto", none, home)->driver, sim);
  EXPECT_TRUE(ChooseDevice("auto", none, home)->simulated);
  EXPECT_TRUE(ChooseDevice("sim", none, home)->simulated);
  EXPECT_NE(ChooseDevice("gpu", none, home).error().message.find("--device sim"),
            std::string::npos);
  const DriverPlaces named{.named = MakeLibrary("mine/libcuda.so.1")};
  EXPECT_FALSE(ChooseDevice("auto", named, home)->simulated);
  EXPECT_EQ(ChooseDevice("gpu", named, home)->driver, named.named);
  EXPECT_TRUE(ChooseDevice("sim", named, home)->simulated);
}

TEST_F(InstallationTest, BelowASimulatedRun) {
  const Installation home = Install(true);
  const DriverPlaces inner{.named = home.sim_folder + "/libcuda.so.1",
                           .library_path = home.sim_folder};
  EXPECT_TRUE(ChooseDevice("auto", inner, home)->simulated);
  EXPECT_FALSE(ChooseDevice("gpu", inner, home).ok()) << "the simulated driver is no GPU";
}

TEST_F(InstallationTest, NothingToRunOnIsOneSentence) {
  const Installation home = Install(false);
  const DriverPlaces none;
  for (const char* device : {"auto", "gpu", "sim"}) {
    const auto choice = ChooseDevice(device, none, home);
    ASSERT_FALSE(choice.ok());
    EXPECT_EQ(choice.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace cupola
