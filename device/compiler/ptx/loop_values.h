// How the variables of a loop (variables: data_flow.h) change from round to round: by themselves,
// or by what the loop reads again and again from memory that others may change. waits.h uses it.
// Internal to the folder. Borrows from the flow. Pure.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "device/compiler/ptx/data_flow.h"
#include "device/compiler/ptx/flow_graph.h"

namespace cupola::ptx {

class LoopValues {
 public:
  /// An instruction of the loop that sets a variable.
  struct Definition {
    const Step* step = nullptr;
    uint32_t node = 0;
  };

  /// Analyses a loop, whose nodes of the graph are given in ascending order.
  LoopValues(const FlowGraph& graph, const DataFlow& flow, const std::vector<uint32_t>& loop);

  /// All definitions of a variable in the loop.
  const std::vector<Definition>& DefinitionsOf(uint32_t variable) const;
  /// Whether it depends on a value that advances with each round (a counter, an element of a list).
  bool HasProgress(uint32_t variable) const { return progress_[variable]; }
  /// The read on which the variable depends: of memory that others may change, from an address that
  /// does not advance. Null where there is none.
  const Step* ReadBehind(uint32_t variable) const { return read_[variable]; }
  /// The variables for which ReadBehind is not null.
  std::vector<uint32_t> ReadAgain() const;
  /// One entry for each group of variables that advance together and of which one is `relevant`:
  /// the nodes that take part in the advance. A way round the loop that leaves out one of these
  /// nodes may not advance.
  std::vector<std::vector<uint32_t>> ProgressNodes(const std::vector<bool>& relevant) const;

 private:
  /// Variables that advance together, and the nodes that make them advance.
  struct Group {
    std::vector<uint32_t> variables;
    std::vector<uint32_t> nodes;
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
  std::unordered_map<uint32_t, std::vector<Definition>> definitions_;  ///< by variable
  std::vector<const Step*> stores_;
  std::vector<bool> killed_;  ///< by index in all_: the definition may leave its variable as it was
  std::vector<Group> groups_;
  std::vector<bool> same_;            ///< by variable: made only of what is the same in all rounds
  std::vector<bool> progress_;        ///< by variable: HasProgress
  std::vector<const Step*> read_;     ///< by variable: ReadBehind
  std::vector<bool> chosen_by_read_;  ///< by variable: only a yes or no about what was read
};

}  // namespace cupola::ptx
