#include "cli/ptx_report.h"

#include <map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "device/compiler/ptx/opcodes.h"
#include "device/compiler/ptx/validate.h"
#include "device/compiler/ptx/write.h"

namespace cupola {
namespace {

struct FunctionFacts {
  const ptx::Function* function = nullptr;
  size_t instructions = 0;
  size_t registers = 0;  ///< number of declared registers, before allocation
  size_t labels = 0;
};

struct ModuleFacts {
  std::vector<FunctionFacts> functions;
  size_t variables = 0;
  size_t directives = 0;
  std::map<std::string, size_t> opcodes;
  std::map<std::string, size_t> unknown_opcodes;
  std::vector<std::string> verbatim_operands;
};

void CountOperand(const ptx::Operand& operand, ModuleFacts& facts) {
  if (operand.kind == ptx::Operand::Kind::kVerbatim)
    facts.verbatim_operands.push_back(operand.text);
  for (const ptx::Operand& child : operand.children) CountOperand(child, facts);
}

void CountBlock(const ptx::Block& block, FunctionFacts& own, ModuleFacts& facts) {
  for (const ptx::Statement& statement : block.statements) {
    if (const auto* instruction = std::get_if<ptx::Instruction>(&statement.node)) {
      ++own.instructions;
      ++facts.opcodes[instruction->opcode];
      if (ptx::FindOpcode(instruction->opcode) == nullptr) {
        ++facts.unknown_opcodes[instruction->opcode];
      }
      for (const ptx::Operand& operand : instruction->operands) CountOperand(operand, facts);
    } else if (const auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
      if (variable->space == ptx::StateSpace::kReg) {
        own.registers += variable->range != 0 ? variable->range - 1 : 1;
      }
    } else if (const auto* inner = std::get_if<ptx::Block>(&statement.node)) {
      CountBlock(*inner, own, facts);
    } else if (std::holds_alternative<ptx::Label>(statement.node)) {
      ++own.labels;
    }
  }
}

ModuleFacts CountFacts(const ptx::Module& module) {
  ModuleFacts facts;
  for (const auto& item : module.items) {
    if (const auto* function = std::get_if<ptx::Function>(&item)) {
      FunctionFacts own{.function = function};
      if (function->body) CountBlock(*function->body, own, facts);
      facts.functions.push_back(own);
    } else if (std::holds_alternative<ptx::Variable>(item)) {
      ++facts.variables;
    } else {
      ++facts.directives;
    }
  }
  return facts;
}

const char* FunctionKind(const ptx::Function& function) {
  return function.is_entry ? "kernel" : function.body ? "function" : "declaration";
}

}  // namespace

std::string PtxSummary(const ptx::Module& module) {
  const ModuleFacts facts = CountFacts(module);
  std::string text =
      fmt::format("PTX ISA {}.{}, target {}, {}-bit addresses\n", module.version_major,
                  module.version_minor, fmt::join(module.targets, ", "), module.address_size);
  text += fmt::format("{} variables, {} functions, {} directives\n", facts.variables,
                      facts.functions.size(), facts.directives);
  for (const FunctionFacts& own : facts.functions) {
    text += fmt::format("  {:<11} {}: {} parameters, {} instructions, {} registers, {} labels\n",
                        FunctionKind(*own.function), own.function->name,
                        own.function->params.size(), own.instructions, own.registers, own.labels);
  }
  for (const auto& [opcode, count] : facts.unknown_opcodes) {
    text += fmt::format("unknown instruction '{}', kept as it is ({} times)\n", opcode, count);
  }
  for (const std::string& operand : facts.verbatim_operands) {
    text += fmt::format("operand not understood, kept as it is: {}\n", operand);
  }
  return text;
}

std::string PtxJson(const ptx::Module& module) {
  const ModuleFacts facts = CountFacts(module);
  nlohmann::ordered_json json;
  json["name"] = module.name;
  json["version"] = fmt::format("{}.{}", module.version_major, module.version_minor);
  json["targets"] = module.targets;
  json["address_size"] = module.address_size;
  json["variables"] = facts.variables;
  json["directives"] = facts.directives;
  json["functions"] = nlohmann::ordered_json::array();
  for (const FunctionFacts& own : facts.functions) {
    nlohmann::ordered_json entry = {
        {"name", own.function->name},          {"kind", FunctionKind(*own.function)},
        {"linking", own.function->linking},    {"parameters", own.function->params.size()},
        {"instructions", own.instructions},    {"registers", own.registers},
        {"labels", own.labels},                {"line", own.function->pos.line}};
    json["functions"].push_back(std::move(entry));
  }
  json["opcodes"] = facts.opcodes;
  json["unknown_opcodes"] = facts.unknown_opcodes;
  json["verbatim_operands"] = facts.verbatim_operands;
  json["diagnostics"] = nlohmann::ordered_json::array();
  for (const ptx::Diagnostic& diagnostic : ptx::Validate(module)) {
    json["diagnostics"].push_back(
        {{"severity", diagnostic.severity == ptx::Severity::kError ? "error" : "warning"},
         {"line", diagnostic.pos.line},
         {"column", diagnostic.pos.column},
         {"message", diagnostic.message}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace cupola
