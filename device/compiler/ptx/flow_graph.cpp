#include "device/compiler/ptx/flow_graph.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "device/compiler/ptx/divergence.h"
#include "device/compiler/ptx/post_dominators.h"

namespace cupola::ptx {
namespace {

bool IsLeave(const Instruction& instruction) {
  return instruction.opcode == "ret" || instruction.opcode == "exit";
}

// Whether what comes behind the instruction may not come after it. trap ends the whole grid, not one thread.
bool EndsNode(const Instruction& instruction) {
  return IsLeave(instruction) || IsBranch(instruction) || instruction.opcode == "trap";
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
        ended_ = EndsNode(*instruction);
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
      const bool goes_on = last == nullptr || !EndsNode(*last) || last->guard.has_value();
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

// In larger functions following branches costs too much: if they have a barrier at all, both answers are yes.
constexpr size_t kMaxNodes = 3000;

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
  const std::vector<uint32_t> by = CountWays(graph, branch);
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
    const std::vector<bool> reached = NodesOnWay(graph, branch, to, &common);
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
                    const std::vector<bool>& barriers) {
  if (meeting >= graph.nodes.size()) return false;
  const std::vector<bool> region = NodesBeforeMeeting(graph, branch, meeting);
  for (size_t i = 0; i < region.size(); ++i) {
    if (region[i] && barriers[i]) return false;
  }
  return true;
}

// Whether threads that part come to different barriers: a barrier's own guard divides them, or there is a fork that does
// so before they meet again, and that `counts`.
template <typename Counts>
bool AnyForkCounts(const FlowGraph& graph, const IsBarrier& is_barrier, Threads threads,
                   bool params_differ, Counts counts) {
  const std::vector<bool> barriers = FindBarriers(graph, is_barrier);
  if (std::find(barriers.begin(), barriers.end(), true) == barriers.end()) return false;
  if (graph.nodes.size() > kMaxNodes) return true;
  const Divergence divergence(graph, threads, params_differ);
  if (HasGuardedBarrier(graph, is_barrier, divergence)) return true;
  const std::vector<uint32_t> meetings = FindMeetings(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const FlowNode& node = graph.nodes[i];
    if (!IsFork(node) || !divergence.BranchDiffers(*node.instructions.back())) continue;
    if (MeetsUnnoticed(graph, i, meetings[i], barriers)) continue;
    const Fork fork = LookAtFork(graph, i, barriers);
    if (fork.has_own && counts(i, fork)) return true;
  }
  return false;
}

}  // namespace

bool IsBranch(const Instruction& instruction) {
  return instruction.opcode == "bra" || instruction.opcode == "brx";
}

FlowGraph BuildFlowGraph(const Function& function) { return Builder().Build(function); }

bool HasEarlyReturn(const FlowGraph& graph, const IsBarrier& is_barrier, Threads threads) {
  return AnyForkCounts(graph, is_barrier, threads, /*params_differ=*/false, [&](uint32_t branch, const Fork& fork) {
    return LeadsOut(graph, branch, fork.common);
  });
}

bool HasDivergentBarrier(const FlowGraph& graph, const IsBarrier& is_barrier, bool params_differ) {
  return AnyForkCounts(graph, is_barrier, Threads::kOfBlock, params_differ,
                       [](uint32_t, const Fork&) { return true; });
}

}  // namespace cupola::ptx
