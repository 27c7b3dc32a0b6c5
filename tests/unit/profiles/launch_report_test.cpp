// The launch report as text and as JSON, for names that hold any bytes. What a process counts is in tests/cli/report_test.py.
#include "profiles/report/launch_report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace cupola {
namespace {

LaunchReport ReportOf(const std::string& program, const std::string& kernel) {
  LaunchReport report{.pid = 40, .program = program};
  report.kernels.push_back({.name = kernel});
  report.kernels.back().ways[static_cast<size_t>(Way::kPlain)] = {.launches = 2};
  return report;
}

TEST(LaunchReportTest, JsonKeepsNamesThatAreUtf8) {
  const std::string program = "/home/j\u00F6rg/\u6F22\u5B57 \U0001F600/a\"b\\c\n\x01\x7f", kernel = "ker\u00E9";
  const auto json = nlohmann::json::parse(ReportJson(ReportOf(program, kernel)));
  EXPECT_EQ(json["program"], program);
  EXPECT_EQ(json["kernels"][0]["name"], kernel);
  EXPECT_EQ(json["kernels"][0]["launches"], 2);
}

TEST(LaunchReportTest, JsonReplacesBytesThatAreNotUtf8) {
  // A wrong byte, a sequence that is cut off, one that is longer than it need be, and a surrogate.
  const auto json = nlohmann::json::parse(ReportJson(ReportOf("/a\xff", "b\xc3 \xc0\xaf \xed\xa0\x80")));
  EXPECT_EQ(json["program"], "/a\uFFFD");
  EXPECT_EQ(json["kernels"][0]["name"], "b\uFFFD \uFFFD\uFFFD \uFFFD\uFFFD\uFFFD");
}

TEST(LaunchReportTest, TextShowsOnlyWhatIsVisible) {
  // An end of a line would begin a line of another report, an escape sequence or a change of direction would hide text.
  const std::string text = ReportText(ReportOf("/home/x/j\u00F6rg\ncupola 41:", "k\x1b[2J\u202E\u009B\xff\u00E9"));
  EXPECT_EQ(text, "cupola 40: j\u00F6rg?cupola 41:: 1 kernel, 2 launches\n"
                  "cupola 40: k?[2J???\u00E9: 2 launches, GPU time unknown\n"
                  "cupola 40:   2 plain: GPU time unknown\n");
}

}  // namespace
}  // namespace cupola
