#include "cli/report/page.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cupola::report {
namespace {

using nlohmann::json;

constexpr size_t kMostKernels = 100;  // in the table of kernels; the page says how many more there are

std::string Dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

/// `text` in HTML.
std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += c;
    }
  }
  return out;
}

/// A JSON array, written at once, because there may be a hundred thousand launches.
template <typename Range, typename Text>
std::string Array(const Range& range, Text&& text) {
  std::string out = "[";
  for (const auto& one : range) {
    if (out.size() > 1) out += ',';
    out += text(one);
  }
  return out += ']';
}

std::string Launches(const Report& report) {
  std::string counts = "[", starts = "[", durations = "[", waits = "[", names = "[", ways, timed;
  std::vector<uint64_t> per_row(report.rows.size());
  int64_t before_ns = 0;
  uint32_t row = ~uint32_t{0};
  const auto out = [](std::string* text) { return std::back_inserter(*text); };
  for (const ReportLaunch& launch : report.launches) {
    ++per_row[launch.row];
    if (launch.row != row) before_ns = report.begin_ns;
    row = launch.row;
    fmt::format_to(out(&starts), "{},", launch.start_ns - before_ns);
    fmt::format_to(out(&durations), "{},", launch.end_ns - launch.start_ns);
    fmt::format_to(out(&waits), "{},", launch.start_ns - launch.call_ns);
    fmt::format_to(out(&names), "{},", launch.name);
    ways += static_cast<char>('0' + static_cast<int>(launch.way));
    timed += launch.timed ? '1' : '0';
    before_ns = launch.start_ns;
  }
  for (std::string* text : {&starts, &durations, &waits, &names}) {
    if (text->back() == ',') text->pop_back();
    *text += ']';
  }
  return fmt::format(R"({{"per_row":{},"start":{},"duration":{},"after_call":{},"name":{},"way":"{}","timed":"{}"}})",
                     Array(per_row, [](uint64_t count) { return std::to_string(count); }), starts, durations, waits, names,
                     ways, timed);
}

std::string Phases(const Report& report) {
  return Array(report.phases, [&](const ReportPhase& phase) {
    return fmt::format("[{},{},{},{},{}]", phase.process, phase.gpu, static_cast<int>(phase.phase),
                       phase.start_ns - report.begin_ns, phase.end_ns - phase.start_ns);
  });
}

std::string SharesOf(const Figures& figures) {
  return Array(figures.shares, [](const Shares& shares) {
    const std::string parts = Array(shares.parts, [](const std::vector<double>& bin) {
      // Rounded down, so that the parts of a bin are at most 1 together.
      return Array(bin, [](double part) { return fmt::format("{}", std::floor(std::min(part, 1.0) * 1e4) / 1e4); });
    });
    return fmt::format(R"({{"gpu":{},"bin":{},"parts":{}}})", shares.gpu, shares.bin_ns, parts);
  });
}

json Processes(const Report& report) {
  json all = json::array();
  for (const ReportProcess& process : report.processes) {
    all.push_back({{"pid", process.pid}, {"name", process.name}, {"path", process.path},
                   {"arbiter", process.in_arbiter}});
  }
  return all;
}

json Kernels(const Figures& figures) {
  json all = json::array();
  for (size_t i = 0; i < std::min(figures.kernels.size(), kMostKernels); ++i) {
    const KernelTotal& kernel = figures.kernels[i];
    all.push_back({{"name", kernel.name}, {"way", static_cast<int>(kernel.way)}, {"launches", kernel.launches},
                   {"timed", kernel.timed}, {"total", kernel.total_ns}, {"longest", kernel.longest_ns}});
  }
  return all;
}

}  // namespace

std::string PageData(const Report& report, const Figures& figures) {
  json rows = json::array(), waits = json::array(), coverage = json::array();
  for (const ReportRow& row : report.rows) rows.push_back({{"process", row.process}, {"label", row.label}});
  for (const Wait& wait : figures.waits) {
    waits.push_back({{"waiter", wait.waiter}, {"holder", static_cast<int32_t>(wait.holder)}, {"total", wait.total_ns},
                     {"longest", wait.longest_ns}, {"times", wait.times}});
  }
  for (const Coverage& one : figures.coverage) {
    coverage.push_back({{"process", one.process}, {"launches", one.launches}, {"gpu", one.gpu_ns}});
  }
  std::string data = fmt::format(
      R"({{"files":{},"notes":{},"span":{},"arbiter":{},"gpus":{},"processes":{},"rows":{},"names":{},"launches":{},)"
      R"("phases":{},"shares":{},"waits":{},"coverage":{},"kernels":{},"all_kernels":{}}})",
      Dump(report.files), Dump(report.notes), report.end_ns - report.begin_ns, report.has_arbiter, Dump(report.gpus),
      Dump(Processes(report)), Dump(rows), Dump(report.names), Launches(report), Phases(report), SharesOf(figures),
      Dump(waits), Dump(coverage), Dump(Kernels(figures)), figures.kernels.size());
  for (size_t at = data.find('<'); at != std::string::npos; at = data.find('<', at)) data.replace(at, 1, "\\u003c");
  return data;
}

std::string MakePage(const std::string& title, const Report& report, const Figures& figures) {
  constexpr std::string_view kTitle = "@TITLE@", kData = "@DATA@";
  const std::string_view page = PageTemplate();
  const size_t title_at = page.find(kTitle), data_at = page.find(kData);
  std::string text(page.substr(0, title_at));
  text += Escaped(title);
  text += page.substr(title_at + kTitle.size(), data_at - title_at - kTitle.size());
  text += PageData(report, figures);
  text += page.substr(data_at + kData.size());
  return text;
}

}  // namespace cupola::report
