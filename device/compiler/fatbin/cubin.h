// Reads from a cubin what it says about its kernels: registers, memory, parameters, launch bounds.
// It knows cubins of the CUDA 12 and of the CUDA 13 style (docs/formats.md). `cupola inspect`
// prints the result; `cupola build` compares the program's kernels with their variants by it. The
// result owns its texts, so the cubin's bytes may go. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/compiler/fatbin/bytes.h"

namespace cupola::fatbin {

/// One parameter of a kernel, as it lies among the argument bytes of a launch.
struct CubinParam {
  uint32_t ordinal = 0;  ///< position in the parameter list, from 0
  uint32_t offset = 0;   ///< bytes from the first parameter (not from the constant bank's start)
  uint32_t size = 0;     ///< bytes
};

/// Three extents x, y, z.
using Extents = std::array<uint32_t, 3>;

struct CubinKernel {
  std::string name;                ///< mangled
  uint32_t registers = 0;          ///< per thread; 0: the cubin does not say
  uint64_t shared_bytes = 0;       ///< static, per block, without what the system reserves
  uint32_t frame_bytes = 0;        ///< local memory of the kernel itself, per thread
  uint32_t stack_bytes = 0;        ///< local memory of the kernel and of all that it calls, per
                                   ///< thread; 0: the cubin does not say
  uint32_t param_bytes = 0;        ///< of all parameters together
  std::vector<CubinParam> params;  ///< sorted by ordinal
  std::optional<Extents> max_threads;       ///< .maxntid: at most x * y * z threads
  std::optional<Extents> required_threads;  ///< .reqntid: exactly x, y and z threads
  std::optional<Extents> cluster;           ///< blocks per cluster
  bool explicit_cluster = false;            ///< .explicitcluster: only launched in clusters
  uint32_t barriers = 0;                    ///< named barriers that it uses, 0 to 16
  uint32_t mbarriers = 0;                   ///< static mbarrier objects
  uint64_t code_bytes = 0;                  ///< size of its machine code
};

struct Cubin {
  uint32_t arch = 0;                 ///< 90 for sm_90
  uint32_t style = 0;                ///< 12 or 13: the CUDA release whose cubins look so
  bool relocatable = false;          ///< compiled with -rdc=true and not linked yet
  std::vector<CubinKernel> kernels;  ///< in the order of the symbol table
  std::vector<Error> damages;        ///< what could not be read; offsets are in the cubin
};

/// Reads a cubin. A damaged kernel keeps what could be read of it and leaves a note in
/// Cubin::damages. Errors: kDamaged where the ELF does not hold together, kUnsupported where it is
/// not a CUDA ELF.
Result<Cubin> ReadCubin(Bytes bytes);

}  // namespace cupola::fatbin
