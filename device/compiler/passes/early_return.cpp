#include "device/compiler/passes/early_return.h"

#include "device/compiler/passes/snippet.h"
#include "device/compiler/passes/walk.h"

namespace cupola::passes {
namespace {

bool IsBlockBarrier(const ptx::Instruction& instruction) {
  return (instruction.opcode == "bar" || instruction.opcode == "barrier") &&
         !instruction.HasModifier("warp") && !instruction.HasModifier("cluster");
}

// bar.sync a{, b}; bar.arrive a, b; bar.red.op d, a{, b}, c
bool HasCount(const ptx::Instruction& instruction) {
  return instruction.operands.size() > (instruction.HasModifier("red") ? 3u : 1u);
}

// Appends a snippet whose instructions all carry the guard of the barrier that they stand for.
void AppendGuarded(std::vector<ptx::Statement>& out, const std::optional<ptx::Guard>& guard,
                   std::string_view text, const Words& words) {
  for (ptx::Statement& statement : Snippet(text, words)) {
    if (auto* instruction = std::get_if<ptx::Instruction>(&statement.node)) {
      instruction->guard = guard;
    }
    out.push_back(std::move(statement));
  }
}

void AppendReduction(std::vector<ptx::Statement>& out, const ptx::Instruction& from,
                     uint32_t barrier) {
  const ptx::Operand& value = from.operands.back();
  const Words words = {{"to", from.operands[0].text},
                       {"barrier", std::to_string(barrier)},
                       {"value", (value.negated ? "!" : "") + value.text}};
  AppendGuarded(out, from.guard,
                "setp.eq.u32 %cupola_alive, 0, 0;\n"
                "barrier.red.popc.u32 %cupola_n0, <barrier>, %cupola_alive;\n"
                "barrier.red.popc.u32 %cupola_n1, <barrier>, <value>;",
                words);
  const bool popc = from.HasModifier("popc");
  const bool all = from.HasModifier("and");
  AppendGuarded(out, from.guard,
                popc  ? "mov.u32 <to>, %cupola_n1;"
                : all ? "setp.eq.u32 <to>, %cupola_n1, %cupola_n0;"
                      : "setp.ne.u32 <to>, %cupola_n1, 0;",
                words);
}

}  // namespace

bool RouteReturns(ptx::Block& body) {
  return RewriteInstructions(
      body, [](ptx::Instruction instruction, std::vector<ptx::Statement>& out) {
        const bool leaves = instruction.opcode == "ret" || instruction.opcode == "exit";
        if (leaves) {
          instruction.opcode = "bra";
          instruction.modifiers.clear();
          instruction.operands = {ptx::Operand::Name("$cupola_tail")};
        }
        out.push_back({.node = std::move(instruction)});
        return leaves;
      });
}

bool IsUncountedBarrier(const ptx::Instruction& instruction) {
  return IsBlockBarrier(instruction) && !instruction.HasModifier("arrive") &&
         !HasCount(instruction);
}

bool IsCountedBarrier(const ptx::Instruction& instruction) {
  return IsBlockBarrier(instruction) && !IsUncountedBarrier(instruction);
}

const ptx::Operand& BarrierNumber(const ptx::Instruction& instruction) {
  return instruction.operands[instruction.HasModifier("red") ? 1 : 0];
}

bool MakeBarriersRendezvous(ptx::Function& function, Meeting meeting, uint32_t barrier) {
  const Words words = {{"barrier", std::to_string(barrier)}};
  const bool changed = RewriteInstructions(
      *function.body, [&](ptx::Instruction instruction, std::vector<ptx::Statement>& out) {
        if (!IsUncountedBarrier(instruction)) {
          out.push_back({.node = std::move(instruction)});
          return false;
        }
        if (instruction.HasModifier("red")) {
          AppendReduction(out, instruction, barrier);
        } else if (meeting == Meeting::kReducing) {
          AppendGuarded(out, instruction.guard,
                        "setp.eq.u32 %cupola_alive, 0, 0;\n"
                        "barrier.red.popc.u32 %cupola_n0, <barrier>, %cupola_alive;\n"
                        "barrier.red.popc.u32 %cupola_n1, <barrier>, %cupola_alive;",
                        words);
        } else {
          AppendGuarded(out, instruction.guard,
                        "setp.eq.u32 %cupola_alive, 0, 0;\n"
                        "barrier.red.or.pred %cupola_met, <barrier>, %cupola_alive;",
                        words);
        }
        return true;
      });
  if (!changed) return false;
  auto& statements = function.body->statements;
  for (const auto& [type, name] : {std::pair{"pred", "%cupola_alive"},
                                   {"pred", "%cupola_met"},
                                   {"b32", "%cupola_n0"},
                                   {"b32", "%cupola_n1"}}) {
    statements.insert(statements.begin(), Register(type, name));
  }
  return true;
}

}  // namespace cupola::passes
