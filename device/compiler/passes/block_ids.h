// Pass: %ctaid and %nctaid become the indices and the grid of a logical block.
//
// Precondition: no instruction reads %ctaid or %nctaid as a vector or as 16 bits (HasOddBlockIds).
// Effect: reads of %ctaid.{x,y,z} read registers %cupola_{x,y,z}, and reads of %nctaid.{x,y,z} read
// registers %cupola_n{x,y,z}. In an entry, the code that makes the variant sets the former, and the
// latter are loaded from the first three words of `cupola_launch` at `grid_offset`. In a function,
// both are loaded at its head from the shared variable `cupola_block`, {x, y, z, -, nx, ny, nz, -}.
// Pure; any thread.
#pragma once

#include <cstdint>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// Size of `cupola_block` in bytes, and its declaration.
inline constexpr uint32_t kBlockSharedBytes = 32;
ptx::Variable BlockIdsVariable();

bool ReadsBlockIds(const ptx::Function& function);
bool HasOddBlockIds(const ptx::Function& function);

/// Rewrites a function or entry. Returns whether anything changed. `grid_offset` is used for
/// entries only.
bool MakeBlockIdsVirtual(ptx::Function& function, uint32_t grid_offset);

}  // namespace cupola::passes
