// Directives of functions and their bodies. Internal to the folder; pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// Whether it is the directive `name`, with its dot or without.
bool IsDirective(const ptx::Directive& directive, std::string_view name);

/// Of a block, as .maxntid or .reqntid say: their product; 0 where there is neither.
uint32_t MaxThreads(const ptx::Function& kernel);

/// Effect: line numbers are gone, which are of another module's text, and so debug sections.
void DropLines(ptx::Block& block);

}  // namespace cupola::passes
