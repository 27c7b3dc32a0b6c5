// One kernel launch described as text, as `cupola ptx run` and the golden kernels give it: scalars
// and buffers as arguments, and buffers that are printed afterwards. RunKernel has the thread rule
// of Device; the other functions are pure.
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

/// An argument: "u32:5" | "f32:1.5" | "u64:0x10" | "buf:u32:64" (64 zeros) | "buf:u32:64=7" (64
/// times 7) | "buf:u32:4=1;2;3;4" (fewer values repeat from the start) | "buf:u32:64=iota" (0, 1,
/// 2...).
struct ArgSpec {
  Type type = Type::kU32;
  bool is_buffer = false;
  std::vector<std::byte> bytes;  ///< the scalar, or the buffer's contents
};

/// A buffer to print.
struct DumpSpec {
  uint32_t arg = 0;  ///< index of the buffer in KernelSpec::args
  Type type = Type::kU32;
  uint64_t count = 0;
};

struct KernelSpec {
  std::string kernel;  ///< name; empty: the only kernel of the module
  Dim3 grid;           ///< blocks
  Dim3 block;          ///< threads
  uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  std::vector<ArgSpec> args;
  std::optional<FaultKind> fault;  ///< set by RunKernel where the kernel ended in a fault
};

/// Parses an argument. Errors: kInvalidArgument, which says what is wrong with the text.
Result<ArgSpec> ParseArg(std::string_view text);
/// Parses "ARG:type:count". Errors: kInvalidArgument.
Result<DumpSpec> ParseDump(std::string_view text);
/// Parses "X[,Y[,Z]]". Errors: kInvalidArgument.
Result<Dim3> ParseDim3(std::string_view text);

/// The values, separated by blanks: integers in decimal, b types in hexadecimal, floats with as
/// many digits as tell them apart, f16 and bf16 as their bits.
std::string FormatValues(Type type, const std::byte* bytes, uint64_t count);

/// Loads the PTX, launches the kernel and waits for its end. Afterwards spec->args[i].bytes of the
/// buffers hold what the kernel left there. Errors: those of LoadPtx; kNotFound for no such kernel;
/// kInvalidArgument for arguments that do not fit; kUnsupported or kInternal with a fault's
/// message.
Status RunKernel(Device& device, std::string_view ptx, std::string_view name, KernelSpec* spec);

}  // namespace cupola::sim
