#include "device/compiler/passes/call_graph.h"

#include "device/compiler/ptx/walk.h"

namespace cupola::passes {
namespace {

bool IsRegister(std::string_view name) { return name.starts_with("%"); }

// Collects the names in a body in `own`, and notes whether it calls through a register or takes a
// function's address.
void NoteNames(const ptx::Block& body, Reach& reach, std::unordered_set<std::string_view>& own,
               const CallGraph& graph) {
  ForEachStatement(body, [&](const ptx::Statement& statement) {
    if (const auto* list = std::get_if<ptx::TargetList>(&statement.node); list && list->is_call) {
      for (const std::string& target : list->targets) own.insert(target);
    }
    const auto* instruction = std::get_if<ptx::Instruction>(&statement.node);
    if (instruction == nullptr) return;
    const ptx::Operand* callee = instruction->opcode == "call" ? CalleeOf(*instruction) : nullptr;
    if (callee != nullptr && IsRegister(callee->text)) reach.calls_pointers = true;
    ForEachOperandOf(*instruction, [&](const ptx::Operand& operand) {
      if (operand.text.empty() || IsRegister(operand.text)) return;
      own.insert(operand.text);
      if (&operand != callee && graph.Find(operand.text) != nullptr) reach.takes_addresses = true;
    });
  });
}

}  // namespace

const ptx::Operand* CalleeOf(const ptx::Instruction& call) {
  for (const ptx::Operand& operand : call.operands) {
    if (operand.kind != ptx::Operand::Kind::kList) return &operand;
  }
  return nullptr;
}

CallGraph::CallGraph(const ptx::Module& module) {
  for (const auto& item : module.items) {
    if (const auto* variable = std::get_if<ptx::Variable>(&item)) {
      variables_[variable->name] = variable;
    } else if (const auto* function = std::get_if<ptx::Function>(&item)) {
      if (function->body) functions_[function->name] = function;
    }
  }
}

const ptx::Function* CallGraph::Find(std::string_view name) const {
  const auto at = functions_.find(name);
  return at == functions_.end() ? nullptr : at->second;
}

const ptx::Variable* CallGraph::FindVariable(std::string_view name) const {
  const auto at = variables_.find(name);
  return at == variables_.end() ? nullptr : at->second;
}

Reach CallGraph::From(const ptx::Function& kernel) const {
  Reach reach;
  std::unordered_set<const ptx::Function*> seen{&kernel};
  reach.functions.push_back(&kernel);
  for (size_t i = 0; i < reach.functions.size(); ++i) {
    std::unordered_set<std::string_view> own;
    NoteNames(*reach.functions[i]->body, reach, own, *this);
    for (const std::string_view name : own) {
      reach.names.insert(name);
      const ptx::Function* function = Find(name);
      if (function == nullptr) continue;
      if (function->is_entry) {
        reach.names_kernels = true;
      } else if (seen.insert(function).second) {
        reach.functions.push_back(function);
      }
    }
  }
  return reach;
}

}  // namespace cupola::passes
