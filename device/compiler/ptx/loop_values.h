// How the variables of a loop change while it goes round (variables: data_flow.h): by themselves,
// or by what is read again and again from where it may be changed by others. Internal to the
// folder. Borrows from the flow. Pure.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "device/compiler/ptx/data_flow.h"
#include "device/compiler/ptx/flow_graph.h"

namespace cupola::ptx {

class LoopValues {
 public:
  struct Definition {
    const Step* step = nullptr;
    uint32_t node = 0;
  };

  /// `loop`: nodes of the graph, ascending.
  LoopValues(const FlowGraph& graph, const DataFlow& flow, const std::vector<uint32_t>& loop);

  /// All that set a variable in the loop.
  const std::vector<Definition>& DefinitionsOf(uint32_t variable) const;
  /// Whether it depends on a value that advances with each round (a counter, an element of a list).
  bool HasProgress(uint32_t variable) const { return progress_[variable]; }
  /// The read of memory of others, from an address that does not advance, on which it depends; null
  /// where there is none.
  const Step* ReadBehind(uint32_t variable) const { return read_[variable]; }
  /// The variables that have one.
  std::vector<uint32_t> ReadAgain() const;
  /// For each group of variables that advance together and of which one is `relevant`: the nodes
  /// that take part. A way round the loop that leaves out one of them may not advance.
  std::vector<std::vector<uint32_t>> ProgressNodes(const std::vector<bool>& relevant) const;

 private:
  struct Group {
    std::vector<uint32_t> variables, nodes;
  };

  bool IsDefined(uint32_t variable) const { return definitions_.contains(variable); }
  bool IsSame(const Step& step) const;
  void FindSame();
  bool IsSetBack(uint32_t variable) const;
  bool Carries(const Definition& definition) const;
  bool IsOwnMemory(const Step& load) const;
  bool IsReadAgain(const Step& step) const;
  bool FindGroups();
  void Spread();
  bool Kill();

  std::vector<Definition> all_;
  std::unordered_map<uint32_t, std::vector<Definition>> definitions_;  // by variable
  std::vector<const Step*> stores_;
  std::vector<bool> killed_;  // by place in all_: it may leave what it sets as it was
  std::vector<Group> groups_;
  std::vector<bool> same_;            // by variable: made of what is the same in all rounds
  std::vector<bool> progress_;        // by variable
  std::vector<const Step*> read_;     // by variable
  std::vector<bool> chosen_by_read_;  // by variable: no more than yes or no of what was read
};

}  // namespace cupola::ptx
