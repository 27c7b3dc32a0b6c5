#include "cli/arbiter_table.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"

namespace cupola {
namespace {

struct Row {
  const nlohmann::json* now;
  const nlohmann::json* before;  // nullptr: not there yet
  double ran_ns = 0;   // GPU time in the interval
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

/// A text of a process in a table: "-" where there is none.
std::string Cell(const nlohmann::json& text) {
  const std::string shown = Printable(text.get<std::string>());
  return shown.empty() ? "-" : shown;
}

std::string RulesOf(const nlohmann::json& client) {
  const auto rules = client.value("rules", std::vector<size_t>());
  return rules.empty() ? "-" : fmt::format("{}", fmt::join(rules, ","));
}

/// Whose and by which rules; on a narrow terminal there is no room for it.
constexpr size_t kColumnsForAll = 150;

std::string RowText(const Row& row, double total_ns, bool with_all) {
  const nlohmann::json& client = *row.now;
  const std::string path = client["executable"];
  const bool waits = client["active"] && !client["granted"];
  const nlohmann::json launch = client.value("launch", nlohmann::json::object());
  std::string text = fmt::format("{:>8} {:<16.16} {:>8} {:>6} {:>6.1f} {:>8.0f} {:>8.0f} {:>9} {:<26} ",
                                 client["pid"].get<int64_t>(), Printable(path.substr(path.rfind('/') + 1)),
                                 client["priority"].get<int64_t>(), client["weight"].get<int64_t>(),
                                 total_ns > 0 ? 100 * row.ran_ns / total_ns : 0.0, Difference(row, "launches"),
                                 Difference(row, "preemptions"),
                                 waits ? Duration(launch.value("waited_ns", 0.0)) : "-", StateOf(client));
  if (with_all) {
    text += fmt::format("{:<8} {:<7} {:<12} ", Cell(client["user"]), RulesOf(client), Cell(client["label"]));
  }
  return text + Printable(client["kernel"].get<std::string>());
}

std::string HeadText(bool with_all) {
  std::string text = fmt::format("{:>8} {:<16} {:>8} {:>6} {:>6} {:>8} {:>8} {:>9} {:<26} ", "PID", "PROGRAM",
                                 "PRIORITY", "WEIGHT", "SHARE%", "LAUNCHES", "PREEMPTD", "WAITING", "STATE");
  if (with_all) text += fmt::format("{:<8} {:<7} {:<12} ", "USER", "RULES", "LABEL");
  return text + "KERNEL";
}

void Append(std::string& text, std::string line, size_t columns) {
  if (columns != 0 && line.size() > columns) line.resize(columns);
  text += line + "\n";
}

}  // namespace

std::string ArbiterTable(const nlohmann::json& answer, const nlohmann::json* before,
                         size_t columns) {
  std::string text;
  const bool with_all = columns == 0 || columns >= kColumnsForAll;
  if (answer["gpus"].empty()) Append(text, "no process has joined yet", columns);
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
    Append(text,
           fmt::format("{}  policy {}  {} processes{}", uuid, gpu["policy"].get<std::string>(),
                       rows.size(), answer.value("mps", false) ? "  MPS" : ""),
           columns);
    Append(text, HeadText(with_all), columns);
    for (const Row& row : rows) Append(text, RowText(row, total, with_all), columns);
  }
  return text;
}

}  // namespace cupola
