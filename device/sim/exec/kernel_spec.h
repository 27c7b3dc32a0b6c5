// One kernel launch described in words, as `cupola ptx run` and the golden kernels give it: scalars
// and buffers as arguments, buffers printed afterwards. Thread rule: one thread per Device call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/sim/exec/device.h"
#include "device/sim/exec/types.h"

namespace cupola::sim {

/// "u32:5" | "f32:1.5" | "u64:0x10" | "buf:u32:64" (zeros) | "buf:u32:64=7" (filled) |
/// "buf:u32:4=1;2;3;4" (the rest repeats from the start) | "buf:u32:64=iota" (0, 1, 2...).
struct ArgSpec {
  Type type = Type::kU32;
  bool is_buffer = false;
  std::vector<std::byte> bytes;  ///< the scalar, or the buffer's contents
};

struct DumpSpec {
  uint32_t arg = 0;  ///< index into KernelSpec::args, of a buffer
  Type type = Type::kU32;
  uint64_t count = 0;
};

struct KernelSpec {
  std::string kernel;  ///< empty: the only one of the module
  Dim3 grid, block;
  uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  std::vector<ArgSpec> args;
  std::optional<FaultKind> fault;  ///< set by RunKernel where the kernel ended in one
};

/// Errors: kInvalidArgument, saying what is wrong with the text.
Result<ArgSpec> ParseArg(std::string_view text);
/// "ARG:type:count". Errors: kInvalidArgument.
Result<DumpSpec> ParseDump(std::string_view text);
/// "X[,Y[,Z]]". Errors: kInvalidArgument.
Result<Dim3> ParseDim3(std::string_view text);

/// Values separated by blanks: integers in decimal, b types in hexadecimal, floats with as many
/// digits as tell them apart, f16 and bf16 as their bits.
std::string FormatValues(Type type, const std::byte* bytes, uint64_t count);

/// Loads, launches, waits; afterwards spec->args[i].bytes of buffers hold what the kernel left.
/// Errors: those of LoadPtx; kNotFound (no such kernel), kInvalidArgument (arguments do not fit),
/// kUnsupported or kInternal with the fault's message.
Status RunKernel(Device& device, std::string_view ptx, std::string_view name, KernelSpec* spec);

}  // namespace cupola::sim
