// Handles loads that nothing orders behind the writes of earlier launches, in code that stays on
// the GPU from launch to launch. Internal to the folder; pure; any thread.
//
// The end of a kernel orders its writes before the next kernel of the stream, by whatever path that
// one reads. Between tasks of a resident kernel only the memory model orders [PTX ISA 8.8, 8.9.5],
// and it says nothing of reads through a cache that is not coherent: `ld.global.nc` and `ldu`
// [9.7.9.9, 9.7.9.11], textures and surfaces [9.7.10, 9.7.11]. The GPU empties these caches when a
// kernel starts, but a task is no kernel.
#pragma once

#include <string>

#include "device/compiler/ptx/ir.h"

namespace cupola::passes {

/// Makes `ld.nc` and `ldu` plain loads of the same space, which are ordered as all other loads are.
/// The values are the same wherever the program keeps its promise that nobody writes there
/// meanwhile.
void ReadCoherently(ptx::Function& function);

/// Whether an instruction reads or writes through a texture or a surface, or asks for its
/// properties: the descriptors themselves are read through such a cache.
bool UsesTexture(const ptx::Instruction& instruction);

}  // namespace cupola::passes
