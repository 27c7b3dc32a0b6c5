#include "device/compiler/passes/block_ids.h"

#include <array>
#include <set>
#include <string>

#include "device/compiler/passes/rewrite.h"
#include "device/compiler/passes/snippet.h"
#include "device/compiler/ptx/walk.h"

namespace cupola::passes {
namespace {

constexpr std::array<const char*, 3> kDimensions = {"x", "y", "z"};

bool IsBlockId(std::string_view name) {
  return name.starts_with("%ctaid") || name.starts_with("%nctaid");
}

// "%ctaid.x" -> "%cupola_x", "%nctaid.x" -> "%cupola_nx"; "" for all else.
std::string VirtualName(std::string_view name) {
  for (const char* dimension : kDimensions) {
    if (name == std::string("%ctaid.") + dimension) return std::string("%cupola_") + dimension;
    if (name == std::string("%nctaid.") + dimension) return std::string("%cupola_n") + dimension;
  }
  return "";
}

std::vector<ptx::Statement> EntryHead(const std::set<std::string>& used, uint32_t grid_offset) {
  std::vector<ptx::Statement> head;
  for (uint32_t i = 0; i < 3; ++i) {
    const std::string name = std::string("%cupola_n") + kDimensions[i];
    if (!used.contains(name)) continue;
    head.push_back(Register("b32", name));
    Append(head, "ld.param.u32 <name>, [cupola_launch+<offset>];",
           {{"name", name}, {"offset", std::to_string(grid_offset + 4 * i)}});
  }
  return head;
}

std::vector<ptx::Statement> FunctionHead(const std::set<std::string>& used) {
  std::vector<ptx::Statement> head;
  for (uint32_t i = 0; i < 6; ++i) {
    const std::string name = std::string(i < 3 ? "%cupola_" : "%cupola_n") + kDimensions[i % 3];
    if (!used.contains(name)) continue;
    head.push_back(Register("b32", name));
    Append(head, "ld.shared.u32 <name>, [cupola_block+<offset>];",
           {{"name", name}, {"offset", std::to_string(16 * (i / 3) + 4 * (i % 3))}});
  }
  return head;
}

}  // namespace

ptx::Variable BlockIdsVariable() {
  ptx::Variable variable;
  variable.space = ptx::StateSpace::kShared;
  variable.align = 16;
  variable.type = "b8";
  variable.name = "cupola_block";
  variable.dims = {kBlockSharedBytes};
  return variable;
}

bool ReadsBlockIds(const ptx::Function& function) {
  bool reads = false;
  ForEachInstruction(*function.body, [&](const ptx::Instruction& instruction) {
    ForEachOperandOf(instruction,
                     [&](const ptx::Operand& operand) { reads |= IsBlockId(operand.text); });
  });
  return reads;
}

bool HasOddBlockIds(const ptx::Function& function) {
  bool odd = false;
  ForEachInstruction(*function.body, [&](const ptx::Instruction& instruction) {
    const bool narrow = instruction.HasModifier("u16") || instruction.HasModifier("b16");
    ForEachOperandOf(instruction, [&](const ptx::Operand& operand) {
      if (!IsBlockId(operand.text)) return;
      odd |= narrow || VirtualName(operand.text).empty();
    });
  });
  return odd;
}

bool MakeBlockIdsVirtual(ptx::Function& function, uint32_t grid_offset) {
  std::set<std::string> used;
  RewriteInstructions(*function.body,
                      [&](ptx::Instruction instruction, std::vector<ptx::Statement>& out) {
                        ForEachOperandOf(instruction, [&](ptx::Operand& operand) {
                          std::string name = VirtualName(operand.text);
                          if (name.empty()) return;
                          used.insert(name);
                          operand.text = std::move(name);
                        });
                        out.push_back({.node = std::move(instruction)});
                        return false;
                      });
  std::vector<ptx::Statement> head =
      function.is_entry ? EntryHead(used, grid_offset) : FunctionHead(used);
  function.body->statements.insert(function.body->statements.begin(), head.begin(), head.end());
  return !used.empty();
}

}  // namespace cupola::passes
