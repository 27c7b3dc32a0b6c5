// Pass: scopes in braces dissolve in the scope around them, so that code elsewhere can branch to labels that were
// in them: a label is known only in its own scope [PTX ISA 4.4]. Internal to the folder; pure; any thread.
#pragma once

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// Whether an instruction must stand in the outermost scope.
using IsWanted = bool (*)(const ptx::Instruction&);

/// Effect: the wanted instructions stand in the scope of `body` itself. The scopes in which they stood are gone.
/// What these scopes declared gets names that no program uses ("%cupola_s1_p").
void Dissolve(ptx::Block& body, IsWanted is_wanted);

}  // namespace cupola::passes
