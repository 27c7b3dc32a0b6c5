#include "device/compiler/ptx/divergence.h"

#include <unordered_map>

#include "device/compiler/ptx/post_dominators.h"
#include "device/compiler/ptx/walk.h"

namespace cupola::ptx {
namespace {

// Special registers that are the same for all threads of a block.
bool IsUniformSpecial(std::string_view name) {
  return name.starts_with("%ctaid") || name.starts_with("%nctaid") || name.starts_with("%ntid") ||
         name.starts_with("%gridid") || name.starts_with("%envreg") ||
         name.starts_with("%cluster_ctaid") || name.starts_with("%clusterid") ||
         name.starts_with("%nclusterid") || name.starts_with("%cluster_nctaid") ||
         name.starts_with("%dynamic_smem_size") || name.starts_with("%total_smem_size");
}

// Marks nodes. Returns whether one of them was not marked before.
template <typename IsWanted>
bool Mark(std::vector<bool>& marks, IsWanted is_wanted) {
  bool any = false;
  for (size_t k = 0; k < marks.size(); ++k) {
    if (marks[k] || !is_wanted(k)) continue;
    marks[k] = true;
    any = true;
  }
  return any;
}

}  // namespace

Divergence::Divergence(const FlowGraph& graph, Threads threads, bool params_differ)
    : graph_(graph), threads_(threads), params_differ_(params_differ), meetings_(FindMeetings(graph)) {
  FindThreadNumbers();
  controlled_.resize(graph.nodes.size(), false);
  followed_.resize(graph.nodes.size(), false);
  while (SpreadData() || SpreadControl()) {
  }
}

bool Divergence::BranchDiffers(const Instruction& branch) const {
  if (branch.guard && differs_.contains(branch.guard->predicate)) return true;
  return branch.opcode == "brx" && !branch.operands.empty() && Differs(branch.operands[0]);
}

// Special registers that may differ between the threads, or from one read to the next.
bool Divergence::IsThreadSpecial(std::string_view name) const {
  if (name == "%warpid" && threads_ != Threads::kOfBlock) return false;
  if (threads_ == Threads::kOfWarpInRow && (name == "%tid.y" || name == "%tid.z")) return false;
  static const std::unordered_set<std::string_view> kNames = {
      "%laneid",         "%warpid",      "%lanemask_eq", "%lanemask_le",
      "%lanemask_lt",    "%lanemask_ge", "%lanemask_gt", "%clock",
      "%clock_hi",       "%clock64",     "%globaltimer", "%globaltimer_lo",
      "%globaltimer_hi", "%nwarpid",     "%smid",        "%nsmid"};
  return name.starts_with("%tid") || name.starts_with("%pm") || kNames.contains(name);
}

bool Divergence::Differs(const Operand& operand) const {
  bool differs = false;
  ForEachOperand(operand, [&](const Operand& each) {
    if (differs || each.text.empty()) return;
    differs = IsThreadSpecial(each.text) || (!IsUniformSpecial(each.text) && differs_.contains(each.text));
  });
  return differs;
}

// Whether the result may differ whatever the operands: it comes from other memory, other threads or unknown code.
bool Divergence::ResultDiffers(const Instruction& instruction) const {
  static const std::unordered_set<std::string_view> kOpcodes = {
      "atom", "shfl", "vote", "match",    "redux",    "call", "activemask", "elect", "tex",
      "tld4", "suld", "ldu",  "mbarrier", "ldmatrix", "mma",  "wmma",       "wgmma", "ld"};
  if (!kOpcodes.contains(instruction.opcode)) return false;
  if (instruction.opcode != "ld") return true;
  if (instruction.HasModifier("param")) return params_differ_;
  // Threads that load from one address at one place load one value: a write between the loads would be a data race.
  // That does not hold for loads that may race, and for memory that each thread has of its own.
  for (const char* strong : {"volatile", "relaxed", "acquire", "mmio"}) {
    if (instruction.HasModifier(strong)) return true;
  }
  return !instruction.HasModifier("const") && !instruction.HasModifier("global") &&
         !instruction.HasModifier("shared") && !instruction.HasModifier("shared::cta");
}

// Finds registers that hold %tid.x and nothing else: one unguarded mov sets them.
void Divergence::FindThreadNumbers() {
  std::unordered_map<std::string, uint32_t> definitions;
  for (const FlowNode& node : graph_.nodes) {
    for (const Instruction* each : node.instructions) {
      if (each->operands.empty()) continue;
      // A destination may have several names: a vector, a pair, the results of a call. An address is none.
      const Operand& destination = each->operands[0];
      if (destination.kind != Operand::Kind::kAddress) {
        ForEachOperand(destination, [&](const Operand& part) {
          if (!part.text.empty()) ++definitions[part.text];
        });
      }
      if (each->opcode == "mov" && each->operands.size() == 2 && !each->guard &&
          each->operands[1].text == "%tid.x") {
        thread_numbers_.insert(destination.text);
      }
    }
  }
  for (const auto& [name, count] : definitions) {
    if (count > 1) thread_numbers_.erase(name);
  }
}

// Whether all lanes of a warp get one result although operands differ: from votes, reductions and shuffles that read
// one lane for the whole warp, and, in blocks of one dimension, where the result depends only on %tid.x / 32: a shift
// by 5 or more, a mask without the low 5 bits, or a comparison whose border lies between two warps.
bool Divergence::IsSameForWarp(const Instruction& each) const {
  if (threads_ == Threads::kOfBlock) return false;
  const auto& operands = each.operands;
  if (each.opcode == "redux" || (each.opcode == "vote" && each.HasModifier("sync"))) return true;
  if (each.opcode == "shfl") {
    return each.HasModifier("idx") && operands.size() > 3 && !Differs(operands[2]) &&
           operands[3].kind == Operand::Kind::kInteger && operands[3].integer == 31;
  }
  if (threads_ != Threads::kOfWarpInRow || operands.size() != 3) return false;
  if (!thread_numbers_.contains(operands[1].text)) return false;
  if (operands[2].kind != Operand::Kind::kInteger) return false;
  const int64_t value = operands[2].integer;
  if (each.opcode == "shr") return value >= 5;
  if (each.opcode == "and") return (value & 31) == 0;
  if (each.opcode != "setp") return false;
  const auto is = [&each](const char* modifier) { return each.HasModifier(modifier); };
  if (is("lt") || is("ge") || is("lo") || is("hs")) return value % 32 == 0;
  return (is("gt") || is("le") || is("hi") || is("ls")) && (value + 1) % 32 == 0;
}

// Marks the registers of a destination. Returns whether one of them is new.
bool Divergence::Add(const Operand& destination) {
  bool added = false;
  ForEachOperand(destination, [&](const Operand& part) {
    if (!part.text.empty() && differs_.insert(part.text).second) added = true;
  });
  return added;
}

// One pass over all instructions. Returns whether it found anything new that differs.
bool Divergence::SpreadData() {
  bool any = false;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    for (const Instruction* instruction : graph_.nodes[i].instructions) {
      if (instruction->operands.empty() || instruction->opcode == "st") continue;
      // All threads that meet at a barrier get the same result of its reduction.
      if (instruction->opcode == "bar" || instruction->opcode == "barrier") continue;
      bool differs = controlled_[i] ||
                     (instruction->guard && differs_.contains(instruction->guard->predicate));
      const bool same = IsSameForWarp(*instruction);
      differs = differs || (!same && ResultDiffers(*instruction));
      for (size_t k = 1; k < instruction->operands.size() && !differs && !same; ++k) {
        differs = Differs(instruction->operands[k]);
      }
      if (differs && !IsBranch(*instruction)) any = Add(instruction->operands[0]) || any;
    }
  }
  return any;
}

// Marks the nodes that only some threads run after a branch that differs, or that some run more often than others:
// all nodes before the branch's ways meet again. Where the ways meet only at the end, these are the nodes that one
// way reaches and another does not, before it comes back to the branch.
bool Divergence::SpreadControl() {
  bool any = false;
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const FlowNode& node = graph_.nodes[i];
    if (followed_[i] || node.next.size() < 2 || node.instructions.empty()) continue;
    if (!BranchDiffers(*node.instructions.back())) continue;
    followed_[i] = true;
    if (meetings_[i] < graph_.nodes.size()) {
      const std::vector<bool> region = NodesBeforeMeeting(graph_, i, meetings_[i]);
      any = Mark(controlled_, [&](size_t k) { return region[k]; }) || any;
    } else {
      const std::vector<uint32_t> ways = CountWays(graph_, i);
      any = Mark(controlled_, [&](size_t k) { return ways[k] != 0 && ways[k] != node.next.size(); }) || any;
    }
  }
  return any;
}

}  // namespace cupola::ptx
