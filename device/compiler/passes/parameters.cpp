#include "device/compiler/passes/parameters.h"

#include <set>
#include <string>
#include <unordered_map>

#include "device/compiler/ptx/variable_layout.h"
#include "device/compiler/ptx/walk.h"

namespace cupola::passes {
namespace {

// Names of the parameters whose values are used as addresses: they are loaded into a register that
// cvta.to.global takes or that is the base of an access.
std::set<std::string> PointerParameters(const ptx::Function& kernel) {
  std::unordered_map<std::string, std::string> loaded;  // register -> parameter
  std::set<std::string> pointers;
  if (!kernel.body) return pointers;
  ForEachInstruction(*kernel.body, [&](const ptx::Instruction& each) {
    if (each.operands.size() < 2) return;
    const ptx::Operand& source = each.operands[1];
    if (each.opcode == "ld" && each.HasModifier("param") && !source.children.empty()) {
      if (source.integer == 0) loaded[each.operands[0].text] = source.children[0].text;
      return;
    }
    const auto note = [&](const std::string& name) {
      if (const auto at = loaded.find(name); at != loaded.end()) pointers.insert(at->second);
    };
    if (each.opcode == "cvta" && each.HasModifier("to")) note(source.text);
    for (const ptx::Operand& operand : each.operands) {
      if (operand.kind == ptx::Operand::Kind::kAddress && !operand.children.empty()) {
        note(operand.children[0].text);
      }
    }
  });
  return pointers;
}

}  // namespace

ParameterFacts FindParameterFacts(const ptx::Function& kernel, uint32_t arch) {
  ParameterFacts facts;
  const std::set<std::string> pointers = PointerParameters(kernel);
  const ptx::ParameterLayout layout = ptx::LayOutParameters(kernel, ptx::ParameterBase(arch));
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const ptx::Variable& parameter = kernel.params[i];
    const auto [offset, bytes, align] = layout.parameters[i];
    const bool pointer = parameter.is_pointer || (bytes == 8 && pointers.contains(parameter.name));
    facts.parameters.push_back({.offset = offset, .bytes = bytes, .is_pointer = pointer});
  }
  static_assert(ptx::ParameterBase(75) % 8 == 0 && ptx::ParameterBase(90) % 8 == 0 &&
                ptx::ParameterBase(100) % 8 == 0);
  facts.bytes = layout.bytes;
  facts.launch_offset = (layout.bytes + 7) / 8 * 8;
  return facts;
}

uint32_t BytesWithLaunchParameter(const ptx::Function& kernel, uint32_t arch, size_t more) {
  return FindParameterFacts(kernel, arch).launch_offset + static_cast<uint32_t>(more);
}

void AddLaunchParameter(ptx::Function& kernel, uint32_t bytes) {
  ptx::Variable parameter;
  parameter.space = ptx::StateSpace::kParam;
  parameter.align = 8;
  parameter.type = "b8";
  parameter.name = "cupola_launch";
  parameter.dims = {bytes};
  kernel.params.push_back(std::move(parameter));
  kernel.has_params_list = true;
}

}  // namespace cupola::passes
