#include "cli/settings_print.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/settings/problems.h"
#include "base/settings/table.h"
#include "cli/commands.h"
#include "cli/help_formatter.h"

namespace cupola {
namespace {

using settings::Setting;
using settings::Type;
using settings::Use;

constexpr size_t kIndent = 4;
constexpr size_t kValueColumn = 32;

/// A part of the table under one heading.
struct Group {
  const char* heading;
  bool (*holds)(const Setting&);
};

constexpr std::array<Group, 6> kGroups = {{
    {"The library, in every program",
     [](const Setting& row) { return row.use == Use::kUser && row.IsFor(settings::kLibrary); }},
    {"Commands", [](const Setting& row) { return row.use == Use::kUser && row.scopes == settings::kCommand; }},
    {"The simulated device",
     [](const Setting& row) { return row.use == Use::kUser && row.IsFor(settings::kSimulated); }},
    {"The configuration of cupola serve",
     [](const Setting& row) { return row.use == Use::kUser && row.IsFor(settings::kArbiter); }},
    {"Internal: handed over from commands to the library",
     [](const Setting& row) { return row.use == Use::kInternal; }},
    {"Tests and scripts of the source tree", [](const Setting& row) { return row.use == Use::kTests; }},
}};

const char* TypeName(Type type) {
  switch (type) {
    case Type::kFlag: return "flag";
    case Type::kNumber: return "number";
    case Type::kFraction: return "fraction";
    case Type::kWord: return "word";
    case Type::kAbsolutePath: return "absolute path";
    case Type::kWordOrPath: return "word or path";
    case Type::kText: return "text";
  }
  return "text";
}

const char* UseName(Use use) {
  switch (use) {
    case Use::kUser: return "user";
    case Use::kInternal: return "internal";
    case Use::kTests: return "tests";
  }
  return "user";
}

std::vector<std::string> ScopeNames(const Setting& row) {
  constexpr std::pair<settings::Scope, const char*> kNames[] = {{settings::kLibrary, "library"},
                                                                {settings::kCommand, "command"},
                                                                {settings::kSimulated, "simulated device"},
                                                                {settings::kArbiter, "arbiter"},
                                                                {settings::kTree, "source tree"}};
  std::vector<std::string> names;
  for (const auto& [scope, name] : kNames) {
    if (row.IsFor(scope)) names.emplace_back(name);
  }
  return names;
}

std::string Expected(const Setting& row) {
  char text[256];
  settings::ExpectedText(row, text, sizeof(text));
  return text;
}

std::string WithUnit(const std::string& value, const Setting& row) {
  return value.empty() || *row.unit == '\0' ? value : value + " " + row.unit;
}

/// `first`, and behind it `text`, from the column `indent` on where `first` is shorter.
std::string Wrapped(const std::string& first, const std::string& text, size_t indent) {
  return BreakLine(first + (first.size() > indent ? " " : "") + text, indent, kHelpColumns);
}

std::string Sentence(const std::string& text) {
  return Wrapped(std::string(kIndent, ' '), text, kIndent);
}

std::string RowText(const SettingInForce& row) {
  const std::string value = row.value.empty() ? "-" : WithUnit(Printable(row.value), *row.setting);
  std::string text = Wrapped(fmt::format("{:<{}}", row.setting->name, kValueColumn),
                             fmt::format("{} ({})", value, Printable(row.from)), kValueColumn);
  if (!row.problem.empty()) text += Sentence("WRONG: " + Printable(row.problem));
  text += Sentence(row.setting->meaning);
  if (row.setting->type == Type::kFlag) return text;
  const bool is_word = row.setting->type == Type::kWord;
  return text + Sentence(fmt::format("Allowed: {}.", is_word ? row.setting->allowed : Expected(*row.setting)));
}

}  // namespace

std::string SettingsText(const std::vector<SettingInForce>& rows) {
  std::string text;
  for (const Group& group : kGroups) {
    bool has_heading = false;
    for (const SettingInForce& row : rows) {
      if (!group.holds(*row.setting)) continue;
      if (!has_heading) text += fmt::format("{}{}\n", text.empty() ? "" : "\n", group.heading);
      has_heading = true;
      text += RowText(row);
    }
  }
  return text;
}

std::string SettingsJson(const std::vector<SettingInForce>& rows, const std::vector<UnknownVariable>& unknown) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array(), others = nlohmann::ordered_json::array();
  for (const SettingInForce& row : rows) {
    const Setting& setting = *row.setting;
    nlohmann::ordered_json one = {{"name", setting.name},
                                  {"kind", setting.IsVariable() ? "environment" : "configuration"},
                                  {"use", UseName(setting.use)},
                                  {"scopes", ScopeNames(setting)},
                                  {"type", TypeName(setting.type)},
                                  {"default", setting.fallback},
                                  {"unit", setting.unit},
                                  {"expected", Expected(setting)},
                                  {"meaning", setting.meaning},
                                  {"value", row.value},
                                  {"from", row.from}};
    if (!row.problem.empty()) one["problem"] = row.problem;
    all.push_back(std::move(one));
  }
  for (const UnknownVariable& variable : unknown) {
    others.push_back({{"name", variable.name}, {"problem", variable.problem}});
  }
  const nlohmann::ordered_json object = {{"settings", all}, {"unknown", others}};
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string SettingsMarkdown() {
  std::string page =
      "# Settings\n"
      "Written by `cupola settings --markdown` from the table in `base/settings/table.h`; a test compares the two.\n"
      "`cupola settings` prints the same with the values that are in force, and where each comes from.\n\n"
      "A variable that is set to nothing counts as not set, unless the table says otherwise. A value that is not\n"
      "allowed counts as not set too, and is named once in the log; so is a variable whose name begins with `CUPOLA_`\n"
      "and is not in this table, with the nearest that is (by the library at `CUPOLA_LOG=info`). In the configuration\n"
      "of `cupola serve` both are errors.\n";
  for (const Group& group : kGroups) {
    page += fmt::format("\n## {}\n| name | default | allowed | meaning |\n|---|---|---|---|\n", group.heading);
    for (const Setting& row : settings::kTable) {
      if (!group.holds(row)) continue;
      const std::string fallback = WithUnit(row.fallback, row);
      const bool commands_too = row.scopes == (settings::kLibrary | settings::kCommand) && row.use == Use::kUser;
      page += fmt::format("| `{}` | {} | {} | {}{} |\n", row.name, fallback.empty() ? "" : "`" + fallback + "`",
                          Expected(row), row.meaning, commands_too ? " Of commands too." : "");
    }
  }
  return page;
}

}  // namespace cupola
