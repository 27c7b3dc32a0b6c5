#include "device/compiler/passes/early_return.h"

#include "device/compiler/passes/one_scope.h"
#include "device/compiler/passes/rewrite.h"
#include "device/compiler/passes/snippet.h"

namespace cupola::passes {
namespace {

bool IsBlockBarrier(const ptx::Instruction& instruction) {
  return (instruction.opcode == "bar" || instruction.opcode == "barrier") &&
         !instruction.HasModifier("warp") && !instruction.HasModifier("cluster");
}

// The operands are: bar.sync a{, b}; bar.arrive a, b; bar.red.op d, a{, b}, c. The count is b.
bool HasCount(const ptx::Instruction& instruction) {
  return instruction.operands.size() > (instruction.HasModifier("red") ? 3u : 1u);
}

// Computes the result of a reduction. %cupola_n0 is the number of threads that took part, %cupola_n1 the number of
// those whose value was true.
std::string_view ResultOf(const ptx::Instruction& reduction) {
  if (reduction.HasModifier("popc")) return "mov.u32 <to>, %cupola_n1;";
  if (reduction.HasModifier("and")) return "setp.eq.u32 <to>, %cupola_n1, %cupola_n0;";
  return "setp.ne.u32 <to>, %cupola_n1, 0;";
}

// A part of a warp goes to the place where all parts meet.
constexpr std::string_view kIsPart = R"(
  activemask.b32 %cupola_n0;
  setp.ne.u32 %cupola_p1, %cupola_n0, -1;
  @%cupola_p1 bra $cupola_meet;
  setp.eq.u32 %cupola_p2, 0, 0;
)";
constexpr std::string_view kWholeMeets = "bar.red.or.pred %cupola_p1, <barrier>, %cupola_p2;";
constexpr std::string_view kWholeReduces = R"(
  bar.red.popc.u32 %cupola_n0, <barrier>, %cupola_p2;
  bar.red.popc.u32 %cupola_n1, <barrier>, %cupola_value;
)";

// The code that stands in place of barrier number <k> of the body.
void AppendMeeting(std::vector<ptx::Statement>& out, const ptx::Instruction& from, uint32_t k,
                   Meeting meeting, uint32_t barrier) {
  const bool reduces = from.HasModifier("red");
  Words words = {{"k", std::to_string(k)}, {"barrier", std::to_string(barrier)}};
  if (from.guard) {
    words["without"] = std::string(from.guard->negated ? "" : "!") + from.guard->predicate;
    Append(out, "@<without> bra $cupola_past_<k>;", words);
  }
  Append(out, "mov.u32 %cupola_resume, <k>;", words);
  if (reduces) {
    const ptx::Operand& value = from.operands.back();
    words["to"] = from.operands[0].text;
    words["value"] = value.text;
    Append(out, value.negated ? "not.pred %cupola_value, <value>;" : "mov.pred %cupola_value, <value>;",
           words);
  } else if (meeting == Meeting::kReducing) {
    Append(out, "setp.ne.u32 %cupola_value, 0, 0;");
  }
  Append(out, kIsPart);
  Append(out, meeting == Meeting::kReducing ? kWholeReduces : kWholeMeets, words);
  out.push_back({.node = ptx::Label{.name = "$cupola_resume_" + std::to_string(k)}});
  if (reduces) Append(out, ResultOf(from), words);
  if (from.guard) out.push_back({.node = ptx::Label{.name = "$cupola_past_" + std::to_string(k)}});
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

uint32_t RouteBarriers(ptx::Block& body, Meeting meeting, uint32_t barrier) {
  Dissolve(body, IsUncountedBarrier);
  uint32_t count = 0;
  RewriteInstructions(body, [&](ptx::Instruction instruction, std::vector<ptx::Statement>& out) {
    if (!IsUncountedBarrier(instruction)) {
      out.push_back({.node = std::move(instruction)});
      return false;
    }
    AppendMeeting(out, instruction, ++count, meeting, barrier);
    return true;
  });
  return count;
}

}  // namespace cupola::passes
