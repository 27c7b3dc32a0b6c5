#include "device/compiler/ptx/flow_graph.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "device/compiler/ptx/post_dominators.h"

namespace cupola::ptx {
namespace {

bool IsLeave(const Instruction& instruction) {
  return instruction.opcode == "ret" || instruction.opcode == "exit";
}

// Instructions that end the whole grid, not one thread.
bool IsTrap(const Instruction& instruction) { return instruction.opcode == "trap"; }

bool IsBranch(const Instruction& instruction) {
  return instruction.opcode == "bra" || instruction.opcode == "brx";
}

// Builds the graph of one function: first the nodes, in the order of the text, then the edges, then the loops.
class Builder {
 public:
  FlowGraph Build(const Function& function) {
    graph_.nodes.emplace_back();
    if (function.body) AddScope(*function.body);
    Connect();
    MarkLoops();
    return std::move(graph_);
  }

 private:
  // Makes the next instruction begin a node, unless the last node has no instruction yet.
  void StartNode() {
    if (!graph_.nodes.back().instructions.empty() || ended_) graph_.nodes.emplace_back();
    ended_ = false;
  }

  // A label is known in its own scope and in the scopes within it; elsewhere its name may mean another label [PTX ISA
  // 4.4].
  struct Scope {
    std::unordered_map<std::string, uint32_t> labels;
    std::unordered_map<std::string, const std::vector<std::string>*> targets;
    size_t around;  // index of the scope around it, or kNoScope
  };

  void AddScope(const Block& block) {
    const size_t around = scope_;
    scope_ = scopes_.size();
    scopes_.push_back({{}, {}, around});
    AddStatements(block);
    scope_ = around;
  }

  void AddStatements(const Block& block) {
    for (const Statement& statement : block.statements) {
      if (const auto* label = std::get_if<Label>(&statement.node)) {
        StartNode();
        scopes_[scope_].labels[label->name] = static_cast<uint32_t>(graph_.nodes.size() - 1);
      } else if (const auto* instruction = std::get_if<Instruction>(&statement.node)) {
        if (ended_) StartNode();
        graph_.nodes.back().instructions.push_back(instruction);
        ended_ = IsLeave(*instruction) || IsTrap(*instruction) || IsBranch(*instruction);
        if (IsBranch(*instruction)) branch_scopes_[instruction] = scope_;
      } else if (const auto* inner = std::get_if<Block>(&statement.node)) {
        AddScope(*inner);
      } else if (const auto* list = std::get_if<TargetList>(&statement.node)) {
        scopes_[scope_].targets[list->label] = &list->targets;
      }
    }
  }

  // What a name means in a scope; nullptr where the name is not known there.
  template <typename Names>
  const typename Names::mapped_type* Find(Names Scope::* names, size_t scope, const std::string& name) const {
    for (; scope != kNoScope; scope = scopes_[scope].around) {
      const auto at = (scopes_[scope].*names).find(name);
      if (at != (scopes_[scope].*names).end()) return &at->second;
    }
    return nullptr;
  }

  // The nodes to which a branch may go. Returns false where they are not known.
  bool AddTargets(const Instruction& branch, std::vector<uint32_t>& next) const {
    bool known = !branch.operands.empty();
    if (!known) return false;
    const size_t from = branch_scopes_.at(&branch);
    const auto add = [&](const std::string& label) {
      const uint32_t* node = Find(&Scope::labels, from, label);
      if (node != nullptr) next.push_back(*node);
      return node != nullptr;
    };
    if (branch.opcode == "bra") return add(branch.operands[0].text);
    const auto* list = Find(&Scope::targets, from, branch.operands.back().text);
    if (list == nullptr) return false;
    for (const std::string& label : **list) known = add(label) && known;
    return known;
  }

  // Sets `next` and `leaves` of all nodes. A branch whose targets are not known may go to every node.
  void Connect() {
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      FlowNode& node = graph_.nodes[i];
      const Instruction* last = node.instructions.empty() ? nullptr : node.instructions.back();
      const bool ends = last != nullptr && (IsLeave(*last) || IsTrap(*last) || IsBranch(*last));
      const bool goes_on = !ends || last->guard.has_value();
      if (last != nullptr && IsLeave(*last)) node.leaves = true;
      if (last != nullptr && IsBranch(*last)) {
        if (!AddTargets(*last, node.next)) {
          for (uint32_t to = 0; to < graph_.nodes.size(); ++to) node.next.push_back(to);
        }
      }
      if (goes_on && i + 1 < graph_.nodes.size()) node.next.push_back(i + 1);
      if (goes_on && i + 1 == graph_.nodes.size()) node.leaves = true;
      std::sort(node.next.begin(), node.next.end());
      node.next.erase(std::unique(node.next.begin(), node.next.end()), node.next.end());
    }
  }

  // A node is in a loop when its strongly connected component has an edge inside (Tarjan's algorithm without
  // recursion, since bodies with tens of thousands of nodes occur).
  void MarkLoops() {
    const size_t count = graph_.nodes.size();
    std::vector<uint32_t> order(count, 0), low(count, 0), stack;
    std::vector<bool> on_stack(count, false);
    std::vector<std::pair<uint32_t, size_t>> work;
    uint32_t clock = 0;
    for (uint32_t root = 0; root < count; ++root) {
      if (order[root] != 0) continue;
      work.emplace_back(root, 0);
      while (!work.empty()) {
        const uint32_t node = work.back().first;
        if (work.back().second == 0 && order[node] == 0) {
          order[node] = low[node] = ++clock;
          stack.push_back(node);
          on_stack[node] = true;
        }
        if (work.back().second < graph_.nodes[node].next.size()) {
          const uint32_t to = graph_.nodes[node].next[work.back().second++];
          if (to == node) graph_.nodes[node].in_loop = true;
          if (order[to] == 0) {
            work.emplace_back(to, 0);
          } else if (on_stack[to]) {
            low[node] = std::min(low[node], order[to]);
          }
          continue;
        }
        work.pop_back();
        if (!work.empty()) low[work.back().first] = std::min(low[work.back().first], low[node]);
        if (low[node] == order[node]) CloseComponent(node, stack, on_stack);
      }
    }
  }

  // Takes a component, which ends with its root, from the stack. Marks its nodes if there are several.
  void CloseComponent(uint32_t root, std::vector<uint32_t>& stack, std::vector<bool>& on_stack) {
    const bool many = stack.back() != root;
    while (true) {
      const uint32_t node = stack.back();
      stack.pop_back();
      on_stack[node] = false;
      if (many) graph_.nodes[node].in_loop = true;
      if (node == root) return;
    }
  }

  FlowGraph graph_;
  bool ended_ = false;  // the last node ends with a branch, ret, exit or trap, so it takes no further instruction
  static constexpr size_t kNoScope = SIZE_MAX;
  size_t scope_ = kNoScope;  // the scope at the current place in the text
  std::vector<Scope> scopes_;
  std::unordered_map<const Instruction*, size_t> branch_scopes_;
};

// Marks the nodes that may come after a branch by one of its ways, up to and including the branch itself and the
// nodes that `stops` marks.
void MarkWay(const FlowGraph& graph, uint32_t branch, uint32_t from, std::vector<bool>& reached,
             const std::vector<bool>* stops = nullptr) {
  std::vector<uint32_t> work{from};
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    if (node == branch || (stops != nullptr && (*stops)[node])) continue;
    for (const uint32_t to : graph.nodes[node].next) work.push_back(to);
  }
}

// In larger functions following branches costs too much: if they have a barrier at all, both answers are yes.
constexpr size_t kMaxNodes = 3000;

// Finds which registers may differ between the threads that `threads` compares: what differs by itself (thread indices,
// atomics, shuffles), what is computed from such values, and what is set where a branch on such a value decides whether
// a thread comes there. A name counts as one register in all scopes. In doubt a register differs.
class Divergence {
 public:
  explicit Divergence(const FlowGraph& graph, Threads threads = Threads::kOfBlock,
                      bool params_differ = false)
      : graph_(graph), threads_(threads), params_differ_(params_differ) {
    meetings_ = FindMeetings(graph);
    FindThreadNumbers();
    controlled_.resize(graph.nodes.size(), false);
    followed_.resize(graph.nodes.size(), false);
    while (SpreadData() || SpreadControl()) {
    }
  }

  // Whether some of the threads may take a branch, or run a guarded instruction, that others do not.
  bool BranchDiffers(const Instruction& branch) const {
    if (branch.guard && differs_.contains(branch.guard->predicate)) return true;
    return branch.opcode == "brx" && !branch.operands.empty() && Differs(branch.operands[0]);
  }

 private:
  // Special registers that are the same for all threads of a block.
  static bool IsUniformSpecial(std::string_view name) {
    return name.starts_with("%ctaid") || name.starts_with("%nctaid") || name.starts_with("%ntid") ||
           name.starts_with("%gridid") || name.starts_with("%envreg") ||
           name.starts_with("%cluster_ctaid") || name.starts_with("%clusterid") ||
           name.starts_with("%nclusterid") || name.starts_with("%cluster_nctaid") ||
           name.starts_with("%dynamic_smem_size") || name.starts_with("%total_smem_size");
  }

  // Special registers that may differ between the threads, or from one read to the next.
  bool IsThreadSpecial(std::string_view name) const {
    if (name == "%warpid" && threads_ != Threads::kOfBlock) return false;
    if (threads_ == Threads::kOfWarpInRow && (name == "%tid.y" || name == "%tid.z")) return false;
    static const std::unordered_set<std::string_view> kNames = {
        "%laneid",         "%warpid",      "%lanemask_eq", "%lanemask_le",
        "%lanemask_lt",    "%lanemask_ge", "%lanemask_gt", "%clock",
        "%clock_hi",       "%clock64",     "%globaltimer", "%globaltimer_lo",
        "%globaltimer_hi", "%nwarpid",     "%smid",        "%nsmid"};
    return name.starts_with("%tid") || name.starts_with("%pm") || kNames.contains(name);
  }

  bool Differs(const Operand& operand) const {
    if (!operand.text.empty()) {
      if (IsThreadSpecial(operand.text)) return true;
      if (!IsUniformSpecial(operand.text) && differs_.contains(operand.text)) return true;
    }
    return std::any_of(operand.children.begin(), operand.children.end(),
                       [this](const Operand& child) { return Differs(child); });
  }

  // Whether the result may differ whatever the operands: it comes from other memory, other threads or unknown code.
  bool ResultDiffers(const Instruction& instruction) const {
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

  // Counts the names in a destination, which may have several: a vector, a pair, the results of a call. None are in an
  // address.
  static void CountNames(const Operand& destination, std::unordered_map<std::string, uint32_t>& counts) {
    if (destination.kind == Operand::Kind::kAddress) return;
    if (!destination.text.empty()) ++counts[destination.text];
    for (const Operand& child : destination.children) CountNames(child, counts);
  }

  // Finds registers that hold %tid.x and nothing else: one unguarded mov sets them.
  void FindThreadNumbers() {
    std::unordered_map<std::string, uint32_t> definitions;
    for (const FlowNode& node : graph_.nodes) {
      for (const Instruction* each : node.instructions) {
        if (each->operands.empty()) continue;
        CountNames(each->operands[0], definitions);
        if (each->opcode == "mov" && each->operands.size() == 2 && !each->guard &&
            each->operands[1].text == "%tid.x") {
          thread_numbers_.insert(each->operands[0].text);
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
  bool IsSameForWarp(const Instruction& each) const {
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
  bool Add(const Operand& destination) {
    bool added = false;
    if (!destination.text.empty()) added = differs_.insert(destination.text).second;
    for (const Operand& child : destination.children) added = Add(child) || added;
    return added;
  }

  // One pass over all instructions. Returns whether it found anything new that differs.
  bool SpreadData() {
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
  bool SpreadControl() {
    bool any = false;
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const FlowNode& node = graph_.nodes[i];
      if (followed_[i] || node.next.size() < 2 || node.instructions.empty()) continue;
      if (!BranchDiffers(*node.instructions.back())) continue;
      followed_[i] = true;
      if (meetings_[i] < graph_.nodes.size()) {
        const std::vector<bool> region = NodesBeforeMeeting(graph_, i, meetings_[i]);
        for (size_t k = 0; k < region.size(); ++k) {
          any = any || (region[k] && !controlled_[k]);
          controlled_[k] = controlled_[k] || region[k];
        }
        continue;
      }
      std::vector<uint32_t> ways(graph_.nodes.size(), 0);
      for (const uint32_t to : node.next) {
        std::vector<bool> reached(graph_.nodes.size(), false);
        MarkWay(graph_, i, to, reached);
        for (size_t k = 0; k < ways.size(); ++k) ways[k] += reached[k];
      }
      for (size_t k = 0; k < ways.size(); ++k) {
        const bool some = ways[k] != 0 && ways[k] != node.next.size();
        any = any || (some && !controlled_[k]);
        controlled_[k] = controlled_[k] || some;
      }
    }
    return any;
  }

  const FlowGraph& graph_;
  const Threads threads_;
  const bool params_differ_;
  std::unordered_set<std::string> differs_;         // registers that may differ, by name
  std::vector<uint32_t> meetings_;                  // by node: see FindMeetings
  std::unordered_set<std::string> thread_numbers_;  // see FindThreadNumbers
  // By node: whether some threads may run it less often than others; whether SpreadControl has followed its branch.
  std::vector<bool> controlled_, followed_;
};

// By node: whether it has a barrier.
std::vector<bool> FindBarriers(const FlowGraph& graph, const IsBarrier& is_barrier) {
  std::vector<bool> barriers(graph.nodes.size(), false);
  for (size_t i = 0; i < barriers.size(); ++i) {
    const auto& instructions = graph.nodes[i].instructions;
    barriers[i] = std::any_of(instructions.begin(), instructions.end(),
                              [&](const Instruction* each) { return is_barrier(*each); });
  }
  return barriers;
}

// What a branch looks like with regard to barriers.
struct Fork {
  bool has_own = false;      ///< some way has a barrier that another has not
  std::vector<bool> common;  ///< barriers that all ways may come to
};

// A way ends where it comes back to the branch. To leave the function at the branch is a way without barriers.
Fork LookAtFork(const FlowGraph& graph, uint32_t branch, const std::vector<bool>& barriers) {
  const FlowNode& node = graph.nodes[branch];
  const size_t ways = node.next.size() + (node.leaves ? 1 : 0);
  std::vector<uint32_t> by(graph.nodes.size(), 0);
  for (const uint32_t to : node.next) {
    std::vector<bool> reached(graph.nodes.size(), false);
    MarkWay(graph, branch, to, reached);
    for (size_t k = 0; k < by.size(); ++k) by[k] += reached[k];
  }
  Fork fork{.common = std::vector<bool>(graph.nodes.size(), false)};
  for (size_t k = 0; k < by.size(); ++k) {
    if (!barriers[k]) continue;
    fork.common[k] = by[k] == ways;
    fork.has_own = fork.has_own || (by[k] != 0 && by[k] != ways);
  }
  return fork;
}

// Whether some way of a branch leads out of the function without passing one of the `common` barriers.
bool LeadsOut(const FlowGraph& graph, uint32_t branch, const std::vector<bool>& common) {
  if (graph.nodes[branch].leaves) return true;
  for (const uint32_t to : graph.nodes[branch].next) {
    std::vector<bool> reached(graph.nodes.size(), false);
    MarkWay(graph, branch, to, reached, &common);
    for (size_t k = 0; k < reached.size(); ++k) {
      if (reached[k] && k != branch && !common[k] && graph.nodes[k].leaves) return true;
    }
  }
  return false;
}

// Whether threads may part behind the node.
bool IsFork(const FlowNode& node) {
  return node.next.size() + (node.leaves ? 1 : 0) >= 2 && !node.instructions.empty();
}

// Whether a barrier has a guard that differs between threads: threads without its predicate do not take that way.
bool HasGuardedBarrier(const FlowGraph& graph, const IsBarrier& is_barrier,
                       const Divergence& divergence) {
  for (const FlowNode& node : graph.nodes) {
    for (const Instruction* each : node.instructions) {
      if (each->guard && is_barrier(*each) && divergence.BranchDiffers(*each)) return true;
    }
  }
  return false;
}

// Whether the threads that a branch divides are together again before any of them comes to a barrier or leaves.
bool MeetsUnnoticed(const FlowGraph& graph, uint32_t branch, uint32_t meeting,
                    const IsBarrier& is_barrier) {
  if (meeting >= graph.nodes.size()) return false;
  const std::vector<bool> region = NodesBeforeMeeting(graph, branch, meeting);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& instructions = graph.nodes[i].instructions;
    if (region[i] && std::any_of(instructions.begin(), instructions.end(),
                                 [&](const Instruction* each) { return is_barrier(*each); })) {
      return false;
    }
  }
  return true;
}

}  // namespace

FlowGraph BuildFlowGraph(const Function& function) { return Builder().Build(function); }

bool HasEarlyReturn(const FlowGraph& graph, const IsBarrier& is_barrier, Threads threads) {
  const std::vector<bool> barriers = FindBarriers(graph, is_barrier);
  if (std::find(barriers.begin(), barriers.end(), true) == barriers.end()) return false;
  if (graph.nodes.size() > kMaxNodes) return true;
  const Divergence divergence(graph, threads);
  if (HasGuardedBarrier(graph, is_barrier, divergence)) return true;
  const std::vector<uint32_t> meetings = FindMeetings(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const FlowNode& node = graph.nodes[i];
    if (!IsFork(node) || !divergence.BranchDiffers(*node.instructions.back())) continue;
    if (MeetsUnnoticed(graph, i, meetings[i], is_barrier)) continue;
    const Fork fork = LookAtFork(graph, i, barriers);
    if (fork.has_own && LeadsOut(graph, i, fork.common)) return true;
  }
  return false;
}

bool HasDivergentBarrier(const FlowGraph& graph, const IsBarrier& is_barrier, bool params_differ) {
  const std::vector<bool> barriers = FindBarriers(graph, is_barrier);
  if (std::find(barriers.begin(), barriers.end(), true) == barriers.end()) return false;
  if (graph.nodes.size() > kMaxNodes) return true;
  const Divergence divergence(graph, Threads::kOfBlock, params_differ);
  if (HasGuardedBarrier(graph, is_barrier, divergence)) return true;
  const std::vector<uint32_t> meetings = FindMeetings(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const FlowNode& node = graph.nodes[i];
    if (!IsFork(node) || !divergence.BranchDiffers(*node.instructions.back())) continue;
    if (MeetsUnnoticed(graph, i, meetings[i], is_barrier)) continue;
    if (LookAtFork(graph, i, barriers).has_own) return true;
  }
  return false;
}

}  // namespace cupola::ptx
