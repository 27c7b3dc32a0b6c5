// Instructions written as PTX text: passes write in it the code that they add. Internal to the
// folder; pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// Values for the words in angle brackets of a snippet: {"slot", 0} stands for "<slot>".
using Words = std::map<std::string, std::string, std::less<>>;

/// Parses `text` after replacing its words. `text` comes from this folder and is correct: text with
/// a mistake gives no statements, which the validity check of the side module then finds.
std::vector<ptx::Statement> Snippet(std::string_view text, const Words& words = {});

/// Appends the statements of a snippet.
void Append(std::vector<ptx::Statement>& out, std::string_view text, const Words& words = {});

/// A register declaration, ".reg .b32 %name;".
ptx::Statement Register(std::string_view type, std::string_view name);

}  // namespace cupola::passes
