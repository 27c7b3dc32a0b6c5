// Tells whether two PTX texts are the same to ptxas. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// The first place where two texts say different things.
struct TokenDifference {
  SourcePos first_pos;   ///< in the first text
  SourcePos second_pos;  ///< in the second text
  std::string first;     ///< the token there, or "the end of the text"
  std::string second;    ///< the token in the second text
};

/// Compares two texts token by token. White space, comments and line ends do not count, except for
/// nvcc's "// callseq" comments, which ptxas copies; integers count by value. Texts without a
/// difference give the same cubin, except for debug sections, which hold the lines of the text. A
/// text that cannot be read to its end differs where it breaks.
std::optional<TokenDifference> FirstTokenDifference(std::string_view first,
                                                    std::string_view second);

}  // namespace cupola::ptx
