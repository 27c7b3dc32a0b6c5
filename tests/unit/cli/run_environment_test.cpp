#include "cli/run_environment.h"

#include <gtest/gtest.h>

namespace cupola {
namespace {

using Strings = std::vector<std::string>;

TEST(RunEnvironmentTest, AddsAndKeepsTheRest) {
  const Strings got = WithCupola({"HOME=/root", "CUPOLA_RECORDS=/old", "CUPOLA_TIMING=host"},
                                 {.preload = "/l/libcupola.so", .driver = "/d/libcuda.so.1"});
  EXPECT_EQ(got, (Strings{"HOME=/root", "LD_PRELOAD=/l/libcupola.so",
                          "ASAN_OPTIONS=verify_asan_link_order=0", "CUPOLA_DRIVER=/d/libcuda.so.1"}));
}

TEST(RunEnvironmentTest, OursComesFirstAndOnce) {
  const Strings got = WithCupola({"LD_PRELOAD=/a.so:/l/libcupola.so:/b.so", "LD_LIBRARY_PATH=/x"},
                                 {.preload = "/l/libcupola.so", .library_folder = "/sim",
                                  .front_folder = "/front"});
  EXPECT_EQ(got,
            (Strings{"LD_PRELOAD=/l/libcupola.so:/a.so:/b.so", "LD_LIBRARY_PATH=/front:/sim:/x",
                     "ASAN_OPTIONS=verify_asan_link_order=0"}));
}

TEST(RunEnvironmentTest, EmptyListIsNotTheCurrentFolder) {
  const Strings got = WithCupola({"LD_LIBRARY_PATH="}, {.library_folder = "/sim"});
  EXPECT_EQ(got, Strings{"LD_LIBRARY_PATH=/sim"});
}

TEST(RunEnvironmentTest, EmptyWordsStay) {
  const Strings got = WithCupola({"LD_LIBRARY_PATH=/a::/b:"}, {.library_folder = "/sim"});
  EXPECT_EQ(got, Strings{"LD_LIBRARY_PATH=/sim:/a::/b:"});
}

TEST(RunEnvironmentTest, NamesAreWhole) {
  const Strings got = WithCupola({"LD_PRELOAD_X=1", "MY_CUPOLA_RECORDS=2"},
                                 {.preload = "/l.so", .records = "/r"});
  EXPECT_EQ(got, (Strings{"LD_PRELOAD_X=1", "MY_CUPOLA_RECORDS=2", "LD_PRELOAD=/l.so",
                          "ASAN_OPTIONS=verify_asan_link_order=0", "CUPOLA_RECORDS=/r"}));
}

TEST(RunEnvironmentTest, NothingStandsInFrontWithoutThePreload) {
  EXPECT_EQ(WithCupola({"HOME=/root"}, {.front_folder = "/front"}), Strings{"HOME=/root"});
}

TEST(RunEnvironmentTest, SanitizerOptionsStay) {
  const auto options = [](const std::string& before) {
    return WithCupola({"ASAN_OPTIONS=" + before, "LD_PRELOAD=/l.so"}, {.preload = "/l.so"}).back();
  };
  EXPECT_EQ(options("detect_leaks=0"), "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0");
  EXPECT_EQ(WithCupola({"ASAN_OPTIONS=verify_asan_link_order=1"}, {.preload = "/l.so"}),
            (Strings{"ASAN_OPTIONS=verify_asan_link_order=1", "LD_PRELOAD=/l.so"}));
}

}  // namespace
}  // namespace cupola
