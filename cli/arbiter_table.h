// The daemon's answer to "show" as a table for people: of `cupola ctl show` and `cupola top`.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace cupola {

/// A head line and a row for each process of each GPU, the busiest first. With `before`, an earlier
/// answer, shares and rates are those of the time between, else since each process joined. Lines are
/// cut at `columns`; 0 = not.
std::string ArbiterTable(const nlohmann::json& answer, const nlohmann::json* before,
                         size_t columns);

}  // namespace cupola
