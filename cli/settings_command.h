// The subcommand `cupola settings`: the table of all settings (base/settings/table.h), and which values are in force
// here. See commands.h for the rules.
#pragma once

#include <CLI/CLI.hpp>

namespace cupola {

void AddSettingsCommand(CLI::App& app);

}  // namespace cupola
