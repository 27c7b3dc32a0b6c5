#include "device/compiler/ptx/dump.h"

namespace cupola::ptx {
namespace {

const char* KindWord(Operand::Kind kind) {
  switch (kind) {
    case Operand::Kind::kName: return "name";
    case Operand::Kind::kInteger: return "integer";
    case Operand::Kind::kFloat: return "float";
    case Operand::Kind::kVector: return "vector";
    case Operand::Kind::kAddress: return "address";
    case Operand::Kind::kPair: return "pair";
    case Operand::Kind::kList: return "list";
    case Operand::Kind::kIndexed: return "indexed";
    case Operand::Kind::kOffset: return "offset";
    case Operand::Kind::kVerbatim: return "verbatim";
  }
  return "?";
}

const char* KindWord(Initializer::Kind kind) {
  switch (kind) {
    case Initializer::Kind::kInteger: return "integer";
    case Initializer::Kind::kFloat: return "float";
    case Initializer::Kind::kAddress: return "address";
    case Initializer::Kind::kMaskedAddress: return "masked-address";
    case Initializer::Kind::kAggregate: return "aggregate";
    case Initializer::Kind::kVerbatim: return "verbatim";
  }
  return "?";
}

const char* SpaceWord(StateSpace space) {
  static constexpr const char* kWords[] = {"none",  "reg",   "sreg",   "const", "global",
                                           "local", "param", "shared", "tex"};
  return kWords[static_cast<size_t>(space)];
}

class Dumper {
 public:
  explicit Dumper(std::string& out) : out_(out) {}
  void DumpModule(const Module& module);

 private:
  void Line(int depth, const std::string& text) {
    out_.append(static_cast<size_t>(depth) * 2, ' ');
    out_ += text;
    out_ += '\n';
  }
  static std::string Quoted(const std::string& text);

  void DumpNode(const Directive& directive, int depth);
  void DumpNode(const Variable& variable, int depth, const char* role = "variable");
  void DumpNode(const Function& function, int depth);
  void DumpNode(const Instruction& instruction, int depth);
  void DumpNode(const Label& label, int depth) { Line(depth, "label " + label.name); }
  void DumpNode(const Block& block, int depth);
  void DumpNode(const TargetList& list, int depth);
  void DumpNode(const CallPrototype& prototype, int depth);
  void DumpInitializer(const Initializer& initializer, int depth);
  void DumpOperand(const Operand& operand, int depth);

  std::string& out_;
};

std::string Dumper::Quoted(const std::string& text) {
  std::string quoted = "`";
  for (char c : text) {
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + "`";
}

void Dumper::DumpModule(const Module& module) {
  if (module.version_major != 0) {
    Line(0, "version " + std::to_string(module.version_major) + "." +
                std::to_string(module.version_minor));
  }
  for (const std::string& target : module.targets) Line(0, "target " + target);
  if (module.has_address_size) Line(0, "address_size " + std::to_string(module.address_size));
  for (const auto& item : module.items) {
    std::visit([this](const auto& node) { DumpNode(node, 0); }, item);
  }
}

void Dumper::DumpNode(const Directive& directive, int depth) {
  Line(depth, "directive " + directive.name + " " + Quoted(directive.text));
}

void Dumper::DumpNode(const Variable& variable, int depth, const char* role) {
  std::string line = role;
  if (!variable.linking.empty()) line += " linking=" + variable.linking;
  if (variable.space != StateSpace::kNone)
    line += std::string(" space=") + SpaceWord(variable.space);
  for (const std::string& qualifier : variable.qualifiers)
    line += " qualifier=" + Quoted(qualifier);
  if (variable.align != 0) line += " align=" + std::to_string(variable.align);
  if (variable.vector != 1) line += " vector=" + std::to_string(variable.vector);
  line += " type=" + variable.type;
  if (variable.is_pointer) line += std::string(" pointer-to=") + SpaceWord(variable.pointee_space);
  if (variable.pointee_align != 0)
    line += " pointee-align=" + std::to_string(variable.pointee_align);
  line += variable.has_name ? " name=" + variable.name : " unnamed";
  if (variable.has_range || variable.range != 0) line += " range=" + std::to_string(variable.range);
  if (variable.joined) line += " joined";
  for (uint64_t dim : variable.dims) line += " dim=" + std::to_string(dim);
  Line(depth, line);
  if (variable.init) DumpInitializer(*variable.init, depth + 1);
}

void Dumper::DumpInitializer(const Initializer& initializer, int depth) {
  std::string line = std::string("init ") + KindWord(initializer.kind);
  if (initializer.kind != Initializer::Kind::kAggregate &&
      initializer.kind != Initializer::Kind::kVerbatim) {
    line += " value=" + std::to_string(initializer.integer);
  }
  if (initializer.width != 0) line += " width=" + std::to_string(initializer.width);
  if (initializer.mask != 0) line += " mask=" + std::to_string(initializer.mask);
  if (initializer.generic) line += " generic";
  if (!initializer.text.empty()) line += " " + Quoted(initializer.text);
  Line(depth, line);
  for (const Initializer& element : initializer.elements) DumpInitializer(element, depth + 1);
}

void Dumper::DumpNode(const Function& function, int depth) {
  std::string line = function.is_entry ? "entry" : "func";
  if (!function.linking.empty()) line += " linking=" + function.linking;
  for (const std::string& qualifier : function.qualifiers)
    line += " qualifier=" + Quoted(qualifier);
  line += " name=" + function.name;
  if (!function.body) line += " declaration";
  Line(depth, line);
  for (const Variable& variable : function.returns) DumpNode(variable, depth + 1, "return");
  for (const Variable& variable : function.params) DumpNode(variable, depth + 1, "param");
  for (const Directive& attribute : function.attributes) DumpNode(attribute, depth + 1);
  if (function.body) DumpNode(*function.body, depth + 1);
}

void Dumper::DumpNode(const Block& block, int depth) {
  std::string line = "block";
  if (!block.open_mark.empty()) line += " open=" + Quoted(block.open_mark);
  if (!block.close_mark.empty()) line += " close=" + Quoted(block.close_mark);
  Line(depth, line);
  for (const Statement& statement : block.statements) {
    std::visit([&](const auto& node) { DumpNode(node, depth + 1); }, statement.node);
  }
}

void Dumper::DumpNode(const Instruction& instruction, int depth) {
  std::string line = "instruction";
  if (instruction.guard) {
    line += instruction.guard->negated ? " @!" : " @";
    line += instruction.guard->predicate;
  }
  line += " " + instruction.opcode;
  for (const std::string& modifier : instruction.modifiers) line += " ." + modifier;
  Line(depth, line);
  for (const Operand& operand : instruction.operands) DumpOperand(operand, depth + 1);
}

void Dumper::DumpOperand(const Operand& operand, int depth) {
  std::string line = KindWord(operand.kind);
  if (operand.negated) line += " negated";
  if (operand.width != 0) line += " width=" + std::to_string(operand.width);
  if (operand.integer != 0) line += " value=" + std::to_string(operand.integer);
  if (!operand.text.empty()) line += " " + Quoted(operand.text);
  Line(depth, line);
  for (const Operand& child : operand.children) DumpOperand(child, depth + 1);
}

void Dumper::DumpNode(const TargetList& list, int depth) {
  std::string line = list.is_call ? "calltargets " : "branchtargets ";
  line += list.label;
  for (const std::string& target : list.targets) line += " " + target;
  Line(depth, line);
}

void Dumper::DumpNode(const CallPrototype& prototype, int depth) {
  std::string line = "callprototype " + prototype.label;
  for (const std::string& attribute : prototype.attributes) line += " " + Quoted(attribute);
  Line(depth, line);
  for (const Variable& variable : prototype.returns) DumpNode(variable, depth + 1, "return");
  for (const Variable& variable : prototype.params) DumpNode(variable, depth + 1, "param");
}

}  // namespace

std::string Dump(const Module& module) {
  std::string text;
  Dumper(text).DumpModule(module);
  return text;
}

}  // namespace cupola::ptx
