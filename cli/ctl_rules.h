// What `cupola ctl rules` prints.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace cupola {

/// The rules in an answer to {"command": "rules"}: whom each fits, or, where one process was asked for, why it does
/// not fit that one.
std::string RulesText(const nlohmann::json& answer);

}  // namespace cupola
