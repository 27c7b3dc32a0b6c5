// The daemon's answer to "show" as a table for people: of `cupola ctl show` and `cupola top`.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace cupola {

/// Lines: a head and a row for each process of each GPU, the busiest first. With `before`, an earlier answer, shares
/// and rates are those of the time between, else since each process joined. On a narrow terminal some columns are left
/// out and others are short, so that what matters fits into 80 `columns` (0 = any); lines may be longer.
std::vector<std::string> ArbiterTable(const nlohmann::json& answer, const nlohmann::json* before,
                                      size_t columns);

/// The same of one answer as text.
std::string ArbiterTableText(const nlohmann::json& answer);

}  // namespace cupola
