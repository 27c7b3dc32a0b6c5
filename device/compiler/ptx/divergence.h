// Which values of a PTX function may differ between threads that run it together, and so at which branches these threads
// may part. HasEarlyReturn and HasDivergentBarrier (flow_graph.h) ask that. Internal to the folder. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "device/compiler/ptx/flow_graph.h"

namespace cupola::ptx {

/// Finds which registers may differ between the threads that `threads` compares: what differs by itself (thread indices,
/// atomics, shuffles), what is computed from such values, and what is set where a branch on such a value decides whether
/// a thread comes there. A name counts as one register in all scopes. In doubt a register differs. The constructor finds
/// all of that. Borrows the graph.
class Divergence {
 public:
  /// `params_differ`: the function's parameters may differ from thread to thread.
  Divergence(const FlowGraph& graph, Threads threads, bool params_differ);

  /// Whether some of the threads may take a branch, or run a guarded instruction, that others do not.
  bool BranchDiffers(const Instruction& branch) const;

 private:
  bool IsThreadSpecial(std::string_view name) const;
  bool Differs(const Operand& operand) const;
  bool ResultDiffers(const Instruction& instruction) const;
  void FindThreadNumbers();
  bool IsSameForWarp(const Instruction& each) const;
  bool Add(const Operand& destination);
  bool SpreadData();
  bool SpreadControl();

  const FlowGraph& graph_;
  const Threads threads_;
  const bool params_differ_;
  std::unordered_set<std::string> differs_;         // registers that may differ, by name
  std::vector<uint32_t> meetings_;                  // by node: see FindMeetings
  std::unordered_set<std::string> thread_numbers_;  // see FindThreadNumbers
  // By node: whether some threads may run it less often than others; whether SpreadControl has followed its branch.
  std::vector<bool> controlled_, followed_;
};

}  // namespace cupola::ptx
