#include "cli/arbiter_table.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"

namespace cupola {
namespace {

struct Row {
  const nlohmann::json* now;
  const nlohmann::json* before;  // the process in the earlier answer; nullptr: it was not there yet
  double ran_ns = 0;   // its GPU time in the interval
};

const nlohmann::json* FindClient(const nlohmann::json* answer, const std::string& uuid,
                                 const nlohmann::json& client) {
  if (answer == nullptr) return nullptr;
  for (const nlohmann::json& gpu : (*answer)["gpus"]) {
    if (gpu["uuid"] != uuid) continue;
    for (const nlohmann::json& other : gpu["clients"]) {
      if (other["pid"] == client["pid"] && other["slot"] == client["slot"]) return &other;
    }
  }
  return nullptr;
}

double Difference(const Row& row, const char* name) {
  const double before = row.before != nullptr ? (*row.before)[name].get<double>() : 0;
  return std::max((*row.now)[name].get<double>() - before, 0.0);
}

const char* StateOf(const nlohmann::json& client) {
  if (client["paused"] && client["can_gate"]) return "paused";
  if (client["paused"]) return client["can_preempt"] ? "paused (variants only)" : "paused (cannot be stopped)";
  if (!client["active"]) return "idle";
  if (client["granted"]) return "runs";
  if (client["can_preempt"] || client["can_gate"]) return "waits";
  return "runs (cannot be stopped)";
}

std::string Duration(double ns) {
  if (ns < 1e6) return fmt::format("{:.0f}us", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.1f}ms", ns / 1e6);
  return fmt::format("{:.1f}s", ns / 1e9);
}

/// The text of a cell; "-" where it is empty.
std::string Cell(const nlohmann::json& text) {
  const std::string shown = Printable(text.get<std::string>());
  return shown.empty() ? "-" : shown;
}

std::string RulesOf(const nlohmann::json& client) {
  const auto rules = client.value("rules", std::vector<size_t>());
  return rules.empty() ? "-" : fmt::format("{}", fmt::join(rules, ","));
}

/// A state with "*" in place of the part in parentheses, for which there is no room.
std::string ShortState(const std::string& state) {
  const size_t end = state.find(" (");
  return end == std::string::npos ? state : state.substr(0, end) + "*";
}

/// One column of the table: its text, and for which widths of the terminal it is shown.
struct Column {
  const char* name;
  int width;         ///< 0: the rest of the line
  bool is_left;      ///< left-aligned
  size_t columns_from;   ///< the smallest width for which it is shown
  size_t columns_below;  ///< it is shown below this width only; 0: no limit
  std::string (*text)(const Row& row, double total_ns);
};

constexpr size_t kColumnsForAll = 150, kColumnsForMost = 110;

std::string Number(const Row& row, const char* name) { return std::to_string((*row.now)[name].get<int64_t>()); }

/// How much of its GPU time could be stopped, at blocks or between kernels; "-" where nothing is known.
std::string StoppablePart(const nlohmann::json& client) {
  const double stops = client.value("gpu_ns", 0.0) + client.value("between_ns", 0.0);
  const double all = stops + client.value("unstoppable_ns", 0.0);
  return all > 0 ? fmt::format("{:.0f}", 100 * stops / all) : "-";
}

const Column kTable[] = {
    {"PID", 8, false, 0, 0, [](const Row& row, double) { return Number(row, "pid"); }},
    {"PROGRAM", 16, true, 0, 0,
     [](const Row& row, double) {
       const std::string path = (*row.now)["executable"];
       return Printable(path.substr(path.rfind('/') + 1));
     }},
    {"PRIORITY", 8, false, 0, 0, [](const Row& row, double) { return Number(row, "priority"); }},
    {"WEIGHT", 6, false, 0, 0, [](const Row& row, double) { return Number(row, "weight"); }},
    {"SHARE%", 6, false, 0, 0,
     [](const Row& row, double total_ns) {
       return fmt::format("{:.1f}", total_ns > 0 ? 100 * row.ran_ns / total_ns : 0.0);
     }},
    {"LAUNCHES", 8, false, kColumnsForMost, 0,
     [](const Row& row, double) { return fmt::format("{:.0f}", Difference(row, "launches")); }},
    {"PREEMPTD", 8, false, kColumnsForMost, 0,
     [](const Row& row, double) { return fmt::format("{:.0f}", Difference(row, "preemptions")); }},
    {"STOPS%", 6, false, kColumnsForMost, 0, [](const Row& row, double) { return StoppablePart(*row.now); }},
    {"WAITING", 9, false, 0, 0,
     [](const Row& row, double) {
       const nlohmann::json& client = *row.now;
       const bool waits = client["active"] && !client["granted"];
       const nlohmann::json launch = client.value("launch", nlohmann::json::object());
       return waits ? Duration(launch.value("waited_ns", 0.0)) : "-";
     }},
    {"STATE", 26, true, kColumnsForMost, 0, [](const Row& row, double) { return std::string(StateOf(*row.now)); }},
    {"STATE", 7, true, 0, kColumnsForMost, [](const Row& row, double) { return ShortState(StateOf(*row.now)); }},
    {"USER", 8, true, kColumnsForAll, 0, [](const Row& row, double) { return Cell((*row.now)["user"]); }},
    {"RULES", 7, true, kColumnsForAll, 0, [](const Row& row, double) { return RulesOf(*row.now); }},
    {"LABEL", 12, true, kColumnsForAll, 0, [](const Row& row, double) { return Cell((*row.now)["label"]); }},
    {"KERNEL", 0, true, 0, 0,
     [](const Row& row, double) { return Printable((*row.now)["kernel"].get<std::string>()); }}};

/// A line of the table; the heads of the columns when `row` is null.
std::string Line(const Row* row, double total_ns, size_t columns) {
  std::string line;
  for (const Column& column : kTable) {
    const size_t there = columns == 0 ? SIZE_MAX : columns;
    if (there < column.columns_from || (column.columns_below != 0 && there >= column.columns_below)) continue;
    const std::string text = row != nullptr ? column.text(*row, total_ns) : column.name;
    if (!line.empty()) line += ' ';
    // A name that is too long for its column is cut; a number is not.
    if (!column.is_left) {
      line += fmt::format("{:>{}}", text, column.width);
    } else if (column.width == 0 || std::string_view(column.name) == "LABEL") {
      line += fmt::format("{:<{}}", text, column.width);
    } else {
      line += fmt::format("{:<{}.{}}", text, column.width, column.width);
    }
  }
  return line;
}

}  // namespace

std::vector<std::string> ArbiterTable(const nlohmann::json& answer, const nlohmann::json* before,
                                      size_t columns) {
  std::vector<std::string> lines;
  if (answer["gpus"].empty()) lines.emplace_back("no process has joined yet");
  for (const nlohmann::json& gpu : answer["gpus"]) {
    const std::string uuid = gpu["uuid"];
    std::vector<Row> rows;
    double total = 0;
    for (const nlohmann::json& client : gpu["clients"]) {
      Row row{&client, FindClient(before, uuid, client)};
      row.ran_ns = Difference(row, "ran_ns");
      total += row.ran_ns;
      rows.push_back(row);
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return a.ran_ns > b.ran_ns; });
    lines.push_back(fmt::format("{}  policy {}  {} processes{}", uuid, gpu["policy"].get<std::string>(),
                                rows.size(), answer.value("mps", false) ? "  MPS" : ""));
    lines.push_back(Line(nullptr, 0, columns));
    for (const Row& row : rows) lines.push_back(Line(&row, total, columns));
  }
  return lines;
}

std::string ArbiterTableText(const nlohmann::json& answer) {
  return fmt::format("{}\n", fmt::join(ArbiterTable(answer, nullptr, 0), "\n"));
}

}  // namespace cupola
