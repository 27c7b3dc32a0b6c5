// The daemon's answer to "show" as a table for people, which `cupola ctl show` and `cupola top` print. Pure functions;
// any thread.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace cupola {

/// The lines of the table: a head and a row for each process of each GPU, the busiest first. With `before`, an earlier
/// answer, shares and rates are those of the time between the two answers; without it, since each process joined. For
/// few `columns` (0: any number) the table leaves out some columns and shortens others, so that what matters fits into
/// 80; lines may be longer than `columns`.
std::vector<std::string> ArbiterTable(const nlohmann::json& answer, const nlohmann::json* before,
                                      size_t columns);

/// The table of one answer as text, for any number of columns.
std::string ArbiterTableText(const nlohmann::json& answer);

}  // namespace cupola
