// Makes all runs of a scenario, where runs that differ only in the order of independent steps count
// as one. It goes depth-first over the choices and replays the prefix each time (stateless), with
// dynamic partial-order reduction, source sets and sleep sets [Flanagan and Godefroid, POPL 2005;
// Abdulla et al., POPL 2014].
#include <algorithm>
#include <map>
#include <set>

#include "device/sim/stepped/search.h"
#include "device/sim/stepped/verdict.h"

namespace cupola::sim {
namespace {

using Key = uint64_t;  // ActorId::Key

/// The decisions at one step of the current run, and those that remain to be tried there.
struct Node {
  std::vector<Key> enabled;  // the actors that could step
  Key chosen = 0;
  Step step;  // the step of `chosen`
  std::set<Key> backtrack, done;  // the actors to be tried here; those that were tried
  // Actors that need not be tried here: their step was tried before, and commutes with the steps
  // since.
  std::map<Key, Step> sleep;
  std::map<Key, Step> explored;  // the steps of the actors in `done`
  struct Inner {
    uint32_t answer = 0, count = 0;  // count: number of options
  };
  std::vector<Inner> inner;  // the step's other choices, in order
};

/// Gives the answers that the stack holds, which are the prefix of the last run that is kept.
/// Behind it, chooses the first actor that does not sleep, and option 0 of everything else.
class StackChooser final : public Chooser {
 public:
  explicit StackChooser(std::vector<Node>* stack) : stack_(stack) {}

  void BeginStep(size_t depth, const std::map<Key, Step>* sleep) {
    depth_ = depth;
    sleep_ = sleep;
    inner_ = 0;
    fresh_.clear();
  }

  uint32_t Choose(ChoiceKind kind, std::span<const uint64_t> options) override {
    const bool known = depth_ < stack_->size();
    if (kind != ChoiceKind::kActor) {
      const size_t n = inner_++;
      if (known && n < (*stack_)[depth_].inner.size()) {
        fresh_.push_back((*stack_)[depth_].inner[n]);
      } else {
        fresh_.push_back({0, static_cast<uint32_t>(options.size())});
      }
      return fresh_.back().answer;
    }
    const auto wanted = std::ranges::find_if(options, [&](Key key) {
      return known ? key == (*stack_)[depth_].chosen : !sleep_->contains(key);
    });
    // If all actors sleep, any answer will do: Extend ends the run.
    return wanted == options.end() ? 0 : static_cast<uint32_t>(wanted - options.begin());
  }

  const std::vector<Node::Inner>& inner() const { return fresh_; }

 private:
  std::vector<Node>* stack_;
  size_t depth_ = 0;                            // number of the step, an index into the stack
  const std::map<Key, Step>* sleep_ = nullptr;  // Node::sleep of a step that has no node yet
  size_t inner_ = 0;                            // choices of the step so far, but for the actor
  std::vector<Node::Inner> fresh_;              // these choices
};

class Search {
 public:
  Search(const Scenario& scenario, const ExhaustiveOptions& options)
      : scenario_(scenario), options_(options), chooser_(&stack_) {}

  SearchResult Run() {
    while (result_.runs < options_.max_runs) {
      ++result_.runs;
      RunOne();
      if (result_.failure) return std::move(result_);
      if (options_.reduce) FindReversals();
      if (!Backtrack()) {
        result_.complete = true;
        break;
      }
    }
    return std::move(result_);
  }

 private:
  void RunOne();
  bool Extend(SteppedDevice& device, size_t depth, std::map<Key, Step>* sleep);
  void FindReversals();
  void Reverse(size_t i, size_t j, const std::vector<size_t>& who,
               const std::vector<std::vector<size_t>>& before);
  bool Backtrack();

  const Scenario& scenario_;
  const ExhaustiveOptions options_;
  std::vector<Node> stack_;
  StackChooser chooser_;
  SearchResult result_;
};

/// Records the step that was just made, and makes `sleep` the actors that sleep behind it. False
/// when the run is to end here: an equivalent run was made before, or the scenario differs from run
/// to run.
bool Search::Extend(SteppedDevice& device, size_t depth, std::map<Key, Step>* sleep) {
  const Step& step = device.last_step();
  ActorId chosen = step.actor;
  // The step names the block that started; the actor's name has none (ActorId::block).
  if (chosen.kind == ActorKind::kBlockStart) chosen.block = 0;
  const Key key = chosen.Key();
  std::vector<Key> enabled;
  for (const ActorId& actor : device.enabled()) enabled.push_back(actor.Key());
  if (depth == stack_.size()) {
    if (sleep->contains(key)) return false;
    Node node;
    node.enabled = enabled;
    node.chosen = key;
    if (!options_.reduce) node.backtrack.insert(node.enabled.begin(), node.enabled.end());
    node.sleep = *sleep;
    stack_.push_back(std::move(node));
  }
  Node& node = stack_[depth];
  if (node.chosen != key || node.enabled != enabled) {
    result_.failure = Failure{"the scenario is not the same in every run", 0, {}, {}};
    return false;
  }
  node.step = step;
  node.inner = chooser_.inner();
  sleep->clear();
  if (!options_.reduce) return true;
  for (const auto* steps : {&node.sleep, &node.explored}) {
    for (const auto& [other, theirs] : *steps) {
      if (other != key && !Conflict(theirs, step)) sleep->emplace(other, theirs);
    }
  }
  return true;
}

void Search::RunOne() {
  RecordingChooser recorder(&chooser_);
  auto device = SteppedDevice::Create(scenario_.config, &recorder);
  if (!device) {
    result_.failure = Failure{"no address space for the simulated device", 0, {}, {}};
    return;
  }
  scenario_.start(*device);
  Judge judge(scenario_, *device);
  std::map<Key, Step> sleep;
  size_t depth = 0;
  bool going = true, seen = false;
  RunEnd end = RunEnd::kIdle;
  std::vector<std::string> last;
  while (going && !seen) {
    chooser_.BeginStep(depth, &sleep);
    if (device->steps() >= scenario_.config.max_steps || !device->Step()) {
      end = device->Run();  // makes no further step; it only says how the run ended
      break;
    }
    seen = !Extend(*device, depth++, &sleep);
    going = judge.AfterStep();
  }
  result_.steps += device->steps();
  if (seen) return;
  judge.AfterRun(end);
  result_.traces.insert(device->trace_hash());
  if (judge.wrong().empty()) {
    if (scenario_.outcome) result_.outcomes.insert(scenario_.outcome(*device));
    return;
  }
  Failure failure;
  failure.what = judge.wrong();
  failure.choices = recorder.answers();
  for (size_t i = stack_.size() - std::min<size_t>(stack_.size(), 24); i < stack_.size(); ++i)
    failure.last_steps.push_back(device->Describe(stack_[i].step));
  result_.failure = std::move(failure);
}

/// Finds the pairs of conflicting steps of the last run that could have come in the other order,
/// and asks for that order at the node of the earlier step.
void Search::FindReversals() {
  const size_t count = stack_.size();
  std::map<Key, size_t> actors;  // actor -> number from 0
  std::vector<size_t> who(count);
  for (size_t j = 0; j < count; ++j)
    who[j] = actors.try_emplace(stack_[j].chosen, actors.size()).first->second;
  // before[j][a] is 1 + the last step of actor a behind which step j is ordered. A step counts as
  // ordered behind itself.
  std::vector<std::vector<size_t>> before(count);
  std::vector<size_t> last(actors.size(), 0);  // 1 + the actor's last step so far
  const auto take = [](std::vector<size_t>& into, const std::vector<size_t>& from) {
    for (size_t a = 0; a < into.size(); ++a) into[a] = std::max(into[a], from[a]);
  };
  for (size_t j = 0; j < count; ++j) {
    const size_t own = last[who[j]];
    std::vector<size_t> clock(actors.size(), 0);
    if (own != 0) take(clock, before[own - 1]);
    // The step that made step j possible cannot come after it, so the two are ordered.
    for (size_t i = j; i > own; --i) {
      if (std::ranges::find(stack_[i - 1].enabled, stack_[j].chosen) != stack_[i - 1].enabled.end())
        continue;
      take(clock, before[i - 1]);
      break;
    }
    for (size_t i = j; i-- > 0;) {
      if (who[i] == who[j] || clock[who[i]] > i || !Conflict(stack_[i].step, stack_[j].step))
        continue;
      before[j] = clock;
      Reverse(i, j, who, before);
      take(clock, before[i]);
    }
    clock[who[j]] = j + 1;
    before[j] = std::move(clock);
    last[who[j]] = j + 1;
  }
}

/// Asks for a run in which step j comes before step i. Such a run first makes the steps that follow
/// step i without depending on it, and then step j. Any actor that can begin this sequence will do
/// (source sets [Abdulla et al., POPL 2014]). To ask only for the actor of step j would not be
/// enough where that actor sleeps. `before[j]` does not count the conflict of step j with step i
/// itself.
void Search::Reverse(size_t i, size_t j, const std::vector<size_t>& who,
                     const std::vector<std::vector<size_t>>& before) {
  Node& node = stack_[i];
  std::vector<size_t> steps;  // the sequence
  std::set<Key> begun;
  std::vector<Key> initials;
  for (size_t k = i + 1; k <= j; ++k) {
    if (k != j && before[k][who[i]] > i) continue;
    const bool first = std::ranges::none_of(
        steps, [&](size_t earlier) { return before[k][who[earlier]] > earlier; });
    steps.push_back(k);
    if (begun.insert(stack_[k].chosen).second && first) initials.push_back(stack_[k].chosen);
  }
  std::erase_if(initials, [&node](Key key) {
    return std::ranges::find(node.enabled, key) == node.enabled.end();
  });
  const bool planned = std::ranges::any_of(initials, [&node](Key key) {
    return node.backtrack.contains(key) || node.done.contains(key);
  });
  if (planned) return;
  if (initials.empty()) {
    node.backtrack.insert(node.enabled.begin(), node.enabled.end());
  } else {
    node.backtrack.insert(initials.back());
  }
}

/// Prepares the stack for the next run: goes back to the last step at which something else is to be
/// tried, first among the step's inner choices, then among its actors. False when there is no
/// further run.
bool Search::Backtrack() {
  while (!stack_.empty()) {
    Node& node = stack_.back();
    while (!node.inner.empty() && node.inner.back().answer + 1 >= node.inner.back().count)
      node.inner.pop_back();
    if (!node.inner.empty()) {
      ++node.inner.back().answer;
      return true;
    }
    node.done.insert(node.chosen);
    if (options_.reduce) node.explored[node.chosen] = node.step;
    for (const Key key : node.backtrack) {
      if (node.done.contains(key) || node.sleep.contains(key)) continue;
      node.chosen = key;
      return true;
    }
    stack_.pop_back();
  }
  return false;
}

}  // namespace

SearchResult SearchAll(const Scenario& scenario, const ExhaustiveOptions& options) {
  return Search(scenario, options).Run();
}

}  // namespace cupola::sim
