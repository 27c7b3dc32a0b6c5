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

// The end of the whole grid, not of one thread.
bool IsTrap(const Instruction& instruction) { return instruction.opcode == "trap"; }

bool IsBranch(const Instruction& instruction) {
  return instruction.opcode == "bra" || instruction.opcode == "brx";
}

class Builder {
 public:
  FlowGraph Build(const Function& function) {
    graph_.nodes.emplace_back();
    if (function.body) AddStatements(*function.body);
    Connect();
    MarkLoops();
    return std::move(graph_);
  }

 private:
  void StartNode() {
    if (!graph_.nodes.back().instructions.empty() || ended_) graph_.nodes.emplace_back();
    ended_ = false;
  }

  void AddStatements(const Block& block) {
    for (const Statement& statement : block.statements) {
      if (const auto* label = std::get_if<Label>(&statement.node)) {
        StartNode();
        labels_[label->name] = static_cast<uint32_t>(graph_.nodes.size() - 1);
      } else if (const auto* instruction = std::get_if<Instruction>(&statement.node)) {
        if (ended_) StartNode();
        graph_.nodes.back().instructions.push_back(instruction);
        ended_ = IsLeave(*instruction) || IsTrap(*instruction) || IsBranch(*instruction);
      } else if (const auto* inner = std::get_if<Block>(&statement.node)) {
        AddStatements(*inner);
      } else if (const auto* list = std::get_if<TargetList>(&statement.node)) {
        targets_[list->label] = &list->targets;
      }
    }
  }

  // The nodes that a branch may go to; false where that is not known.
  bool AddTargets(const Instruction& branch, std::vector<uint32_t>& next) const {
    bool known = !branch.operands.empty();
    const auto add = [&](const std::string& label) {
      const auto at = labels_.find(label);
      if (at == labels_.end()) return false;
      next.push_back(at->second);
      return true;
    };
    if (!known) return false;
    if (branch.opcode == "bra") return add(branch.operands[0].text);
    const auto list = targets_.find(branch.operands.back().text);
    if (list == targets_.end()) return false;
    for (const std::string& label : *list->second) known = add(label) && known;
    return known;
  }

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

  // A node is in a loop when its strongly connected component has an edge inside (Tarjan, without
  // recursion: bodies of tens of thousands of nodes occur).
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
  bool ended_ = false;
  std::unordered_map<std::string, uint32_t> labels_;
  std::unordered_map<std::string, const std::vector<std::string>*> targets_;
};

// Which registers may differ between the threads of a block.
class Divergence {
 public:
  explicit Divergence(const FlowGraph& graph, bool params_differ = false)
      : graph_(graph), params_differ_(params_differ) {
    // Above this the cost of following branches is not worth it: all branches may differ.
    constexpr size_t kMaxNodes = 3000;
    if (graph.nodes.size() > kMaxNodes) {
      all_ = true;
      return;
    }
    meetings_ = FindMeetings(graph);
    controlled_.resize(graph.nodes.size(), false);
    followed_.resize(graph.nodes.size(), false);
    while (SpreadData() || SpreadControl()) {
    }
  }

  bool BranchDiffers(const Instruction& branch) const {
    if (all_) return true;
    if (branch.guard && differs_.contains(branch.guard->predicate)) return true;
    return branch.opcode == "brx" && !branch.operands.empty() && Differs(branch.operands[0]);
  }

 private:
  static bool IsUniformSpecial(std::string_view name) {
    return name.starts_with("%ctaid") || name.starts_with("%nctaid") || name.starts_with("%ntid") ||
           name.starts_with("%gridid") || name.starts_with("%envreg") ||
           name.starts_with("%cluster_ctaid") || name.starts_with("%clusterid") ||
           name.starts_with("%nclusterid") || name.starts_with("%cluster_nctaid") ||
           name.starts_with("%dynamic_smem_size") || name.starts_with("%total_smem_size");
  }

  static bool IsThreadSpecial(std::string_view name) {
    static const std::unordered_set<std::string_view> kNames = {
        "%laneid",         "%warpid",      "%lanemask_eq", "%lanemask_le",
        "%lanemask_lt",    "%lanemask_ge", "%lanemask_gt", "%clock",
        "%clock_hi",       "%clock64",     "%globaltimer", "%globaltimer_lo",
        "%globaltimer_hi", "%nwarpid",     "%smid",        "%nsmid"};
    return name.starts_with("%tid") || kNames.contains(name);
  }

  bool Differs(const Operand& operand) const {
    if (!operand.text.empty()) {
      if (IsThreadSpecial(operand.text)) return true;
      if (!IsUniformSpecial(operand.text) && differs_.contains(operand.text)) return true;
    }
    return std::any_of(operand.children.begin(), operand.children.end(),
                       [this](const Operand& child) { return Differs(child); });
  }

  // Results that may differ whatever the operands: other memory, other threads, unknown code.
  bool ResultDiffers(const Instruction& instruction) const {
    static const std::unordered_set<std::string_view> kOpcodes = {
        "atom", "shfl", "vote", "match",    "redux",    "call", "activemask", "elect", "tex",
        "tld4", "suld", "ldu",  "mbarrier", "ldmatrix", "mma",  "wmma",       "wgmma", "ld"};
    if (!kOpcodes.contains(instruction.opcode)) return false;
    if (instruction.opcode != "ld") return true;
    if (instruction.HasModifier("param")) return params_differ_;
    return !instruction.HasModifier("const");
  }

  bool Add(const Operand& destination) {
    bool added = false;
    if (!destination.text.empty()) added = differs_.insert(destination.text).second;
    for (const Operand& child : destination.children) added = Add(child) || added;
    return added;
  }

  // One pass over all instructions; says whether anything new differs.
  bool SpreadData() {
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const Instruction* instruction : graph_.nodes[i].instructions) {
        if (instruction->operands.empty() || instruction->opcode == "st") continue;
        // What a barrier reduces is the same for all who meet there.
        if (instruction->opcode == "bar" || instruction->opcode == "barrier") continue;
        bool differs = ResultDiffers(*instruction) || controlled_[i] ||
                       (instruction->guard && differs_.contains(instruction->guard->predicate));
        for (size_t k = 1; k < instruction->operands.size() && !differs; ++k) {
          differs = Differs(instruction->operands[k]);
        }
        if (differs && !IsBranch(*instruction)) any = Add(instruction->operands[0]) || any;
      }
    }
    return any;
  }

  std::vector<bool> ReachWithout(uint32_t from, uint32_t without) const {
    std::vector<bool> reached(graph_.nodes.size(), false);
    std::vector<uint32_t> work{from};
    while (!work.empty()) {
      const uint32_t node = work.back();
      work.pop_back();
      if (node == without || reached[node]) continue;
      reached[node] = true;
      for (const uint32_t to : graph_.nodes[node].next) work.push_back(to);
    }
    return reached;
  }

  // What only some of the threads run after a branch that differs, or some more often than others:
  // all before its ways meet again. Where they meet only at the end, what is reachable by one of
  // its ways and not by another, before coming back to the branch.
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
        const std::vector<bool> reached = ReachWithout(to, i);
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
  const bool params_differ_;
  bool all_ = false;
  std::unordered_set<std::string> differs_;
  std::vector<uint32_t> meetings_;
  std::vector<bool> controlled_, followed_;
};

// For each node: whether from its start a thread may leave without a barrier, or come to one.
struct Paths {
  std::vector<bool> leaves_free, meets_barrier;
};

Paths FindPaths(const FlowGraph& graph, const IsBarrier& is_barrier) {
  const size_t count = graph.nodes.size();
  Paths paths{std::vector<bool>(count, false), std::vector<bool>(count, false)};
  std::vector<bool> has_barrier(count, false);
  for (size_t i = 0; i < count; ++i) {
    const auto& instructions = graph.nodes[i].instructions;
    has_barrier[i] = std::any_of(instructions.begin(), instructions.end(),
                                 [&](const Instruction* each) { return is_barrier(*each); });
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = count; i-- > 0;) {
      const FlowNode& node = graph.nodes[i];
      bool free = node.leaves;
      bool meets = has_barrier[i];
      for (const uint32_t to : node.next) {
        free = free || paths.leaves_free[to];
        meets = meets || paths.meets_barrier[to];
      }
      free = free && !has_barrier[i];
      changed = changed || free != paths.leaves_free[i] || meets != paths.meets_barrier[i];
      paths.leaves_free[i] = free;
      paths.meets_barrier[i] = meets;
    }
  }
  return paths;
}

// Marks what may come after a branch by one of its ways, up to the branch itself.
void MarkWay(const FlowGraph& graph, uint32_t branch, uint32_t from, std::vector<bool>& reached) {
  std::vector<uint32_t> work{from};
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    if (node == branch) continue;
    for (const uint32_t to : graph.nodes[node].next) work.push_back(to);
  }
}

// Whether the threads that a branch divides are together again before any of them comes to a
// barrier or leaves.
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

bool HasEarlyReturn(const FlowGraph& graph, const IsBarrier& is_barrier) {
  const Paths paths = FindPaths(graph, is_barrier);
  const std::vector<uint32_t> meetings = FindMeetings(graph);
  std::vector<const Instruction*> candidates;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const FlowNode& node = graph.nodes[i];
    const bool two_ways = node.next.size() + (node.leaves ? 1 : 0) >= 2;
    if (!two_ways || node.instructions.empty()) continue;
    bool some_leave = node.leaves;
    bool some_meet = false;
    for (const uint32_t to : node.next) {
      some_leave = some_leave || paths.leaves_free[to];
      some_meet = some_meet || paths.meets_barrier[to];
    }
    if (!some_leave || !some_meet || MeetsUnnoticed(graph, i, meetings[i], is_barrier)) continue;
    candidates.push_back(node.instructions.back());
  }
  if (candidates.empty()) return false;
  const Divergence divergence(graph);
  return std::any_of(candidates.begin(), candidates.end(),
                     [&](const Instruction* branch) { return divergence.BranchDiffers(*branch); });
}

bool HasDivergentBarrier(const FlowGraph& graph, const IsBarrier& is_barrier, bool params_differ) {
  std::vector<uint32_t> barriers;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& instructions = graph.nodes[i].instructions;
    if (std::any_of(instructions.begin(), instructions.end(),
                    [&](const Instruction* each) { return is_barrier(*each); })) {
      barriers.push_back(i);
    }
  }
  if (barriers.empty()) return false;
  // A guarded barrier is a branch of its own.
  for (const uint32_t node : barriers) {
    for (const Instruction* each : graph.nodes[node].instructions) {
      if (each->guard && is_barrier(*each)) return true;
    }
  }
  const Divergence divergence(graph, params_differ);
  const std::vector<uint32_t> meetings = FindMeetings(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const FlowNode& node = graph.nodes[i];
    const size_t ways = node.next.size() + (node.leaves ? 1 : 0);
    if (ways < 2 || node.instructions.empty()) continue;
    if (!divergence.BranchDiffers(*node.instructions.back())) continue;
    if (MeetsUnnoticed(graph, i, meetings[i], is_barrier)) continue;
    std::vector<uint32_t> by(graph.nodes.size(), 0);
    for (const uint32_t to : node.next) {
      std::vector<bool> reached(graph.nodes.size(), false);
      MarkWay(graph, i, to, reached);
      for (size_t k = 0; k < by.size(); ++k) by[k] += reached[k];
    }
    for (const uint32_t barrier : barriers) {
      if (by[barrier] != 0 && by[barrier] != ways) return true;
    }
  }
  return false;
}

}  // namespace cupola::ptx
