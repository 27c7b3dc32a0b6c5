// The text that `cupola ctl rules` prints. Pure function; any thread.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace cupola {

/// The rules in the daemon's answer to {"command": "rules"}, each with the processes that it matches. Where the request
/// named one process, each rule says instead why it does not match that process.
std::string RulesText(const nlohmann::json& answer);

}  // namespace cupola
