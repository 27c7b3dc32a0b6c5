// Pass: scopes in braces dissolve in the one around them, so that code elsewhere can branch to what was in
// them: a label is known in its own scope only [PTX ISA 4.4]. Internal to the folder; pure; any thread.
#pragma once

#include "device/compiler/passes/walk.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

using IsWanted = bool (*)(const ptx::Instruction&);

/// Effect: the instructions that are wanted stand in the scope of `body` itself; the scopes that they stood
/// in are gone, and what these declared has names that no program uses ("%cupola_s1_p").
void Dissolve(ptx::Block& body, IsWanted is_wanted);

}  // namespace cupola::passes
