#include "device/compiler/ptx/waits.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "device/compiler/ptx/components.h"
#include "device/compiler/ptx/loop_values.h"
#include "device/compiler/ptx/post_dominators.h"

namespace cupola::ptx {
namespace {

using Nodes = std::vector<uint32_t>;  // ascending

// In functions with more nodes, or with more regions of loops to look at, loops are not followed:
// the function counts as one that waits.
constexpr size_t kMostNodes = 20'000;
constexpr size_t kMostRegions = 2'000;
// In functions with more nodes it is not followed which branch decides about which instruction. In
// a loop with a branch inside, any value that is read again then counts as deciding the loop's end.
constexpr size_t kMostNodesForBranches = 3'000;

// Answers FindWait for one function. waits.h says when a function waits. A loop is a strongly
// connected component of the graph, and a region is what is left of a loop without some nodes. To
// advance is to change with each round of the loop, as a counter does (loop_values.h).
class Waits {
 public:
  Waits(const Function& function, const FlowGraph& graph, CallEffects& calls)
      : function_(function), graph_(graph), calls_(calls), flow_(calls.FlowOf(function)) {}

  std::string Find() {
    AddRecursion();
    next_.resize(graph_.nodes.size());
    for (uint32_t i = 0; i < next_.size(); ++i) {
      next_[i] = graph_.nodes[i].next;
      if (calls_itself_[i]) next_[i].push_back(0);
    }
    Nodes all(next_.size());
    for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    const std::vector<Nodes> loops = FindComponents(next_, all);
    if (std::string why = FindStrong(loops); !why.empty()) return why;
    if (graph_.nodes.size() <= kMostNodesForBranches) meetings_ = FindMeetings(graph_);
    for (const Nodes& loop : loops) {
      if (std::string why = Look(loop, true); !why.empty()) return why;
    }
    return "";
  }

 private:
  // Marks the nodes that call the function itself: the function's beginning follows them.
  void AddRecursion() {
    calls_itself_.resize(graph_.nodes.size(), false);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const Instruction* each : graph_.nodes[i].instructions) {
        if (each->opcode != "call") continue;
        const Operand* callee = FindCallee(*each);
        if (callee != nullptr && callee->text == function_.name) calls_itself_[i] = true;
      }
    }
  }

  std::string FindStrong(const std::vector<Nodes>& loops) {
    const CallEffect& own = calls_.EffectOf(function_);
    if (own.is_recursive) {
      if (!own.strong.empty()) return own.strong + " in functions that call one another";
      if (own.reads || own.reads_by != 0) return "functions that call one another read memory";
    }
    std::set<const Instruction*> strong;
    for (const Instruction* each : calls_.FindStrongReads(function_)) strong.insert(each);
    for (const Nodes& loop : loops) {
      for (const uint32_t node : loop) {
        for (const Instruction* each : graph_.nodes[node].instructions) {
          if (strong.contains(each)) return NameOfRead(*each) + " in a loop";
          if (each->opcode != "call") continue;
          const CallEffect* effect = calls_.EffectOf(*each);
          if (effect == nullptr || effect->strong.empty()) continue;
          return effect->strong + " in " + Callee(*each) + ", which a loop calls";
        }
      }
    }
    return "";
  }

  static std::string Callee(const Instruction& call) {
    const Operand* callee = FindCallee(call);
    const bool known = callee != nullptr && !callee->text.empty() && callee->text[0] != '%';
    return known ? callee->text : "a function";
  }

  // Why the function may wait in this loop or in those inside it; "": it does not. `is_whole`: the
  // nodes are all of a loop of the function, not only some ways round it.
  std::string Look(const Nodes& loop, bool is_whole) {
    if (!seen_.emplace(loop, is_whole).second) return "";
    if (seen_.size() > kMostRegions || graph_.nodes.size() > kMostNodes) {
      return "loops that are too tangled to tell";
    }
    const LoopValues values(graph_, flow_, loop);
    const Decisions decisions = FindDecisions(loop, values);
    if (is_whole) {
      if (std::string why = EndsByRead(decisions, values); !why.empty()) return why;
    }
    const std::vector<Nodes> progress = values.ProgressNodes(decisions.relevant);
    if (progress.empty()) {
      if (const Step* read = decisions.read) return Reason(*read);
    } else {
      // A way round the loop on which the loop's end does not advance leaves out a node of each
      // group that advances. So it is enough to look at the ways without one node, for each node of
      // the smallest group.
      const auto fewest = std::min_element(
          progress.begin(), progress.end(),
          [](const Nodes& one, const Nodes& other) { return one.size() < other.size(); });
      for (const uint32_t node : *fewest) {
        if (std::string why = LookWithout(loop, {node}, false); !why.empty()) return why;
      }
    }
    return LookWithout(loop, Headers(loop), is_whole);  // the loops inside this one
  }

  // Looks at the loops that are left when the nodes `without` are taken out of a loop.
  std::string LookWithout(const Nodes& loop, const Nodes& without, bool is_whole) {
    Nodes rest;
    std::set_difference(loop.begin(), loop.end(), without.begin(), without.end(),
                        std::back_inserter(rest));
    for (const Nodes& inner : FindComponents(next_, rest)) {
      if (std::string why = Look(inner, is_whole); !why.empty()) return why;
    }
    return "";
  }

  // The nodes at which the loop is entered. If there is none, its first node.
  Nodes Headers(const Nodes& loop) const {
    Nodes headers;
    for (uint32_t from = 0; from < next_.size(); ++from) {
      if (std::binary_search(loop.begin(), loop.end(), from)) continue;
      for (const uint32_t to : next_[from]) {
        if (std::binary_search(loop.begin(), loop.end(), to)) headers.push_back(to);
      }
    }
    if (loop.front() == 0) headers.push_back(0);
    std::sort(headers.begin(), headers.end());
    headers.erase(std::unique(headers.begin(), headers.end()), headers.end());
    if (headers.empty()) headers.push_back(loop.front());
    return headers;
  }

  // What decides whether a loop goes on. A variable is a number of DataFlow's.
  struct Decisions {
    Nodes exits;                 // nodes by whose branches it may end
    Nodes branches;              // other nodes that branch
    std::vector<bool> relevant;  // by variable: it has a part in the decision
    const Step* read = nullptr;  // a read that decides, from an address that stays the same
  };

  bool IsExit(const Nodes& loop, uint32_t node) const {
    const FlowNode& each = graph_.nodes[node];
    const bool may_go_elsewhere = next_[node].size() + (each.leaves ? 1 : 0) > 1;
    if (!may_go_elsewhere || each.instructions.empty()) return false;
    if (each.leaves) return true;
    return std::any_of(next_[node].begin(), next_[node].end(), [&](uint32_t to) {
      return !std::binary_search(loop.begin(), loop.end(), to);
    });
  }

  // The variables by which a branch decides: its guard, an index.
  std::vector<uint32_t> ConditionOf(uint32_t node) const {
    const auto steps = flow_.steps.find(graph_.nodes[node].instructions.back());
    std::vector<uint32_t> condition;
    if (steps == flow_.steps.end()) return condition;
    for (const Step& step : steps->second) {
      if (step.guard >= 0) condition.push_back(static_cast<uint32_t>(step.guard));
      condition.insert(condition.end(), step.uses.begin(), step.uses.end());
    }
    return condition;
  }

  // By node: whether the branch decides if the node is run.
  const std::vector<bool>& DecidedBy(uint32_t branch) {
    auto& region = decided_[branch];
    if (region.empty()) region = NodesBeforeMeeting(graph_, branch, meetings_[branch]);
    return region;
  }

  // What decides about the variables in `work`: all variables of which they are made in the loop,
  // and the variables by which branches inside the loop decide that one of these is set.
  struct Closure {
    std::vector<bool> variables;
    Nodes branches;
  };
  Closure Close(std::vector<uint32_t> work, const Nodes& branches, const LoopValues& values) {
    Closure closure{.variables = std::vector<bool>(flow_.variables, false), .branches = {}};
    std::vector<bool> followed(graph_.nodes.size(), false);
    while (!work.empty()) {
      const uint32_t variable = work.back();
      work.pop_back();
      if (closure.variables[variable]) continue;
      closure.variables[variable] = true;
      for (const LoopValues::Definition& each : values.DefinitionsOf(variable)) {
        work.insert(work.end(), each.step->uses.begin(), each.step->uses.end());
        if (each.step->guard >= 0) work.push_back(static_cast<uint32_t>(each.step->guard));
        if (meetings_.empty()) continue;
        for (const uint32_t branch : branches) {
          if (followed[branch] || !DecidedBy(branch)[each.node]) continue;
          followed[branch] = true;
          closure.branches.push_back(branch);
          const std::vector<uint32_t> more = ConditionOf(branch);
          work.insert(work.end(), more.begin(), more.end());
        }
      }
    }
    return closure;
  }

  Decisions FindDecisions(const Nodes& loop, const LoopValues& values) {
    Decisions decisions;
    std::vector<uint32_t> conditions;
    for (const uint32_t node : loop) {
      if (IsExit(loop, node)) {
        decisions.exits.push_back(node);
        const std::vector<uint32_t> more = ConditionOf(node);
        conditions.insert(conditions.end(), more.begin(), more.end());
      } else if (next_[node].size() > 1 && !graph_.nodes[node].instructions.empty()) {
        decisions.branches.push_back(node);
      }
    }
    decisions.relevant = Close(conditions, decisions.branches, values).variables;
    const std::vector<uint32_t> read_again = values.ReadAgain();
    for (const uint32_t variable : read_again) {
      if (decisions.relevant[variable]) decisions.read = values.ReadBehind(variable);
    }
    const bool unknown = meetings_.empty() && !decisions.branches.empty();
    if (unknown && decisions.read == nullptr && !read_again.empty()) {
      decisions.read = values.ReadBehind(read_again.front());
    }
    return decisions;
  }

  // A condition: the variables that one predicate is made of, or one comparison that is combined with a predicate.
  using Condition = std::vector<uint32_t>;

  // Whether a definition makes a predicate of others by logic alone.
  static bool IsLogic(const Step& step) {
    const Instruction& made_by = *step.instruction;
    return step.guard < 0 && made_by.HasModifier("pred") &&
           (made_by.opcode == "and" || made_by.opcode == "or" || made_by.opcode == "xor" || made_by.opcode == "not" ||
            made_by.opcode == "mov");
  }

  // Whether a definition is a comparison that is combined with a predicate, its last operand (setp.lt.and).
  static bool IsCombined(const Step& step) {
    const Instruction& made_by = *step.instruction;
    return step.guard < 0 && made_by.opcode == "setp" && made_by.operands.size() == 4 && !step.uses.empty() &&
           made_by.operands[3].kind == Operand::Kind::kName;
  }

  // Adds the conditions of which a predicate is made by "and", "or", "xor" and "not".
  void AddConditions(uint32_t predicate, const LoopValues& values, std::set<Condition>& parts) const {
    const auto& definitions = values.DefinitionsOf(predicate);
    const bool is_made = !definitions.empty() && std::all_of(definitions.begin(), definitions.end(), [](const auto& each) {
      return IsLogic(*each.step) || IsCombined(*each.step);
    });
    if (!parts.insert({predicate}).second || !is_made) return;
    for (const auto& each : definitions) {
      const std::vector<uint32_t>& uses = each.step->uses;
      if (IsCombined(*each.step)) {
        parts.emplace(uses.begin(), uses.end() - 1);
        AddConditions(uses.back(), values, parts);
      } else {
        for (const uint32_t use : uses) AddConditions(use, values, parts);
      }
    }
  }

  // The read that alone decides one of the conditions of a branch; null where there is none, or
  // where each such condition also advances. Sets `advances` if any condition advances.
  const Step* ReadAlone(uint32_t branch, const LoopValues& values, bool* advances) const {
    std::set<Condition> parts;
    for (const uint32_t variable : ConditionOf(branch)) AddConditions(variable, values, parts);
    const Step* read = nullptr;
    for (const Condition& part : parts) {
      const bool has_progress =
          std::any_of(part.begin(), part.end(), [&](uint32_t each) { return values.HasProgress(each); });
      *advances |= has_progress;
      for (const uint32_t each : part) {
        if (!has_progress && read == nullptr) read = values.ReadBehind(each);
      }
    }
    return read;
  }

  // Why some exit depends on nothing but what is read again, or on what is set where such a branch
  // decides; "": none.
  std::string EndsByRead(const Decisions& decisions, const LoopValues& values) {
    for (const uint32_t exit : decisions.exits) {
      bool advances = false;
      if (const Step* read = ReadAlone(exit, values, &advances)) return Reason(*read);
      if (advances) continue;
      for (const uint32_t branch : Close(ConditionOf(exit), decisions.branches, values).branches) {
        bool also_advances = false;
        const Step* read = ReadAlone(branch, values, &also_advances);
        if (read != nullptr) return Reason(*read);
      }
    }
    return "";
  }

  std::string Reason(const Step& read) const {
    const std::string way = CallsItself() ? "a function that calls itself" : "a loop";
    if (read.instruction->opcode == "call") {
      return way + " ends by what " + Callee(*read.instruction) + " reads each time";
    }
    return way + " ends by what " + NameOfRead(*read.instruction) + " reads each time";
  }
  bool CallsItself() const {
    return std::find(calls_itself_.begin(), calls_itself_.end(), true) != calls_itself_.end();
  }

  const Function& function_;
  const FlowGraph& graph_;
  CallEffects& calls_;
  const DataFlow& flow_;
  std::vector<bool> calls_itself_;  // by node
  // By node: those that may follow it. The first node follows a call of the function to itself.
  std::vector<Nodes> next_;
  std::vector<uint32_t> meetings_;  // by node, as FindMeetings gives them; empty: not followed
  std::map<uint32_t, std::vector<bool>> decided_;  // answers of DecidedBy so far, by branch
  std::set<std::pair<Nodes, bool>> seen_;          // arguments of Look so far
};

}  // namespace

std::string FindWait(const Function& function, const FlowGraph& graph, CallEffects& calls) {
  return Waits(function, graph, calls).Find();
}

}  // namespace cupola::ptx
