// How `cupola settings` prints the table: for people, as JSON, and as the page docs/settings.md. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/settings/setting.h"

namespace cupola {

/// A setting, and its value here.
struct SettingInForce {
  const settings::Setting* setting = nullptr;
  std::string value;
  std::string from;     ///< "default", "environment", or file and lines of the configuration
  std::string problem;  ///< a sentence; "": there is none
};

/// A variable of the environment that is no setting.
struct UnknownVariable {
  std::string name;
  std::string problem;  ///< a sentence, which names the nearest setting
};

/// Two lines or more a setting, none longer than 80 columns but for long values.
std::string SettingsText(const std::vector<SettingInForce>& rows);

/// One JSON object: "settings", and "unknown".
std::string SettingsJson(const std::vector<SettingInForce>& rows, const std::vector<UnknownVariable>& unknown);

/// The page docs/settings.md. It depends on the table only.
std::string SettingsMarkdown();

}  // namespace cupola
