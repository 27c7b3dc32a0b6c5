#include "device/compiler/ptx/validate.h"

#include <algorithm>
#include <string>

#include "base/result.h"
#include "device/compiler/ptx/opcodes.h"
#include "device/compiler/ptx/scope.h"
#include "device/compiler/ptx/target.h"
#include "device/compiler/ptx/walk.h"

namespace cupola::ptx {
namespace {

std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

class Validator {
 public:
  explicit Validator(const Module& module) : module_(module) {}

  std::vector<Diagnostic> Run();

 private:
  void Say(Severity severity, SourcePos pos, std::string message) {
    diagnostics_.push_back({severity, std::move(message), pos});
  }
  void Error(SourcePos pos, std::string message) {
    Say(Severity::kError, pos, std::move(message));
  }
  void Warn(SourcePos pos, std::string message) {
    Say(Severity::kWarning, pos, std::move(message));
  }

  void CheckHead();
  void DeclareModuleVariable(const Variable& variable);
  void DeclareFunction(const Function& function);
  void CheckFunction(const Function& function);
  void CheckInitializer(const Initializer& initializer, const Variable& variable);
  void CheckType(const Variable& variable);
  void DeclareLocal(const Variable& variable);
  void DeclareBlock(const Block& block);
  void CheckBlock(const Block& block);
  void CheckInstruction(const Instruction& instruction);
  void CheckGuard(const Guard& guard, SourcePos pos);
  void CheckOperand(const Operand& operand, const Instruction& instruction);
  void CheckName(std::string_view name, SourcePos pos);
  void CheckLabel(std::string_view name, SourcePos pos);
  void CheckCall(const Instruction& instruction);
  void CheckCounts(const Instruction& instruction, size_t returns, size_t params,
                   const std::vector<Variable>& declared_returns,
                   const std::vector<Variable>& declared_params);
  void CheckParameterLoad(const Instruction& instruction);

  const Module& module_;
  Scopes scopes_;
  std::vector<Diagnostic> diagnostics_;
};

std::vector<Diagnostic> Validator::Run() {
  CheckHead();
  for (const auto& item : module_.items) {
    if (const auto* variable = std::get_if<Variable>(&item)) {
      DeclareModuleVariable(*variable);
    } else if (const auto* function = std::get_if<Function>(&item)) {
      DeclareFunction(*function);
      CheckFunction(*function);
    }
  }
  // Initializers may name variables that stand further down.
  for (const auto& item : module_.items) {
    const auto* variable = std::get_if<Variable>(&item);
    if (variable != nullptr && variable->init) CheckInitializer(*variable->init, *variable);
  }
  std::stable_sort(diagnostics_.begin(), diagnostics_.end(),
                   [](const Diagnostic& a, const Diagnostic& b) {
                     return a.pos.line != b.pos.line ? a.pos.line < b.pos.line
                                                     : a.pos.column < b.pos.column;
                   });
  return std::move(diagnostics_);
}

void Validator::CheckHead() {
  if (module_.version_major == 0) {
    Error({}, "the module has no '.version'");
  } else if (IsNewerIsa(module_.version_major, module_.version_minor)) {
    Warn({}, "PTX ISA " + std::to_string(module_.version_major) + "." +
                 std::to_string(module_.version_minor) + " is newer than the 9.0 that is known");
  }
  if (module_.targets.empty()) Error({}, "the module has no '.target'");
  for (const std::string& target : module_.targets) {
    const TargetCheck check =
        CheckTarget(target, module_.version_major, module_.version_minor);
    if (check.is_error) {
      Error({}, check.problem);
    } else if (!check.problem.empty()) {
      Warn({}, check.problem);
    }
  }
  if (module_.address_size != 32 && module_.address_size != 64) {
    Error({}, "'.address_size' is " + std::to_string(module_.address_size) + ", not 32 or 64");
  }
}

void Validator::CheckType(const Variable& variable) {
  if (variable.type.empty()) {
    Error(variable.pos, Quoted(variable.name) + " is declared without a type");
  } else if (!IsTypeWord(variable.type)) {
    Warn(variable.pos, "unknown type '." + variable.type + "' of " + Quoted(variable.name));
  }
}

void Validator::DeclareModuleVariable(const Variable& variable) {
  CheckType(variable);
  const Symbol symbol{.kind = Symbol::Kind::kVariable, .variable = &variable};
  if (scopes_.Declare(variable.name, symbol)) return;
  const Symbol* taken = scopes_.FindHere(variable.name);
  if (taken == nullptr || taken->kind != Symbol::Kind::kVariable) {
    Error(variable.pos, Quoted(variable.name) + " is already declared as a function");
  } else if (taken->variable->linking == "extern") {
    scopes_.Replace(variable.name, symbol);
  } else if (variable.linking != "extern") {
    Error(variable.pos, Quoted(variable.name) + " is defined twice");
  }
}

void Validator::DeclareFunction(const Function& function) {
  const Symbol symbol{.kind = Symbol::Kind::kFunction, .function = &function};
  if (scopes_.Declare(function.name, symbol)) return;
  const Symbol* taken = scopes_.FindHere(function.name);
  if (taken == nullptr || taken->kind != Symbol::Kind::kFunction) {
    Error(function.pos, Quoted(function.name) + " is already declared as a variable");
    return;
  }
  if (taken->function->params.size() != function.params.size() ||
      taken->function->returns.size() != function.returns.size()) {
    Error(function.pos, "the declarations of " + Quoted(function.name) + " differ in parameters");
  }
  if (!function.body) return;
  if (taken->function->body) {
    Error(function.pos, Quoted(function.name) + " is defined twice");
  } else {
    scopes_.Replace(function.name, symbol);
  }
}

void Validator::CheckFunction(const Function& function) {
  if (function.is_entry && !function.returns.empty()) {
    Error(function.pos, "the kernel " + Quoted(function.name) + " returns a value");
  }
  scopes_.Open();
  for (const Variable& variable : function.returns) DeclareLocal(variable);
  for (const Variable& variable : function.params) DeclareLocal(variable);
  if (function.body) {
    DeclareBlock(*function.body);
    CheckBlock(*function.body);
  }
  scopes_.Close();
}

void Validator::CheckInitializer(const Initializer& initializer, const Variable& variable) {
  for (const Initializer& element : initializer.elements) CheckInitializer(element, variable);
  if (initializer.kind != Initializer::Kind::kAddress &&
      initializer.kind != Initializer::Kind::kMaskedAddress) {
    return;
  }
  if (scopes_.Find(initializer.text) == nullptr) {
    Error(variable.pos, "the initializer of " + Quoted(variable.name) + " names " +
                            Quoted(initializer.text) + ", which is not declared");
  }
}

void Validator::DeclareLocal(const Variable& variable) {
  CheckType(variable);
  if (!variable.has_name) return;
  const Symbol symbol{.kind = Symbol::Kind::kVariable, .variable = &variable};
  if (!scopes_.Declare(variable.name, symbol)) {
    Error(variable.pos, Quoted(variable.name) + " is declared twice in this scope");
  }
}

void Validator::DeclareBlock(const Block& block) {
  const auto declare = [this](const std::string& name, const Symbol& symbol, SourcePos pos) {
    if (!scopes_.Declare(name, symbol)) {
      Error(pos, "the label " + Quoted(name) + " is already declared in this scope");
    }
  };
  for (const Statement& statement : block.statements) {
    if (const auto* variable = std::get_if<Variable>(&statement.node)) {
      DeclareLocal(*variable);
    } else if (const auto* label = std::get_if<Label>(&statement.node)) {
      declare(label->name, {.kind = Symbol::Kind::kLabel}, label->pos);
    } else if (const auto* targets = std::get_if<TargetList>(&statement.node)) {
      declare(targets->label, {.kind = Symbol::Kind::kTargets}, targets->pos);
    } else if (const auto* prototype = std::get_if<CallPrototype>(&statement.node)) {
      declare(prototype->label, {.kind = Symbol::Kind::kPrototype, .prototype = prototype},
              prototype->pos);
    }
  }
}

void Validator::CheckBlock(const Block& block) {
  for (const Statement& statement : block.statements) {
    if (const auto* instruction = std::get_if<Instruction>(&statement.node)) {
      CheckInstruction(*instruction);
    } else if (const auto* inner = std::get_if<Block>(&statement.node)) {
      scopes_.Open();
      DeclareBlock(*inner);
      CheckBlock(*inner);
      scopes_.Close();
    } else if (const auto* targets = std::get_if<TargetList>(&statement.node)) {
      for (const std::string& target : targets->targets) {
        targets->is_call ? CheckName(target, targets->pos) : CheckLabel(target, targets->pos);
      }
    }
  }
}

void Validator::CheckInstruction(const Instruction& instruction) {
  if (instruction.guard) CheckGuard(*instruction.guard, instruction.pos);
  const OpcodeInfo* info = FindOpcode(instruction.opcode);
  if (info == nullptr) {
    Warn(instruction.pos, "unknown instruction " + Quoted(instruction.opcode) + ", kept as it is");
    return;
  }
  const size_t count = instruction.operands.size();
  if (count < info->min_operands || count > info->max_operands) {
    std::string expected = std::to_string(info->min_operands);
    if (info->max_operands != info->min_operands) {
      expected += " to " + std::to_string(info->max_operands);
    }
    Error(instruction.pos, Quoted(instruction.opcode) + " takes " + expected +
                               (expected == "1" ? " operand, " : " operands, ") +
                               std::to_string(count) + (count == 1 ? " is given" : " are given"));
    return;
  }
  if (instruction.opcode == "call") return CheckCall(instruction);
  if (instruction.opcode == "bra" && instruction.operands[0].kind == Operand::Kind::kName) {
    return CheckLabel(instruction.operands[0].text, instruction.pos);
  }
  for (const Operand& operand : instruction.operands) CheckOperand(operand, instruction);
  if (instruction.opcode == "ld" && instruction.HasModifier("param")) {
    CheckParameterLoad(instruction);
  }
}

void Validator::CheckGuard(const Guard& guard, SourcePos pos) {
  const Symbol* symbol = scopes_.Find(guard.predicate);
  if (symbol == nullptr) {
    Error(pos, "the predicate " + Quoted(guard.predicate) + " is not declared");
  } else if (symbol->variable == nullptr || symbol->variable->type != "pred") {
    Error(pos, "the guard " + Quoted(guard.predicate) + " is not a predicate");
  }
}

void Validator::CheckOperand(const Operand& operand, const Instruction& instruction) {
  ForEachOperand(operand, [&](const Operand& each) {
    const bool is_name = each.kind == Operand::Kind::kName || each.kind == Operand::Kind::kOffset ||
                         each.kind == Operand::Kind::kIndexed;
    if (is_name) CheckName(each.text, instruction.pos);
  });
}

void Validator::CheckName(std::string_view name, SourcePos pos) {
  if (name == "_") return;
  name = name.substr(0, name.find('.'));  // "%tid.x", "v.x" of a vector, "a.b0" of a video operand
  if (scopes_.Find(name) != nullptr || IsSpecialRegister(name)) return;
  Error(pos, (name.starts_with('%') ? "the register " : "") + Quoted(name) + " is not declared");
}

void Validator::CheckLabel(std::string_view name, SourcePos pos) {
  const Symbol* symbol = scopes_.Find(name);
  if (symbol == nullptr) {
    Error(pos, "branch to the label " + Quoted(name) + ", which this scope does not have");
  } else if (symbol->kind != Symbol::Kind::kLabel) {
    Error(pos, "branch to " + Quoted(name) + ", which is not a label");
  }
}

// call [(returns),] target [, (arguments)] [, prototype or list of targets] [9.7.12.5]
void Validator::CheckCall(const Instruction& instruction) {
  const std::vector<Operand>& operands = instruction.operands;
  size_t at = 0;
  size_t returns = 0, params = 0;
  const auto take_list = [&](size_t& count) {
    if (at >= operands.size() || operands[at].kind != Operand::Kind::kList) return;
    count = operands[at].children.size();
    for (const Operand& child : operands[at].children) CheckOperand(child, instruction);
    ++at;
  };
  take_list(returns);
  if (at >= operands.size() || operands[at].kind != Operand::Kind::kName) {
    return Error(instruction.pos, "'call' names no function");
  }
  const std::string& target = operands[at++].text;
  take_list(params);
  const Symbol* callee = scopes_.Find(target);
  if (callee == nullptr) {
    return Error(instruction.pos, "call of " + Quoted(target) + ", which is not declared before");
  }
  if (callee->kind == Symbol::Kind::kFunction) {
    return CheckCounts(instruction, returns, params, callee->function->returns,
                       callee->function->params);
  }
  if (at >= operands.size() || operands[at].kind != Operand::Kind::kName) {
    return Error(instruction.pos, "a call through " + Quoted(target) +
                                      " needs a '.callprototype' or '.calltargets'");
  }
  const Symbol* prototype = scopes_.Find(operands[at].text);
  if (prototype == nullptr) {
    return Error(instruction.pos,
                 "the prototype " + Quoted(operands[at].text) + " is not declared");
  }
  if (prototype->kind == Symbol::Kind::kPrototype) {
    CheckCounts(instruction, returns, params, prototype->prototype->returns,
                prototype->prototype->params);
  }
}

void Validator::CheckCounts(const Instruction& instruction, size_t returns, size_t params,
                            const std::vector<Variable>& declared_returns,
                            const std::vector<Variable>& declared_params) {
  const bool is_variadic = !declared_params.empty() && !declared_params.back().dims.empty() &&
                           declared_params.back().dims[0] == 0;
  if (returns != declared_returns.size()) {
    Error(instruction.pos, "the call takes " + std::to_string(returns) +
                               " returned values where the callee has " +
                               std::to_string(declared_returns.size()));
  }
  if (params != declared_params.size() && !is_variadic) {
    Error(instruction.pos, "the call passes " + std::to_string(params) +
                               " arguments where the callee has " +
                               std::to_string(declared_params.size()));
  }
}

void Validator::CheckParameterLoad(const Instruction& instruction) {
  const Operand& address = instruction.operands[1];
  if (address.kind != Operand::Kind::kAddress || address.children[0].kind != Operand::Kind::kName) {
    return;
  }
  const Symbol* symbol = scopes_.Find(address.children[0].text);
  if (symbol == nullptr || symbol->variable == nullptr ||
      symbol->variable->space != StateSpace::kParam) {
    return;
  }
  uint64_t size = TypeBytes(symbol->variable->type) * symbol->variable->vector;
  for (uint64_t dim : symbol->variable->dims) size *= dim;
  uint64_t width = 0;
  for (const std::string& modifier : instruction.modifiers) {
    if (width == 0) width = TypeBytes(modifier);
  }
  for (const std::string& modifier : instruction.modifiers) {
    if (modifier == "v2" || modifier == "v4") width *= static_cast<uint64_t>(modifier[1] - '0');
  }
  if (size == 0 || width == 0) return;
  if (address.integer < 0 || static_cast<uint64_t>(address.integer) + width > size) {
    Warn(instruction.pos, "the load of bytes " + std::to_string(address.integer) + " to " +
                              std::to_string(address.integer + static_cast<int64_t>(width)) +
                              " lies outside the parameter " + Quoted(symbol->variable->name) +
                              " of " + std::to_string(size) + " bytes");
  }
}

}  // namespace

std::vector<Diagnostic> Validate(const Module& module) { return Validator(module).Run(); }

bool HasErrors(const std::vector<Diagnostic>& diagnostics) {
  for (const Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.severity == Severity::kError) return true;
  }
  return false;
}

std::string Diagnostic::ToString(std::string_view file) const {
  Error located{.message = (severity == Severity::kError ? "error: " : "warning: ") + message,
                .where = {.file = std::string(file), .line = pos.line, .column = pos.column}};
  return located.ToString();
}

}  // namespace cupola::ptx
