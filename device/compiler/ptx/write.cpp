#include "device/compiler/ptx/write.h"

#include <charconv>

namespace cupola::ptx {
namespace {

std::string_view SpaceWord(StateSpace space) {
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
  void WriteStatement(const Statement& statement) { WriteNode(statement, 0); }
  void WriteInstruction(const Instruction& instruction);
  void WriteOperand(const Operand& operand);

 private:
  void Put(std::string_view text) { out_.append(text); }
  void Put(char c) { out_.push_back(c); }
  void PutNumber(int64_t value);
  void PutUnsigned(uint64_t value, int base = 10);
  void PutOffset(int64_t value);
  void PutFloat(const std::string& text, int64_t bits, uint8_t width);
  void PutWord(std::string_view word) {
    if (word.empty()) return;
    Put('.');
    Put(word);
    Put(' ');
  }
  void PutOperands(const std::vector<Operand>& operands, size_t first);
  void PutMaskOpener(uint64_t mask);

  void WriteNode(const Statement& statement, int depth);
  void WriteBlock(const Block& block, int depth);
  void WriteDirective(const Directive& directive, int depth);
  void WriteFunction(const Function& function);
  void WriteVariable(const Variable& variable);
  void WriteParameters(const std::vector<Variable>& parameters, bool on_lines);
  void WriteInitializer(const Initializer& initializer);
  void WriteTargetList(const TargetList& list);
  void WriteCallPrototype(const CallPrototype& prototype);

  std::string& out_;
};

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

void Writer::PutOffset(int64_t value) {
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
      if (operand.integer != 0) PutOffset(operand.integer);
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
      return PutOffset(operand.integer);
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
      if (initializer.integer != 0) PutOffset(initializer.integer);
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
  PutWord(SpaceWord(variable.space));
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
    PutWord(SpaceWord(variable.pointee_space));
    if (variable.pointee_align != 0) {
      Put(".align ");
      PutUnsigned(variable.pointee_align);
      Put(' ');
    }
  }
  Put(variable.has_name ? std::string_view(variable.name) : "_");
  if (variable.range != 0) {
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
  if (!prototype.returns.empty()) {
    WriteParameters(prototype.returns, false);
    Put(' ');
  }
  Put("_ ");
  WriteParameters(prototype.params, false);
  for (const std::string& attribute : prototype.attributes) {
    Put(" .");
    Put(attribute);
  }
  Put(";\n");
}

void Writer::WriteDirective(const Directive& directive, int depth) {
  // Lines of the preprocessor and of @@DWARF are only such at the start of a line.
  const bool is_line = !directive.text.empty() && (directive.text[0] == '#' || directive.text[0] == '@');
  if (!is_line) out_.append(static_cast<size_t>(depth), '\t');
  Put(directive.text);
  Put('\n');
}

void Writer::WriteNode(const Statement& statement, int depth) {
  if (const auto* directive = std::get_if<Directive>(&statement.node)) {
    return WriteDirective(*directive, depth);
  }
  if (const auto* label = std::get_if<Label>(&statement.node)) {
    Put(label->name);
    return Put(":\n");
  }
  out_.append(static_cast<size_t>(depth), '\t');
  if (const auto* instruction = std::get_if<Instruction>(&statement.node)) {
    WriteInstruction(*instruction);
    Put('\n');
  } else if (const auto* variable = std::get_if<Variable>(&statement.node)) {
    WriteVariable(*variable);
    Put(";\n");
  } else if (const auto* block = std::get_if<Block>(&statement.node)) {
    WriteBlock(*block, depth);
  } else if (const auto* targets = std::get_if<TargetList>(&statement.node)) {
    WriteTargetList(*targets);
  } else if (const auto* prototype = std::get_if<CallPrototype>(&statement.node)) {
    WriteCallPrototype(*prototype);
  }
}

void Writer::WriteBlock(const Block& block, int depth) {
  Put("{\n");
  for (const Statement& statement : block.statements) WriteNode(statement, depth + 1);
  out_.append(static_cast<size_t>(depth), '\t');
  Put("}\n");
}

void Writer::WriteFunction(const Function& function) {
  PutWord(function.linking);
  PutWord(function.is_entry ? "entry" : "func");
  for (const std::string& qualifier : function.qualifiers) PutWord(qualifier);
  if (!function.returns.empty()) {
    WriteParameters(function.returns, false);
    Put(' ');
  }
  Put(function.name);
  WriteParameters(function.params, true);
  for (const Directive& attribute : function.attributes) {
    Put('\n');
    Put(attribute.text);
  }
  if (!function.body) return Put(";\n");
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
  for (const auto& item : module.items) {
    if (const auto* function = std::get_if<Function>(&item)) {
      Put('\n');
      WriteFunction(*function);
    } else if (const auto* variable = std::get_if<Variable>(&item)) {
      WriteVariable(*variable);
      Put(";\n");
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
