// The IR of a PTX module: the parser builds it, passes change it, the writer prints it and the
// interpreter decodes it. Plain values without pointers between nodes: copy, move and edit them
// freely; there is no thread rule beyond that. Names follow the PTX ISA (9.0); square brackets hold
// its section numbers.
//
// Nothing is dropped: an opcode, modifier, directive or operand that Cupola does not understand is
// kept as text and written back as it was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <variant>
#include <vector>

namespace cupola::ptx {

/// Where a node began in the text it was parsed from, 1-based; 0 for nodes made by a pass.
struct SourcePos {
  uint32_t line = 0;
  uint32_t column = 0;

  /// Equality compares what nodes say, not where they stood.
  bool operator==(const SourcePos&) const { return true; }
};

/// State spaces [5.1]. kNone where the text names none.
enum class StateSpace : uint8_t {
  kNone, kReg, kSreg, kConst, kGlobal, kLocal, kParam, kShared, kTex,
};

/// One operand [6.3]. The kind decides what `text` and the children mean:
struct Operand {
  enum class Kind : uint8_t {
    kName,     ///< a register, special register ("%tid.x"), label, variable or function: `text`
    kInteger,  ///< an integer literal or constant expression: value in `integer`, its spelling
                 ///< in `text`. The spelling is written where it is not empty, so change both
    kFloat,      ///< a floating literal: bits in `integer`; spelling ("0f3F800000") in `text`;
                 ///< `width` is 32 for 0f, 64 for 0d and decimal
    kVector,   ///< {a, b, ...}: children. Also the lists in braces of tensor operands
    kAddress,  ///< [base + offset, ...]: children[0] is the base (kName, kInteger or kIndexed);
                 ///< constant byte offset in `integer`; its spelling ("+0", "+(1<<3)") in `text`,
                 ///< where that is not "+" and the number, so change both;
                 ///< further children: tensor coordinates, sampler
    kPair,     ///< a|b, the two destinations of setp, shfl and match: two children
    kList,     ///< (a, b): the parenthesised lists of call: children
    kIndexed,  ///< name[3], an element of a register array: `text`, index in `integer`
    kOffset,   ///< name+4 outside brackets: `text`, byte offset in `integer`; children[0], where
                 ///< there is one, is the spelling of the offset as for kAddress, kVerbatim
    kVerbatim,   ///< anything else, kept as it was: `text`
  };
  Kind kind = Kind::kName;
  bool negated = false;  ///< "!" before a name
  uint8_t width = 0;     ///< kFloat: 32 or 64
  std::string text;
  int64_t integer = 0;
  std::vector<Operand> children;

  bool operator==(const Operand&) const = default;
  static Operand Name(std::string text) { return {.kind = Kind::kName, .text = std::move(text)}; }
  static Operand Integer(int64_t value) {
    return {.kind = Kind::kInteger, .text = std::to_string(value), .integer = value};
  }
};

/// The guard of a predicated instruction [9.3]: @p or @!p. Lanes for which it is false skip the
/// instruction.
struct Guard {
  std::string predicate;  ///< name of the register
  bool negated = false;
  bool operator==(const Guard&) const = default;
};

/// One instruction: [@guard] opcode.modifier.modifier operands; [4.3.2]
struct Instruction {
  std::optional<Guard> guard;
  std::string opcode;                  ///< "ld": the text before the first dot
  std::vector<std::string> modifiers;  ///< {"global", "v4", "f32"}: without their dots; a modifier
                                       ///< with "::" is one ("shared::cta")
  std::vector<Operand> operands;       ///< in the order of the text, destinations first
  SourcePos pos;

  bool operator==(const Instruction&) const = default;
  bool HasModifier(std::string_view modifier) const {
    for (const std::string& own : modifiers) {
      if (own == modifier) return true;
    }
    return false;
  }
};

/// An initializer of a module variable [5.4.4]: a tree of literals, names and generic(name).
struct Initializer {
  enum class Kind : uint8_t {
    kInteger, kFloat, kAddress, kMaskedAddress, kAggregate,
    kVerbatim,  ///< anything else, kept as it was: `text` ("addr_mode_0 = wrap" of a .samplerref)
  };
  Kind kind = Kind::kInteger;
  int64_t integer = 0;   ///< kInteger: value; kFloat: bits; of an address: byte offset added to it
  uint8_t width = 0;     ///< kFloat: 32 or 64
  uint64_t mask = 0;     ///< kMaskedAddress: the 0xFF00 of 0xFF00(name) [5.4.4]
  bool generic = false;  ///< an address written generic(name)
  std::string text;      ///< spelling of a literal, or the name whose address is taken
  std::vector<Initializer> elements;  ///< elements of an aggregate. For an address, elements[0],
                                      ///< where there is one, is the offset's spelling, kVerbatim

  bool operator==(const Initializer&) const = default;};

/// A variable: of a module, of a function body, or a parameter [5.4, 11.1].
struct Variable {
  std::string linking;                ///< "", "visible", "extern", "weak", "common"
  StateSpace space = StateSpace::kNone;
  std::vector<std::string> qualifiers;  ///< verbatim, in order: "attribute(.managed)", and any
                                        ///< dotted word that Cupola does not know
  uint32_t align = 0;       ///< bytes; 0 = natural
  bool is_pointer = false;  ///< .ptr on a kernel parameter [10.1.2]
  StateSpace pointee_space = StateSpace::kNone;
  uint32_t pointee_align = 0;  ///< bytes: of the memory it points to, not of the parameter
  uint8_t vector = 1;          ///< 2, 4 or 8 for .v2, .v4 and .v8
  std::string type;            ///< "u32", "b8", "pred", "texref", "f64" ...
  std::string name;
  bool has_name = true;        ///< false for the "_" of a .callprototype
  bool has_range = false;      ///< there is a range, .reg %r<N>; tells N = 0 from no range
  bool joined = false;         ///< named behind a comma in the declaration before this one
  uint32_t range = 0;          ///< .reg %r<17>: 17; else 0 [5.4.6]
  std::vector<uint64_t> dims;  ///< array dimensions; 0 for an open one ("d[]")
  std::optional<Initializer> init;
  SourcePos pos;

  bool operator==(const Variable&) const = default;};

struct Statement;

/// { ... } with its own scope [4.3 and inline asm]. nvcc marks the block of a call by the comments
/// "// callseq 0, 0" behind '{' and "// callseq 0" behind '}'; ptxas copies them into debug
/// sections.
struct Block {
  std::vector<Statement> statements;
  std::string open_mark;   ///< "callseq 0, 0", or empty
  std::string close_mark;  ///< "callseq 0", or empty

  bool operator==(const Block&) const = default;};

/// "name:", to which branches of its scope and of scopes inside it may go.
struct Label {
  std::string name;
  SourcePos pos;

  bool operator==(const Label&) const = default;};

/// A directive kept as text: ".loc 1 20 3", ".pragma \"nounroll\";", ".section ...", ".file ...",
/// a whole debug section. `text` includes its terminator if it had one.
struct Directive {
  std::string name;  ///< "loc", "pragma", "section", "file"...
  std::string text;  ///< verbatim
  SourcePos pos;

  bool operator==(const Directive&) const = default;};

/// "name: .branchtargets a, b, c;" | ".calltargets f, g;" [11.2]
struct TargetList {
  std::string label;
  bool is_call = false;
  std::vector<std::string> targets;
  SourcePos pos;

  bool operator==(const TargetList&) const = default;};

/// "name: .callprototype (ret) _ (params) .noreturn ...;" [11.2]
struct CallPrototype {
  std::string label;
  bool has_returns_list = false;  ///< if `returns` is empty: whether "()" was written
  bool has_params_list = true;    ///< if `params` is empty: whether "()" was written
  std::vector<Variable> returns;
  std::vector<Variable> params;
  std::vector<std::string> attributes;  ///< verbatim: "noreturn", "abi_preserve 4"...
  SourcePos pos;

  bool operator==(const CallPrototype&) const = default;};

/// One element of a function body, in the order of the text.
struct Statement {
  std::variant<Instruction, Label, Variable, Block, Directive, TargetList, CallPrototype> node;

  bool operator==(const Statement&) const = default;};

/// A kernel (.entry) or device function (.func) [10].
struct Function {
  bool is_entry = false;
  std::string linking;  ///< "", "visible", "extern", "weak"
  std::vector<std::string> qualifiers;  ///< verbatim, between ".func" and the name:
                                        ///< "attribute(.unified(1, 2))", "noreturn"
  std::string name;
  bool has_returns_list = false;  ///< if `returns` is empty: whether "()" was written
  bool has_params_list = true;    ///< if `params` is empty: whether "()" was written
  std::vector<Variable> returns;  ///< .func only
  std::vector<Variable> params;
  std::vector<Directive> attributes;  ///< .maxntid, .reqntid, .minnctapersm, .maxnreg, .pragma,
                                      ///< .noreturn, .explicitcluster...: between ')' and '{'
  std::optional<Block> body;          ///< none for a declaration
  SourcePos pos;

  bool operator==(const Function&) const = default;};

/// A module: the directives of its head, and then its items in the order of the text [11]. Further
/// .version and .target directives behind the first ones are items.
struct Module {
  std::string name;                  ///< name of the file, for errors; may be empty
  uint32_t version_major = 0;
  uint32_t version_minor = 0;
  std::vector<std::string> targets;  ///< {"sm_90", "debug"}
  uint32_t address_size = 64;        ///< bits
  bool has_address_size = false;     ///< whether the text had .address_size
  std::vector<std::variant<Directive, Variable, Function>> items;

  bool operator==(const Module&) const = default;
  /// The definition with that name, else its first declaration, else null. Linear in items.
  const Function* FindFunction(std::string_view function_name) const;
  Function* FindFunction(std::string_view function_name);
};

/// Adds the names of all variables and functions whose addresses an initializer takes. The names
/// borrow from `init`.
void AddNames(const Initializer& init, std::unordered_set<std::string_view>& names);

}  // namespace cupola::ptx
