// The loops of a directed graph. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace cupola::ptx {

/// The strongly connected components that have an edge inside: loops that are not part of a larger
/// one. Considers only the nodes in `among` (each once) and the edges between these. next[n] are
/// the nodes behind node n. The nodes of each component are in ascending order.
std::vector<std::vector<uint32_t>> FindComponents(const std::vector<std::vector<uint32_t>>& next,
                                                  const std::vector<uint32_t>& among);

}  // namespace cupola::ptx
