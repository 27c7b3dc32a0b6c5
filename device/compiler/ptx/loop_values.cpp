#include "device/compiler/ptx/loop_values.h"

#include <algorithm>

#include "device/compiler/ptx/components.h"

namespace cupola::ptx {

LoopValues::LoopValues(const FlowGraph& graph, const DataFlow& flow,
                       const std::vector<uint32_t>& loop) {
  for (const uint32_t node : loop) {
    for (const Instruction* instruction : graph.nodes[node].instructions) {
      const auto steps = flow.steps.find(instruction);
      if (steps == flow.steps.end()) continue;
      for (const Step& step : steps->second) {
        all_.push_back({&step, node});
        for (const uint32_t to : step.sets) definitions_[to].push_back(all_.back());
        if (step.writes && instruction->opcode != "call") stores_.push_back(&step);
      }
    }
  }
  killed_.resize(all_.size(), false);
  progress_.resize(flow.variables, false);
  read_.resize(flow.variables, nullptr);
  chosen_by_read_.resize(flow.variables, false);
  same_.resize(flow.variables, false);
  FindSame();
  // Each round of this search knows more definitions that may leave their variable as it was.
  do {
    FindGroups();
    Spread();
  } while (Kill());
}

const std::vector<LoopValues::Definition>& LoopValues::DefinitionsOf(uint32_t variable) const {
  static const std::vector<Definition> kNone;
  const auto at = definitions_.find(variable);
  return at == definitions_.end() ? kNone : at->second;
}

std::vector<uint32_t> LoopValues::ReadAgain() const {
  std::vector<uint32_t> variables;
  for (uint32_t i = 0; i < read_.size(); ++i) {
    if (read_[i] != nullptr) variables.push_back(i);
  }
  return variables;
}

std::vector<std::vector<uint32_t>> LoopValues::ProgressNodes(
    const std::vector<bool>& relevant) const {
  std::vector<std::vector<uint32_t>> nodes;
  for (const Group& group : groups_) {
    const bool counts = std::any_of(group.variables.begin(), group.variables.end(),
                                    [&](uint32_t each) { return relevant[each]; });
    if (counts) nodes.push_back(group.nodes);
  }
  return nodes;
}

bool LoopValues::IsSame(const Step& step) const {
  return !step.reads_others && std::all_of(step.uses.begin(), step.uses.end(), [&](uint32_t use) {
    return same_[use] || !IsDefined(use);
  });
}

void LoopValues::FindSame() {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [variable, definitions] : definitions_) {
      if (same_[variable]) continue;
      same_[variable] = std::all_of(definitions.begin(), definitions.end(),
                                    [this](const auto& each) { return IsSame(*each.step); });
      changed = changed || same_[variable];
    }
  }
}

// Whether the loop also gives the variable a value that is the same in each round.
bool LoopValues::IsSetBack(uint32_t variable) const {
  const auto& definitions = definitions_.at(variable);
  return std::any_of(definitions.begin(), definitions.end(),
                     [this](const auto& each) { return IsSame(*each.step); });
}

// Whether the value that a definition sets follows from the values that it reads, from round to
// round.
bool LoopValues::Carries(const Definition& definition) const {
  const Step& step = *definition.step;
  if (step.effect == Effect::kWraps) return false;
  if (step.effect != Effect::kChooses || step.instruction->opcode != "selp") return true;
  // A selp that chooses between a new value and one that is always the same sets the variable back.
  const auto& operands = step.instruction->operands;
  const bool has_literal = operands.size() > 2 && (operands[1].kind != Operand::Kind::kName ||
                                                   operands[2].kind != Operand::Kind::kName);
  return !has_literal && step.uses.size() >= 2 && IsDefined(step.uses[0]) &&
         IsDefined(step.uses[1]);
}

bool LoopValues::FindGroups() {
  groups_.clear();
  std::vector<std::vector<uint32_t>> next(progress_.size());
  std::vector<uint32_t> among;
  for (const auto& [variable, unused] : definitions_) {
    if (!IsSetBack(variable)) among.push_back(variable);
  }
  for (size_t i = 0; i < all_.size(); ++i) {
    if (killed_[i] || !Carries(all_[i])) continue;
    for (const uint32_t from : all_[i].step->uses) {
      next[from].insert(next[from].end(), all_[i].step->sets.begin(), all_[i].step->sets.end());
    }
  }
  std::sort(among.begin(), among.end());
  for (std::vector<uint32_t>& component : FindComponents(next, among)) {
    Group group{.variables = std::move(component), .nodes = {}};
    const auto has = [&group](uint32_t variable) {
      return std::binary_search(group.variables.begin(), group.variables.end(), variable);
    };
    bool advances = false;
    for (size_t i = 0; i < all_.size(); ++i) {
      if (killed_[i] || !Carries(all_[i])) continue;
      const Step& step = *all_[i].step;
      if (!std::any_of(step.sets.begin(), step.sets.end(), has)) continue;
      if (!std::any_of(step.uses.begin(), step.uses.end(), has)) continue;
      advances |= step.effect == Effect::kAdvances;
      group.nodes.push_back(all_[i].node);
    }
    if (!advances) continue;
    std::sort(group.nodes.begin(), group.nodes.end());
    group.nodes.erase(std::unique(group.nodes.begin(), group.nodes.end()), group.nodes.end());
    groups_.push_back(std::move(group));
  }
  return !groups_.empty();
}

// Whether the loop itself writes the memory that the load reads.
bool LoopValues::IsOwnMemory(const Step& load) const {
  const auto varies = [this](const Step& step) {
    return std::any_of(step.addresses.begin(), step.addresses.end(),
                       [this](uint32_t each) { return IsDefined(each); });
  };
  return std::any_of(stores_.begin(), stores_.end(), [&](const Step* store) {
    if (store->address.is_exact && load.address.is_exact) return store->address == load.address;
    if (varies(*store) != varies(load)) return false;
    if (!varies(load)) {
      // The operands are [address], value for the store, and value, [address] for the load.
      const auto& stored = store->instruction->operands;
      const auto& loaded = load.instruction->operands;
      return store->addresses == load.addresses && loaded.size() > 1 &&
             stored[0].integer == loaded[1].integer;
    }
    return std::any_of(load.address.roots.begin(), load.address.roots.end(), [&](uint32_t root) {
      return root != 0 &&
             std::binary_search(store->address.roots.begin(), store->address.roots.end(), root);
    });
  });
}

bool LoopValues::IsReadAgain(const Step& step) const {
  if (!step.reads_others) return false;
  if (step.instruction->opcode == "call") {
    if (step.reads_anywhere || step.addresses.empty()) return true;
    return !std::all_of(step.addresses.begin(), step.addresses.end(),
                        [this](uint32_t each) { return progress_[each]; });
  }
  if (std::any_of(step.addresses.begin(), step.addresses.end(),
                  [this](uint32_t each) { return progress_[each]; })) {
    return false;
  }
  return !IsOwnMemory(step);
}

void LoopValues::Spread() {
  std::fill(progress_.begin(), progress_.end(), false);
  std::fill(read_.begin(), read_.end(), nullptr);
  std::fill(chosen_by_read_.begin(), chosen_by_read_.end(), false);
  for (const Group& group : groups_) {
    for (const uint32_t variable : group.variables) progress_[variable] = true;
  }
  const auto spread = [this](auto one) {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Definition& each : all_) changed = one(*each.step) || changed;
    }
  };
  const auto any_of = [](const std::vector<uint32_t>& of, auto holds) {
    return std::any_of(of.begin(), of.end(), holds);
  };
  // A call that reads from an address that stays the same may return the same value, whatever else
  // it is given.
  spread([&](const Step& step) {
    if (!any_of(step.uses, [this](uint32_t use) { return progress_[use]; })) return false;
    if (step.instruction->opcode == "call" && IsReadAgain(step)) return false;
    bool changed = false;
    for (const uint32_t to : step.sets) {
      changed = changed || !progress_[to];
      progress_[to] = true;
    }
    return changed;
  });
  spread([&](const Step& step) {
    const Step* read = IsReadAgain(step) ? &step : nullptr;
    for (const uint32_t use : step.uses) read = read != nullptr ? read : read_[use];
    const bool is_guarded = step.guard >= 0 && read_[static_cast<size_t>(step.guard)] != nullptr;
    if (is_guarded && read == nullptr) read = read_[static_cast<size_t>(step.guard)];
    if (read == nullptr) return false;
    const bool chosen = is_guarded || step.compares ||
                        any_of(step.uses, [this](uint32_t use) { return chosen_by_read_[use]; });
    bool changed = false;
    for (const uint32_t to : step.sets) {
      changed = changed || read_[to] == nullptr || (chosen && !chosen_by_read_[to]);
      if (read_[to] == nullptr) read_[to] = read;
      if (chosen) chosen_by_read_[to] = true;
    }
    return changed;
  });
}

// Finds definitions that may leave their variable as it was, because a value that was read decides.
// Returns true if it found new ones.
bool LoopValues::Kill() {
  bool changed = false;
  for (size_t i = 0; i < all_.size(); ++i) {
    const Step& step = *all_[i].step;
    if (killed_[i]) continue;
    const bool is_call = step.instruction->opcode == "call";
    bool kills = step.guard >= 0 && read_[static_cast<size_t>(step.guard)] != nullptr;
    kills |= is_call && IsReadAgain(step);
    for (const uint32_t use : step.uses) {
      const bool chooses = is_call || step.effect == Effect::kChooses;
      kills |= chooses ? read_[use] != nullptr : chosen_by_read_[use];
    }
    if (!kills) continue;
    killed_[i] = changed = true;
  }
  return changed;
}

}  // namespace cupola::ptx
