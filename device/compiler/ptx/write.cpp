#include "device/compiler/ptx/write.h"

#include <charconv>

namespace cupola::ptx {
namespace {

std::string_view SpaceDirective(StateSpace space) {
  switch (space) {
    case StateSpace::kNone: return "";
    case StateSpace::kReg: return "reg";
    case StateSpace::kSreg: return "sreg";
    case StateSpace::kConst: return "const";
    case StateSpace::kGlobal: return "global";
    case StateSpace::kLocal: return "local";
    case StateSpace::kParam: return "param";
    case StateSpace::kShared: return "shared";
    case StateSpace::kTex: return "tex";
  }
  return "";
}

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void WriteModule(const Module& module);
  void WriteStatement(const Statement& statement) { WriteNode(statement, nullptr, 0); }
  void WriteInstruction(const Instruction& instruction);
  void WriteOperand(const Operand& operand);

 private:
  void Put(std::string_view text) { out_.append(text); }
  void Put(char c) { out_.push_back(c); }
  void PutNumber(int64_t value);
  void PutUnsigned(uint64_t value, int base = 10);
  void PutOffset(std::string_view spelling, int64_t value);
  void PutFloat(const std::string& text, int64_t bits, uint8_t width);
  void PutWord(std::string_view word) {
    if (word.empty()) return;
    Put('.');
    Put(word);
    Put(' ');
  }
  void PutOperands(const std::vector<Operand>& operands, size_t first);
  void PutMaskOpener(uint64_t mask);
  void PutMark(const std::string& mark);

  void WriteNode(const Statement& statement, const Variable* next, int depth);
  void WriteBlock(const Block& block, int depth);
  void WriteDirective(const Directive& directive, int depth);
  void WriteFunction(const Function& function);
  void WriteVariable(const Variable& variable);
  void WriteDeclarator(const Variable& variable);
  void WriteDeclaration(const Variable& variable, const Variable* next);
  void WriteParameters(const std::vector<Variable>& parameters, bool on_lines);
  void WriteInitializer(const Initializer& initializer);
  void WriteTargetList(const TargetList& list);
  void WriteCallPrototype(const CallPrototype& prototype);

  std::string& out_;
  bool joining_ = false;  ///< the declaration before waits for one more name
};

bool HaveSamePrefix(const Variable& a, const Variable& b) {
  return a.linking == b.linking && a.space == b.space && a.qualifiers == b.qualifiers &&
         a.align == b.align && a.is_pointer == b.is_pointer &&
         a.pointee_space == b.pointee_space && a.pointee_align == b.pointee_align &&
         a.vector == b.vector && a.type == b.type;
}

/// The variable that the statement or item at `index` is. Null: it is none, or the index is past
/// the end.
template <typename Nodes>
const Variable* VariableAt(const Nodes& nodes, size_t index) {
  if (index >= nodes.size()) return nullptr;
  if constexpr (requires { nodes[index].node; }) {
    return std::get_if<Variable>(&nodes[index].node);
  } else {
    return std::get_if<Variable>(&nodes[index]);
  }
}

void Writer::PutNumber(int64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out_.append(digits, end);
}

void Writer::PutUnsigned(uint64_t value, int base) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, base).ptr;
  out_.append(digits, end);
}

void Writer::PutOffset(std::string_view spelling, int64_t value) {
  if (!spelling.empty()) return Put(spelling);
  if (value == 0) return;
  Put('+');
  PutNumber(value);
}

void Writer::PutFloat(const std::string& text, int64_t bits, uint8_t width) {
  if (!text.empty()) return Put(text);
  Put(width == 32 ? "0f" : "0d");
  static constexpr char kDigits[] = "0123456789ABCDEF";
  for (int shift = (width == 32 ? 32 : 64) - 4; shift >= 0; shift -= 4) {
    Put(kDigits[(static_cast<uint64_t>(bits) >> shift) & 15]);
  }
}

void Writer::PutOperands(const std::vector<Operand>& operands, size_t first) {
  for (size_t i = first; i < operands.size(); ++i) {
    if (i != first) Put(", ");
    WriteOperand(operands[i]);
  }
}

void Writer::WriteOperand(const Operand& operand) {
  if (operand.negated) Put('!');
  switch (operand.kind) {
    case Operand::Kind::kName:
    case Operand::Kind::kVerbatim: return Put(operand.text);
    case Operand::Kind::kInteger:
      return operand.text.empty() ? PutNumber(operand.integer) : Put(operand.text);
    case Operand::Kind::kFloat: return PutFloat(operand.text, operand.integer, operand.width);
    case Operand::Kind::kVector:
      Put('{');
      PutOperands(operand.children, 0);
      return Put('}');
    case Operand::Kind::kList:
      Put('(');
      PutOperands(operand.children, 0);
      return Put(')');
    case Operand::Kind::kAddress:
      Put('[');
      if (!operand.children.empty()) WriteOperand(operand.children[0]);
      PutOffset(operand.text, operand.integer);
      if (operand.children.size() > 1) Put(", ");
      PutOperands(operand.children, 1);
      return Put(']');
    case Operand::Kind::kPair:
      for (size_t i = 0; i < operand.children.size(); ++i) {
        if (i != 0) Put('|');
        WriteOperand(operand.children[i]);
      }
      return;
    case Operand::Kind::kIndexed:
      Put(operand.text);
      Put('[');
      PutNumber(operand.integer);
      return Put(']');
    case Operand::Kind::kOffset:
      Put(operand.text);
      return PutOffset(operand.children.empty() ? "" : operand.children[0].text, operand.integer);
  }
}

void Writer::WriteInstruction(const Instruction& instruction) {
  if (instruction.guard) {
    Put(instruction.guard->negated ? "@!" : "@");
    Put(instruction.guard->predicate);
    Put(' ');
  }
  Put(instruction.opcode);
  for (const std::string& modifier : instruction.modifiers) {
    Put('.');
    Put(modifier);
  }
  if (!instruction.operands.empty()) Put(' ');
  PutOperands(instruction.operands, 0);
  Put(';');
}

void Writer::PutMaskOpener(uint64_t mask) {
  Put("0x");
  PutUnsigned(mask, 16);
  Put('(');
}

void Writer::WriteInitializer(const Initializer& initializer) {
  switch (initializer.kind) {
    case Initializer::Kind::kInteger:
      return initializer.text.empty() ? PutNumber(initializer.integer) : Put(initializer.text);
    case Initializer::Kind::kFloat:
      return PutFloat(initializer.text, initializer.integer, initializer.width);
    case Initializer::Kind::kVerbatim: return Put(initializer.text);
    case Initializer::Kind::kMaskedAddress:
    case Initializer::Kind::kAddress: {
      const bool masked = initializer.kind == Initializer::Kind::kMaskedAddress;
      if (masked) PutMaskOpener(initializer.mask);
      if (initializer.generic) Put("generic(");
      Put(initializer.text);
      if (initializer.generic) Put(')');
      PutOffset(initializer.elements.empty() ? "" : initializer.elements[0].text,
                initializer.integer);
      if (masked) Put(')');
      return;
    }
    case Initializer::Kind::kAggregate:
      Put('{');
      for (size_t i = 0; i < initializer.elements.size(); ++i) {
        if (i != 0) Put(", ");
        WriteInitializer(initializer.elements[i]);
      }
      return Put('}');
  }
}

void Writer::WriteVariable(const Variable& variable) {
  PutWord(variable.linking);
  PutWord(SpaceDirective(variable.space));
  for (const std::string& qualifier : variable.qualifiers) PutWord(qualifier);
  if (variable.align != 0) {
    Put(".align ");
    PutUnsigned(variable.align);
    Put(' ');
  }
  if (variable.vector > 1) {
    Put(".v");
    PutUnsigned(variable.vector);
    Put(' ');
  }
  PutWord(variable.type);
  if (variable.is_pointer) {
    Put(".ptr ");
    PutWord(SpaceDirective(variable.pointee_space));
    if (variable.pointee_align != 0) {
      Put(".align ");
      PutUnsigned(variable.pointee_align);
      Put(' ');
    }
  }
  WriteDeclarator(variable);
}

void Writer::WriteDeclarator(const Variable& variable) {
  Put(variable.has_name ? std::string_view(variable.name) : "_");
  if (variable.has_range || variable.range != 0) {
    Put('<');
    PutUnsigned(variable.range);
    Put('>');
  }
  for (uint64_t size : variable.dims) {
    Put('[');
    if (size != 0) PutUnsigned(size);
    Put(']');
  }
  if (variable.init) {
    Put(" = ");
    WriteInitializer(*variable.init);
  }
}

// The names of one declaration are written together: its ';' waits while the next variable joins
// it.
void Writer::WriteDeclaration(const Variable& variable, const Variable* next) {
  if (joining_) {
    WriteDeclarator(variable);
  } else {
    WriteVariable(variable);
  }
  joining_ = next != nullptr && next->joined && HaveSamePrefix(variable, *next);
  Put(joining_ ? ", " : ";\n");
}

void Writer::WriteParameters(const std::vector<Variable>& parameters, bool on_lines) {
  Put('(');
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (on_lines) Put(i == 0 ? "\n\t" : ",\n\t");
    if (!on_lines && i != 0) Put(", ");
    WriteVariable(parameters[i]);
  }
  Put(on_lines && !parameters.empty() ? "\n)" : ")");
}

void Writer::WriteTargetList(const TargetList& list) {
  Put(list.label);
  Put(list.is_call ? ": .calltargets " : ": .branchtargets ");
  for (size_t i = 0; i < list.targets.size(); ++i) {
    if (i != 0) Put(", ");
    Put(list.targets[i]);
  }
  Put(";\n");
}

void Writer::WriteCallPrototype(const CallPrototype& prototype) {
  Put(prototype.label);
  Put(": .callprototype ");
  if (!prototype.returns.empty() || prototype.has_returns_list) {
    WriteParameters(prototype.returns, false);
    Put(' ');
  }
  Put('_');
  if (!prototype.params.empty() || prototype.has_params_list) {
    Put(' ');
    WriteParameters(prototype.params, false);
  }
  for (const std::string& attribute : prototype.attributes) {
    Put(" .");
    Put(attribute);
  }
  Put(";\n");
}

void Writer::WriteDirective(const Directive& directive, int depth) {
  // Lines of the preprocessor and of @@DWARF count as such only at the start of a line.
  const bool is_line =
      !directive.text.empty() && (directive.text[0] == '#' || directive.text[0] == '@');
  if (!is_line) out_.append(static_cast<size_t>(depth), '\t');
  Put(directive.text);
  Put('\n');
}

void Writer::WriteNode(const Statement& statement, const Variable* next, int depth) {
  if (const auto* directive = std::get_if<Directive>(&statement.node)) {
    return WriteDirective(*directive, depth);
  }
  if (const auto* label = std::get_if<Label>(&statement.node)) {
    Put(label->name);
    return Put(":\n");
  }
  if (!joining_) out_.append(static_cast<size_t>(depth), '\t');
  if (const auto* instruction = std::get_if<Instruction>(&statement.node)) {
    WriteInstruction(*instruction);
    Put('\n');
  } else if (const auto* variable = std::get_if<Variable>(&statement.node)) {
    WriteDeclaration(*variable, next);
  } else if (const auto* block = std::get_if<Block>(&statement.node)) {
    WriteBlock(*block, depth);
  } else if (const auto* targets = std::get_if<TargetList>(&statement.node)) {
    WriteTargetList(*targets);
  } else if (const auto* prototype = std::get_if<CallPrototype>(&statement.node)) {
    WriteCallPrototype(*prototype);
  }
}

void Writer::PutMark(const std::string& mark) {
  if (!mark.empty()) Put(" // ");
  Put(mark);
  Put('\n');
}

void Writer::WriteBlock(const Block& block, int depth) {
  Put('{');
  PutMark(block.open_mark);
  for (size_t i = 0; i < block.statements.size(); ++i) {
    WriteNode(block.statements[i], VariableAt(block.statements, i + 1), depth + 1);
  }
  out_.append(static_cast<size_t>(depth), '\t');
  Put('}');
  PutMark(block.close_mark);
}

void Writer::WriteFunction(const Function& function) {
  PutWord(function.linking);
  PutWord(function.is_entry ? "entry" : "func");
  for (const std::string& qualifier : function.qualifiers) PutWord(qualifier);
  if (!function.returns.empty() || function.has_returns_list) {
    WriteParameters(function.returns, false);
    Put(' ');
  }
  Put(function.name);
  if (!function.params.empty() || function.has_params_list) WriteParameters(function.params, true);
  for (const Directive& attribute : function.attributes) {
    Put('\n');
    Put(attribute.text);
  }
  // The ';' of a declaration must not become part of a line of the preprocessor.
  const bool own_line = !function.attributes.empty() && function.attributes.back().name == "#";
  if (!function.body) return Put(own_line ? "\n;\n" : ";\n");
  Put('\n');
  WriteBlock(*function.body, 0);
}

void Writer::WriteModule(const Module& module) {
  if (module.version_major != 0) {
    Put(".version ");
    PutUnsigned(module.version_major);
    Put('.');
    PutUnsigned(module.version_minor);
    Put('\n');
  }
  for (size_t i = 0; i < module.targets.size(); ++i) {
    Put(i == 0 ? ".target " : ", ");
    Put(module.targets[i]);
  }
  if (!module.targets.empty()) Put('\n');
  if (module.has_address_size) {
    Put(".address_size ");
    PutUnsigned(module.address_size);
    Put('\n');
  }
  for (size_t i = 0; i < module.items.size(); ++i) {
    const auto& item = module.items[i];
    if (const auto* function = std::get_if<Function>(&item)) {
      Put('\n');
      WriteFunction(*function);
    } else if (const auto* variable = std::get_if<Variable>(&item)) {
      WriteDeclaration(*variable, VariableAt(module.items, i + 1));
    } else {
      WriteDirective(std::get<Directive>(item), 0);
    }
  }
}

}  // namespace

std::string Write(const Module& module) {
  std::string text;
  Writer(text).WriteModule(module);
  return text;
}

std::string Write(const Statement& statement) {
  std::string text;
  Writer(text).WriteStatement(statement);
  return text;
}

std::string Write(const Instruction& instruction) {
  std::string text;
  Writer(text).WriteInstruction(instruction);
  return text;
}

std::string Write(const Operand& operand) {
  std::string text;
  Writer(text).WriteOperand(operand);
  return text;
}

}  // namespace cupola::ptx
