#include "cli/doctor_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/doctor.h"

namespace cupola {
namespace {

constexpr char kDoctorFooter[] =
    "\nLines that begin with \"ok\" are in order. A \"note\" says what Cupola does without.\n"
    "\"TROUBLE\" will not work as it is. Below either stands what to do. The output is\n"
    "fit to be pasted into a report; it has the values of all CUPOLA_ variables.\n"
    "\nExamples:\n"
    "  cupola doctor\n"
    "  cupola doctor --json\n"
    "\nExit codes: 0 no trouble, 1 trouble, 2 wrong usage.\n";

const char* WordOf(Finding::State state) {
  switch (state) {
    case Finding::State::kGood: return "ok";
    case Finding::State::kNote: return "note";
    case Finding::State::kTrouble: break;
  }
  return "TROUBLE";
}

void PrintText(const std::string& version, const std::vector<Finding>& findings) {
  fmt::print("{}\n", version);
  for (const Finding& finding : findings) {
    fmt::print("{:<8} {:<17} {}\n", WordOf(finding.state), finding.name, Printable(finding.text));
    if (!finding.remedy.empty()) fmt::print("{:<26} -> {}\n", "", Printable(finding.remedy));
  }
}

void PrintJson(const std::string& version, const std::vector<Finding>& findings) {
  nlohmann::json all = nlohmann::json::array();
  for (const Finding& finding : findings) {
    std::string state = WordOf(finding.state);
    std::ranges::transform(state, state.begin(), [](unsigned char c) { return std::tolower(c); });
    all.push_back({{"name", finding.name}, {"state", state}, {"text", Printable(finding.text)},
                   {"remedy", finding.remedy}});
  }
  fmt::print("{}\n", nlohmann::json{{"version", version}, {"findings", all}}.dump(1));
}

void Examine(const std::string& version, bool as_json) {
  const std::vector<Finding> findings = ExamineMachine();
  as_json ? PrintJson(version, findings) : PrintText(version, findings);
  const auto is_trouble = [](const Finding& finding) { return finding.state == Finding::State::kTrouble; };
  if (std::ranges::any_of(findings, is_trouble)) throw CLI::RuntimeError(kExitBadInput);
}

}  // namespace

void AddDoctorCommand(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("doctor", "Say what is missing on this machine, and how to mend it");
  command->footer(kDoctorFooter);
  const auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "Print JSON");
  command->callback([&app, as_json] { Examine(app.version(), *as_json); });
}

}  // namespace cupola
