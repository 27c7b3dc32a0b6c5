#include "device/sim/stepped/search.h"

#include <fmt/format.h>

#include <deque>

#include "device/sim/stepped/verdict.h"

namespace cupola::sim {
namespace {

constexpr size_t kLastSteps = 24;

struct Outcome {
  std::optional<Failure> failure;
  uint64_t hash = 0;
  uint64_t steps = 0;
  std::string outcome;
};

Outcome RunScenario(const Scenario& scenario, Chooser* chooser) {
  RecordingChooser recorder(chooser);
  auto device = SteppedDevice::Create(scenario.config, &recorder);
  Outcome result;
  if (!device) {
    result.failure = Failure{"no address space for the simulated device", 0, {}, {}};
    return result;
  }
  scenario.start(*device);
  Judge judge(scenario, *device);
  std::deque<Step> last;
  bool going = true;
  RunEnd end = RunEnd::kIdle;
  while (going) {
    if (device->steps() >= scenario.config.max_steps || !device->Step()) {
      end = device->Run();  // makes no further step; it only says how the run ended
      break;
    }
    last.push_back(device->last_step());
    if (last.size() > kLastSteps) last.pop_front();
    going = judge.AfterStep();
  }
  judge.AfterRun(end);
  result.hash = device->trace_hash();
  result.steps = device->steps();
  if (judge.wrong().empty()) {
    if (scenario.outcome) result.outcome = scenario.outcome(*device);
    return result;
  }
  Failure failure;
  failure.what = judge.wrong();
  failure.choices = recorder.answers();
  for (const Step& step : last) failure.last_steps.push_back(device->Describe(step));
  result.failure = std::move(failure);
  return result;
}

}  // namespace

std::string Failure::ToString() const {
  std::string text = fmt::format("{}\nseed {}, choices:", what, seed);
  for (const uint32_t choice : choices) text += fmt::format(" {}", choice);
  text += "\nlast steps:";
  for (const std::string& step : last_steps) text += "\n  " + step;
  return text;
}

bool Judge::CheckRaces() {
  const auto& races = device_.races();
  for (; scenario_.races_are_failures && races_seen_ < races.size(); ++races_seen_) {
    const Race& race = races[races_seen_];
    if (race.same_value && !scenario_.same_value_races_are_failures) continue;
    wrong_ = "data race: " + device_.Describe(race);
    return false;
  }
  return true;
}

bool Judge::AfterStep() {
  if (!CheckRaces()) return false;
  if (device_.fault()) {
    wrong_ = device_.fault()->message;
    return false;
  }
  if (scenario_.watch) wrong_ = scenario_.watch(device_);
  return wrong_.empty();
}

void Judge::AfterRun(RunEnd end) {
  if (!wrong_.empty()) return;
  if (end == RunEnd::kDeadlock) {
    wrong_ = "nothing can go on:\n" + device_.stuck();
  } else if (end == RunEnd::kLimit) {
    wrong_ = fmt::format("no end after {} steps:\n{}", device_.steps(), device_.stuck());
  } else if (scenario_.check) {
    wrong_ = scenario_.check(device_);
  }
}

std::optional<Failure> RunOnce(const Scenario& scenario, Chooser* chooser, uint64_t* hash) {
  Outcome outcome = RunScenario(scenario, chooser);
  if (hash != nullptr) *hash = outcome.hash;
  return std::move(outcome.failure);
}

SearchResult SearchSeeds(const Scenario& scenario, uint64_t first_seed, uint64_t count,
                         Strategy strategy) {
  SearchResult result;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t seed = first_seed + i;
    RandomChooser random(seed);
    // Depth and length are derived from the seed, so that the seed alone reproduces the run.
    PctChooser pct(seed, 1 + static_cast<uint32_t>(seed % 4), 64ull << (seed / 4 % 5));
    Chooser* chooser = &random;
    if (strategy == Strategy::kPct) chooser = &pct;
    Outcome outcome = RunScenario(scenario, chooser);
    ++result.runs;
    result.steps += outcome.steps;
    result.traces.insert(outcome.hash);
    if (outcome.failure) {
      result.failure = std::move(outcome.failure);
      result.failure->seed = seed;
      return result;
    }
    result.outcomes.insert(std::move(outcome.outcome));
  }
  return result;
}

}  // namespace cupola::sim
