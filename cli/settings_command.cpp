#include "cli/settings_command.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/settings/problems.h"
#include "base/settings/table.h"
#include "base/settings/values.h"
#include "cli/commands.h"
#include "cli/settings_print.h"
#include "sched/daemon/config.h"

namespace cupola {
namespace {

using settings::Setting;

struct SettingsOptions {
  std::string config;
  std::vector<std::string> names;
  bool all = false;
  bool json = false;
  bool markdown = false;
};

constexpr char kSettingsFooter[] =
    "\nOf each setting it prints the value in force here and where that comes from:\n"
    "default, environment, or the file given by --config. Keys of the configuration\n"
    "of `cupola serve` are named by section and key, such as policy.quantum_us.\n"
    "\nExamples:\n"
    "  cupola settings                          those for users\n"
    "  cupola settings CUPOLA_TASKS             one of them\n"
    "  cupola settings --config cupola.toml     with what that file sets\n"
    "  cupola settings --markdown               the page docs/settings.md\n"
    "\nExit codes: 0 done; 1 a variable of the environment is no setting or has a value\n"
    "that is not allowed, the configuration is wrong, or there is no setting NAME;\n"
    "2 wrong usage.\n";

/// The value of a variable in this environment, as who reads it takes it.
SettingInForce OfEnvironment(const Setting& setting) {
  SettingInForce row{&setting, setting.fallback, "default", ""};
  const std::string start = std::string(setting.name) + "=";
  for (char* const* entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with(start)) continue;
    const std::string_view value = text.substr(start.size());
    if (value.empty() && !setting.may_be_empty) return row;
    char line[512];
    if (settings::Judge(*entry, UINT8_MAX, line, sizeof(line)) != settings::Problem::kNone) {
      row.problem = line;
      return row;
    }
    row.value = value;
    row.from = "environment";
    return row;  // getenv(3) takes the first too
  }
  return row;
}

/// The values of a key in the configuration: one, or for a key of [[rule]] that of each rule.
SettingInForce OfConfig(const Setting& setting, const std::vector<sched::GivenKey>& given, const std::string& file) {
  SettingInForce row{&setting, "", "", ""};
  for (const sched::GivenKey& key : given) {
    if (key.name != setting.name) continue;
    row.value += (row.value.empty() ? "" : ", ") + key.value;
    row.from += fmt::format("{}{}", row.from.empty() ? file + ":" : ",", key.line);
  }
  return row.from.empty() ? SettingInForce{&setting, setting.fallback, "default", ""} : row;
}

/// Whether the row is asked for: by its name, else all that are for users.
bool IsWanted(const Setting& setting, const SettingsOptions& options) {
  if (options.names.empty()) return options.all || setting.use == settings::Use::kUser;
  return std::find(options.names.begin(), options.names.end(), setting.name) != options.names.end();
}

void RequireNames(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (settings::Find(name) != nullptr) continue;
    const Setting* const nearest = settings::Nearest(name);
    Fail(MakeError(ErrorCode::kNotFound,
                   fmt::format("there is no setting {}; {}", name,
                               nearest != nullptr ? fmt::format("did you mean {}?", nearest->name)
                                                  : "`cupola settings --all` lists them")));
  }
}

std::vector<UnknownVariable> UnknownVariables() {
  std::vector<UnknownVariable> unknown;
  for (char* const* entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    char line[512];
    if (settings::Judge(*entry, 0, line, sizeof(line)) != settings::Problem::kUnknown) continue;
    const std::string_view text = *entry;
    unknown.push_back({std::string(text.substr(0, text.find('='))), line});
  }
  return unknown;
}

sched::Config ConfigOf(const std::string& file) {
  if (file.empty()) return {};
  Result<sched::Config> config = sched::ReadConfig(file);
  if (!config) Fail(config.error());
  for (const std::string& warning : config->warnings) Say(warning);
  return std::move(config).value();
}

void PrintSettings(const SettingsOptions& options) {
  if (options.markdown) {
    fmt::print("{}", SettingsMarkdown());
    return;
  }
  RequireNames(options.names);
  const sched::Config config = ConfigOf(options.config);
  std::vector<SettingInForce> rows;
  bool is_well = true;
  for (const Setting& setting : settings::kTable) {
    SettingInForce row = setting.IsVariable() ? OfEnvironment(setting) : OfConfig(setting, config.given, options.config);
    const bool is_wanted = IsWanted(setting, options);
    const bool counts = is_wanted || options.names.empty();  // what is wrong is shown also where it is for tests
    if (!row.problem.empty() && counts) is_well = false;
    if (is_wanted || (counts && !row.problem.empty())) rows.push_back(std::move(row));
  }
  const std::vector<UnknownVariable> unknown = UnknownVariables();
  fmt::print("{}", options.json ? SettingsJson(rows, unknown) : SettingsText(rows));
  std::fflush(stdout);
  for (const UnknownVariable& variable : unknown) Say(variable.problem);
  if (!is_well || !unknown.empty()) throw CLI::RuntimeError(kExitBadInput);
}

}  // namespace

void AddSettingsCommand(CLI::App& app) {
  auto options = std::make_shared<SettingsOptions>();
  CLI::App* command = app.add_subcommand("settings", "Print all settings, and which values are in force");
  command->add_option("NAME", options->names, "Only these settings");
  command->add_option("--config", options->config, "A configuration of `cupola serve`");
  command->add_flag("--all", options->all, "Internal settings and those of tests, too");
  CLI::Option* json = command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--markdown", options->markdown, "Print the page docs/settings.md")->excludes(json);
  command->footer(kSettingsFooter);
  command->callback([options] { PrintSettings(*options); });
}

}  // namespace cupola
