// The Decoder, with which an instruction family turns a ptx::Instruction into an Insn. A family
// registers a DecodeFn per opcode (families.h). The function reads the modifiers, asks the Decoder
// for operand Refs and fills `out`. The loader of a module (module_loader.cpp) creates one Decoder,
// and only the thread that loads the module uses it.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/sim/exec/program.h"

namespace cupola::sim {

class Decoder;

/// Fills decoder.out. False for a form that the family does not know; the instruction then faults
/// as unsupported when, and only when, it is executed.
using DecodeFn = bool (*)(Decoder& decoder);
using OpTable = std::unordered_map<std::string_view, DecodeFn>;

/// The opcodes of all families; built at the first call. Any thread.
const OpTable& Opcodes();

/// What a name in scope means.
struct Symbol {
  enum class Kind : uint8_t {
    kRegister,
    kLocal,
    kKernelParam,
    kFunctionParam,
    kShared,
    kDynamicShared,
    kGlobal,
    kUnresolved,
  };
  Kind kind = Kind::kRegister;
  Type type = Type::kNone;
  /// By kind: a Ref, an offset in the frame, a shared address or a global address.
  uint64_t at = 0;
  uint32_t bytes = 0;  ///< size in memory
};

/// An address operand, resolved as far as it can be before execution.
struct Address {
  Ref base = kNoRef;   ///< a row of 64-bit cells; of 32-bit cells with kAddress32
  int64_t offset = 0;  ///< bytes to add to the base
  uint8_t flags = 0;   ///< AddressFlags
  Symbol::Kind names = Symbol::Kind::kRegister;  ///< the kind of what the base names
};

enum AddressFlags : uint8_t {
  kAddress32 = 1,         ///< the base row has 4-byte cells
  kAddLocalFrame = 2,     ///< add the start of the running function's local frame
  kAddDynamicShared = 4,  ///< add the start of the block's dynamic shared memory
};

/// Decodes one function at a time into a Program.
class Decoder {
 public:
  struct Scope {
    int parent = -1;  ///< index of the enclosing scope; -1: none
    std::unordered_map<std::string, Symbol> symbols;
    std::unordered_map<std::string, uint32_t> labels;  ///< name -> pc
    std::unordered_map<std::string, const ptx::TargetList*> targets;  ///< .branchtargets lists
  };
  struct Modules;

  Decoder(Program* program, std::unordered_map<std::string, Symbol>* module_symbols,
          const std::unordered_map<std::string, int32_t>* function_indices)
      : program_(program), module_symbols_(module_symbols), function_indices_(function_indices) {}

  /// Decodes a body into program->code and fills program->functions[index]. `place_shared` gives a
  /// shared variable of the body its address; `find_shared` finds one of module scope by its name,
  /// null if there is none. Errors: kDamaged.
  Status DecodeFunction(const ptx::Function& function, uint32_t index,
                        std::function<uint64_t(const ptx::Variable&)> place_shared,
                        std::function<const Symbol*(const std::string&)> find_shared);

  // ---- the current instruction ----
  const ptx::Instruction& in() const { return *in_; }
  Insn out;
  /// Whether the instruction has the modifier. By asking for a modifier, here or in TypeAt, a
  /// family says that it knows it. An instruction with a modifier that nobody asked for is an
  /// unknown form, unless the modifier changes nothing here.
  bool Has(std::string_view modifier) const;
  /// The nth modifier, from 0, that is a type ("u32", "f16x2"...); kNone if there are fewer.
  Type TypeAt(size_t n) const;
  size_t OperandCount() const { return in_->operands.size(); }
  const ptx::Operand& Operand(size_t n) const { return in_->operands[n]; }

  // ---- operands ----
  /// A row that holds the operand's value as `type`. The operand is a register, a literal, a
  /// special register, or the address of a variable or function.
  Ref Source(const ptx::Operand& operand, Type type);
  Ref Source(size_t n, Type type) { return Source(Operand(n), type); }
  /// The row to which the instruction writes the operand. "_" gets a row that nobody reads.
  Ref Destination(const ptx::Operand& operand, Type type);
  Ref Destination(size_t n, Type type) { return Destination(Operand(n), type); }
  /// The declared type of a register operand; `otherwise` for any other operand.
  Type RegisterType(const ptx::Operand& operand, Type otherwise) const;
  Address AddressOf(const ptx::Operand& operand);
  /// Stores base, offset and flags of an address operand in out.a, out.imm and out.flags.
  Address UseAddress(const ptx::Operand& operand);

  /// A row in the pool of constants with this value in every lane. `high` is the upper half of a
  /// 128-bit value.
  Ref Constant(uint64_t low, Type type, uint64_t high = 0);
  /// A row for use within the current instruction only.
  Ref Temporary(Type type);
  /// Puts an instruction before the current one, without its guard.
  void EmitBefore(const Insn& insn) { Append(insn); }
  /// Puts an instruction behind the current one, with its guard.
  void EmitAfter(const Insn& insn) { after_.push_back(insn); }
  /// Index of its first value in Program::lists.
  uint32_t AddList(const std::vector<uint32_t>& values);
  uint32_t AddCallSite(CallSite site);                    ///< index in Program::call_sites
  /// Makes out.imm the pc of the label, once all labels are known.
  bool UseLabel(const std::string& label);
  /// Reserves a part of Program::lists for the pcs of a .branchtargets list: `count` values from
  /// index `list`. They are filled in once all labels are known.
  bool UseTargets(const std::string& label, uint32_t* list, uint32_t* count);
  /// The function's index; -1 when there is no such function.
  int32_t FindFunction(const std::string& name) const;
  const Symbol* Find(const std::string& name);
  Program& program() { return *program_; }
  FunctionCode& function() { return program_->functions[function_index_]; }
  /// Reports a name that is declared nowhere; the decoding of the module then fails.
  void Undeclared(const std::string& name);

 private:
  /// A place that gets the pc of a label once all labels are known.
  struct Fixup {
    uint32_t pc;               ///< of the instruction whose imm gets it
    int scope;                 ///< from which the label is looked up
    const std::string* label;
    int64_t list_at = -1;      ///< if not -1: the index in Program::lists that gets it instead
    uint32_t line = 0;         ///< of the PTX, for the error message
  };

  void Append(Insn insn);
  /// Whether the family asked for every modifier of the instruction, or the modifier changes
  /// nothing.
  bool KnowsModifiers() const;
  void DecodeBlock(const ptx::Block& block);
  void DecodeVariable(const ptx::Variable& variable);
  void DecodeInstruction(const ptx::Instruction& instruction);
  bool SetGuard();
  /// Notes that the current instruction may write the row, and returns it.
  Ref Written(Ref row, Type type);
  void DeclareRegisters(const ptx::Variable& variable);
  uint32_t AddRow(Type type);
  uint32_t AddLocal(uint32_t bytes, uint32_t align);
  void DeclareFormals(const ptx::Function& function);
  Status ResolveLabels();
  Ref SpecialOrAddress(const ptx::Operand& operand, Type type);

  Program* program_;
  std::unordered_map<std::string, Symbol>* module_symbols_;
  const std::unordered_map<std::string, int32_t>* function_indices_;
  std::function<uint64_t(const ptx::Variable&)> place_shared_;
  std::function<const Symbol*(const std::string&)> find_shared_;
  uint32_t function_index_ = 0;
  std::vector<Scope> scopes_;
  int scope_ = -1;
  uint32_t frame_bytes_ = 0;
  uint32_t local_bytes_ = 0;
  std::vector<std::pair<Type, Ref>> temporaries_;
  size_t temporaries_used_ = 0;
  std::vector<Fixup> fixups_;
  std::vector<Insn> after_;
  const ptx::Instruction* in_ = nullptr;
  mutable uint64_t asked_ = 0;  ///< a bit for each modifier of *in_ that the family asked for
  uint32_t source_ = 0;         ///< index of *in_ in Program::sources
  std::map<std::tuple<uint64_t, uint64_t, uint32_t>, Ref> constants_;
  std::optional<Error> error_;
};

/// Size of a variable in bytes. An open dimension counts as 0 unless the initializer gives its
/// extent.
uint64_t BytesInMemory(const ptx::Variable& variable);

}  // namespace cupola::sim
