// Directives of functions and their bodies, such as .maxntid and .loc, as the passes that make side modules and task
// modules read and drop them. Internal to the folder; pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// Whether the directive has the name `name`; directives are stored with their dot or without.
bool IsDirective(const ptx::Directive& directive, std::string_view name);

/// The most threads of a block, the product of .maxntid or .reqntid; 0 where the kernel has
/// neither.
uint32_t MaxThreads(const ptx::Function& kernel);

/// Effect: removes line numbers, which belong to another module's text. Debug sections, which need
/// them, are not in the new module either.
void DropLines(ptx::Block& block);

}  // namespace cupola::passes
