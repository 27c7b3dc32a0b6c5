// The loops of a directed graph. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace cupola::ptx {

/// The strongly connected components that have an edge inside, among the nodes of `among` (each
/// once) and the edges between these: loops that are not part of a larger one. Each ascending.
/// next[n] are the nodes behind node n.
std::vector<std::vector<uint32_t>> FindComponents(const std::vector<std::vector<uint32_t>>& next,
                                                  const std::vector<uint32_t>& among);

}  // namespace cupola::ptx
