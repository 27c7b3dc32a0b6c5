// A PTX module decoded for execution: compact instructions with resolved operands, laid out once at
// load time. Decode() builds it. It is immutable afterwards, so any number of threads may run it.
//
// A register is a row of 32 cells, one per lane, of 4, 8 or 16 bytes; a predicate is one word with
// a bit per lane. A Ref is a row's byte offset in the frame of its function or, with kConstBit, in
// the module's pool of constants. The pool repeats every literal in 32 cells, so that a handler need
// not distinguish registers from literals.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/compiler/ptx/ir.h"
#include "device/compiler/ptx/variable_layout.h"
#include "device/sim/exec/device.h"
#include "device/sim/exec/memory.h"
#include "device/sim/exec/observer.h"
#include "device/sim/exec/types.h"

namespace cupola::sim {

struct Warp;
struct Insn;

using Ref = uint32_t;
constexpr Ref kConstBit = 1u << 31;
constexpr Ref kNoRef = 0xFFFFFFFFu;
constexpr uint32_t kLanes = 32;
constexpr uint32_t kFullMask = 0xFFFFFFFFu;

/// Executes one instruction for the lanes of `active` (never 0) of the warp's current group.
using Handler = void (*)(Warp& warp, const Insn& in, uint32_t active);

/// What other threads can see of an instruction. Stepped mode stops before instructions that others
/// can see.
enum class Effect : uint8_t {
  kNone,        ///< it touches only registers and memory of the thread
  kVisible,     ///< it touches shared or global memory, synchronises, or writes output
  kCollective,  ///< as kVisible, and all lanes of the warp must execute it together
};

struct Insn {
  Handler run = nullptr;
  Ref d = kNoRef;      ///< destination
  Ref a = kNoRef;      ///< first source
  Ref b = kNoRef;      ///< second source
  Ref c = kNoRef;      ///< third source
  Ref e = kNoRef;      ///< second destination, or fourth source
  Ref guard = kNoRef;  ///< predicate row; kNoRef: not predicated
  bool guard_negated = false;
  uint8_t flags = 0;    ///< the handler defines the meaning
  uint16_t small = 0;   ///< the handler defines the meaning
  uint32_t list = 0;    ///< index into Program::lists or Program::call_sites, unless the handler says
  int64_t imm = 0;      ///< address offset, branch target...
  uint32_t source = 0;  ///< index into Program::sources
  Effect effect = Effect::kNone;
  Order order = Order::kWeak;  ///< of an access or fence
  Scope scope = Scope::kGpu;   ///< of an access or fence
  bool aligned = false;        ///< a barrier at which all lanes of a warp arrive together
};

/// Where one argument is on one side of a call: in local memory (.param) or in a register row.
struct ArgSlot {
  bool in_memory = true;
  uint32_t at = 0;     ///< in memory: byte offset in the function's local frame; else a Ref
  uint32_t bytes = 0;  ///< in memory: size; else bytes of a cell, 0 for a predicate register
};

struct CallSite {
  int32_t function = -1;  ///< index into Program::functions; -1: an indirect call
  Ref target = kNoRef;    ///< of an indirect call: the row that holds the function's address
  std::vector<ArgSlot> args;
  std::vector<ArgSlot> returns;
};

/// Runs a function that the device provides (vprintf, __assertfail, malloc, free).
using Builtin = void (*)(Warp& warp, const CallSite& site, uint32_t active);

struct FunctionCode {
  std::string name;
  bool is_entry = false;
  bool has_body = false;
  Builtin builtin = nullptr;  ///< for a function that the device provides
  uint32_t entry_pc = 0;
  uint32_t end_pc = 0;
  uint32_t frame_bytes = 0;  ///< bytes of registers, a multiple of 64
  uint32_t local_bytes = 0;  ///< bytes of .local and .param variables per lane, a multiple of 16
  std::vector<ArgSlot> params;
  std::vector<ArgSlot> returns;
  bool calls = false;              ///< has a call to a function with a body, or an indirect one
  uint32_t shared_bytes = 0;       ///< of an entry: bytes of static shared memory
  uint32_t dynamic_shared_at = 0;  ///< of an entry: byte offset of dynamic shared memory
};

/// The PTX from which an instruction was decoded, for messages, and what that writes.
struct InsnSource {
  const ptx::Instruction* instruction = nullptr;
  uint32_t function = 0;  ///< index into Program::functions
  /// The part of Program::written with the rows that it may write in the frame of its function. What calls and returns
  /// write to registers is not among them.
  uint32_t written_begin = 0, written_end = 0;
};

/// A row of registers in the frame of a function.
struct WrittenRow {
  Ref at = 0;
  uint32_t bytes = 0;
};

/// The address of a function, which kernels may store, pass and call, is kCodeBase + 16 * (index + 1).
constexpr uint64_t kCodeBase = 0x0F00'0000'0000ull;
/// Shared addresses begin here, as on sm_80 and later, which reserve the first KiB.
constexpr uint32_t kSharedBase = 1024;
/// The part of the reserved KiB that %reserved_smem_offset_1 names. Cooperative groups keep the barriers
/// of tiles of several warps in it. It is zero when a block starts.
constexpr uint32_t kReservedAt = 512;

/// A kernel's parameters begin here in the space .param, as they do in the constant bank of sm_90. The
/// compiler aligns each parameter by its absolute address there.
inline constexpr uint32_t kParameterBase = ptx::ParameterBase(90);

class Program final : public LoadedModule {
 public:
  explicit Program(std::shared_ptr<AddressSpace> memory) : memory_(std::move(memory)) {}
  ~Program() override;

  const std::vector<KernelInfo>& kernels() const override { return kernel_infos; }
  const std::vector<GlobalInfo>& globals() const override { return global_infos; }
  std::vector<LackedForm> Lacks() const override;

  /// "ld.global.u32 at line 12", from the text of the module.
  std::string Describe(uint32_t pc) const;

  ptx::Module module;
  std::vector<Insn> code;
  std::vector<uint32_t> lists;
  std::vector<InsnSource> sources;
  std::vector<WrittenRow> written;
  std::vector<CallSite> call_sites;
  std::vector<FunctionCode> functions;
  std::vector<std::string> messages;  ///< of instructions that fault as unsupported
  std::vector<std::byte> constants;   ///< memory of the pool of constants
  uint8_t* constants_base = nullptr;  ///< start of the pool in `constants`, 64-byte aligned
  std::vector<KernelInfo> kernel_infos;
  std::vector<uint32_t> kernel_functions;  ///< kernel index -> function index
  std::vector<GlobalInfo> global_infos;

 private:
  std::shared_ptr<AddressSpace> memory_;
};

/// Decodes a module and places its variables in device memory. Errors: kDamaged (undeclared names),
/// kExhausted (no device memory).
Result<std::shared_ptr<Program>> Decode(ptx::Module module, std::shared_ptr<AddressSpace> memory);

}  // namespace cupola::sim
