// Makes what launches in pieces need of a context: the words of its PieceQueue, and the feed stream. For the builder
// (pieces.cpp), which has made the context current.
#pragma once

#include <cstdint>

namespace cupola::intercept {
struct LaunchContext;
}

namespace cupola::intercept::graphs {

/// How a step of the builder ended.
enum class Built : uint8_t {
  kAll,
  kRefused,
  kNotNow,  ///< calls of ours may not be made now, since work waits for the program
};

/// Does it once for each context. Waits until no launch of the context is guarded.
Built MakeQueue(LaunchContext* context) noexcept;

}  // namespace cupola::intercept::graphs
