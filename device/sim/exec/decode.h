// What an instruction family needs to turn a ptx::Instruction into an Insn. A family registers a
// DecodeFn per opcode (families.h); the function reads the modifiers, asks the Decoder for operand
// Refs and fills `out`. One thread, while a module is loaded.
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

/// Fills decoder.out. False: not a form that this family knows; the instruction then faults as
/// unsupported when, and only when, it is executed.
using DecodeFn = bool (*)(Decoder& decoder);
using OpTable = std::unordered_map<std::string_view, DecodeFn>;

/// Every opcode of every family; built once.
const OpTable& Opcodes();

/// A name in scope.
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
  uint64_t at = 0;  ///< Ref, frame offset, shared address, global address
  uint32_t bytes = 0;
};

/// An address operand, resolved as far as it can be before execution.
struct Address {
  Ref base = kNoRef;  ///< 64-bit row, or 32-bit with kAddress32
  int64_t offset = 0;
  uint8_t flags = 0;                             ///< AddressFlags
  Symbol::Kind names = Symbol::Kind::kRegister;  ///< what the base names
};

enum AddressFlags : uint8_t {
  kAddress32 = 1,      ///< the base row has 4-byte cells
  kAddLocalFrame = 2,  ///< add the local frame of the running function
  kAddDynamicShared = 4,
};

/// Decodes one function at a time into a Program.
class Decoder {
 public:
  struct Scope {
    int parent = -1;
    std::unordered_map<std::string, Symbol> symbols;
    std::unordered_map<std::string, uint32_t> labels;  ///< pc
    std::unordered_map<std::string, const ptx::TargetList*> targets;
  };
  struct Modules;  ///< what is known of the whole module (module_loader.cpp)

  Decoder(Program* program, std::unordered_map<std::string, Symbol>* module_symbols,
          const std::unordered_map<std::string, int32_t>* function_indices)
      : program_(program), module_symbols_(module_symbols), function_indices_(function_indices) {}

  /// Decodes a body into program->code; fills program->functions[index]. Errors: kDamaged.
  Status DecodeFunction(const ptx::Function& function, uint32_t index,
                        std::function<uint64_t(const ptx::Variable&)> place_shared,
                        std::function<const Symbol*(const std::string&)> find_shared);

  // ---- the current instruction ----
  const ptx::Instruction& in() const { return *in_; }
  Insn out;
  /// Whether the instruction has the modifier. Asking for one, here or as a type, is how a family
  /// says that it knows it: a modifier that nobody asked for makes the form unknown.
  bool Has(std::string_view modifier) const;
  /// The nth modifier that is a type ("u32", "f16x2"...), kNone if there are fewer.
  Type TypeAt(size_t n) const;
  size_t OperandCount() const { return in_->operands.size(); }
  const ptx::Operand& Operand(size_t n) const { return in_->operands[n]; }

  // ---- operands ----
  /// A row with the operand's value as `type`: a register, a literal, a special register or the
  /// address of a variable or function.
  Ref Source(const ptx::Operand& operand, Type type);
  Ref Source(size_t n, Type type) { return Source(Operand(n), type); }
  /// A row to write; "_" gets one that nobody reads.
  Ref Destination(const ptx::Operand& operand, Type type);
  Ref Destination(size_t n, Type type) { return Destination(Operand(n), type); }
  /// Declared type of a register operand; `otherwise` for anything else.
  Type RegisterType(const ptx::Operand& operand, Type otherwise) const;
  Address AddressOf(const ptx::Operand& operand);
  /// Stores base, offset and flags of an address in out.a, out.imm, out.flags.
  Address UseAddress(const ptx::Operand& operand);

  Ref Constant(uint64_t low, Type type, uint64_t high = 0);
  Ref Temporary(Type type);
  /// Puts an instruction before the current one (same guard not applied).
  void EmitBefore(const Insn& insn) { Append(insn); }
  /// Puts one behind it; it gets the guard of the current one.
  void EmitAfter(const Insn& insn) { after_.push_back(insn); }
  uint32_t AddList(const std::vector<uint32_t>& values);
  uint32_t AddCallSite(CallSite site);
  /// out.imm becomes the pc of the label.
  bool UseLabel(const std::string& label);
  /// Appends the pcs of a .branchtargets list to Program::lists once labels are known.
  bool UseTargets(const std::string& label, uint32_t* list, uint32_t* count);
  /// -1 when there is no such function.
  int32_t FindFunction(const std::string& name) const;
  const Symbol* Find(const std::string& name);
  Program& program() { return *program_; }
  FunctionCode& function() { return program_->functions[function_index_]; }
  /// Reports a name that is declared nowhere; decoding of the module fails.
  void Undeclared(const std::string& name);

 private:
  struct Fixup {
    uint32_t pc;
    int scope;
    const std::string* label;
    int64_t list_at = -1;  ///< write to Program::lists instead of code[pc].imm
    uint32_t line = 0;
  };

  void Append(Insn insn);
  /// Whether every modifier was asked for, or says nothing that matters here.
  bool KnowsModifiers() const;
  void DecodeBlock(const ptx::Block& block);
  void DecodeVariable(const ptx::Variable& variable);
  void DecodeInstruction(const ptx::Instruction& instruction);
  bool SetGuard();
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
  mutable uint64_t asked_ = 0;  ///< modifiers of *in_ that the family asked for, a bit each
  uint32_t source_ = 0;
  std::map<std::tuple<uint64_t, uint64_t, uint32_t>, Ref> constants_;
  std::optional<Error> error_;
};

/// Bytes of a variable; an open dimension counts as 0 unless the initializer tells.
uint64_t BytesInMemory(const ptx::Variable& variable);

}  // namespace cupola::sim
