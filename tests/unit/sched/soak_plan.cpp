#include "soak_plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sched/board/board.h"

namespace cupola::sched {
namespace {

constexpr uint64_t kMs = 1'000'000;
// Of a crowd that does not find room on the board.
constexpr uint32_t kCrowd = kBoardSlots + 24;
constexpr uint32_t kClientsForACrowd = 2000;

ProcessPlan MakeHog(Prng& random) {
  ProcessPlan plan;
  plan.back_to_back = true;
  plan.kernels = 1'000'000'000;
  plan.kernel_ns = 200 * kMs + random.Below(2000 * kMs);
  plan.spread = 0.3;
  plan.block_ns = 200'000;
  return plan;
}

/// Work now and then, or never.
ProcessPlan MakeBursty(Prng& random) {
  static constexpr double kPredictions[] = {1, 1, 1, 0.5, 2, 0.1, 10, 0};
  ProcessPlan plan;
  const uint64_t kind = random.Below(20);
  plan.can_preempt = kind < 16;
  plan.can_gate = kind >= 16 && kind < 19;  // 19: nothing can stop it
  plan.kernels = random.Below(4) == 0 ? 0 : 1'000'000'000;
  plan.kernel_ns = kind == 19 ? 10 * kMs : 20 * kMs + random.Below(300 * kMs);
  plan.spread = random.Uniform(0, 0.4);
  plan.gap_ns = kSecondNs + random.Below(40 * kSecondNs);
  plan.block_ns = random.Below(2) == 0 ? 20'000 : 200'000;
  plan.prediction = kPredictions[random.Below(8)];
  plan.reports_overhead = random.Below(4) != 0;
  return plan;
}

SoakNewcomer MakeNewcomer(Prng& random, double mean_stay_s) {
  SoakNewcomer one;
  one.is_hog = Chance(random, 0.25);
  one.plan = one.is_hog ? MakeHog(random) : MakeBursty(random);
  one.plan.lease_ns = 20 * kSecondNs;
  one.plan.start_ns = random.Below(2 * kSecondNs);
  one.stays_ns = After(random, mean_stay_s);
  one.is_killed = Chance(random, 0.4);
  one.label = fmt::format("l{}", random.Below(SoakConfig::kLabels));
  if (one.is_hog && Chance(random, 0.12)) one.label = "share";
  if (!one.is_hog && Chance(random, 0.02)) one.label = "soon";
  return one;
}

}  // namespace

bool Chance(Prng& random, double probability) { return random.Uniform(0, 1) < probability; }

uint64_t After(Prng& random, double mean_s) {
  return static_cast<uint64_t>(-std::log(1 - random.Uniform(0, 1)) * mean_s * static_cast<double>(kSecondNs)) + 1;
}

std::vector<SoakNewcomer> MakeNewcomers(const SoakOptions& options, Prng& random) {
  const uint64_t whole_ns = options.seconds * kSecondNs;
  const uint32_t crowds = options.clients / kClientsForACrowd + (options.clients >= 2 * kCrowd ? 1 : 0);
  std::vector<SoakNewcomer> all;
  for (uint32_t crowd = 0; crowd < crowds; ++crowd) {
    const uint64_t at = random.Below(whole_ns * 9 / 10);
    for (uint32_t i = 0; i < kCrowd; ++i) {
      SoakNewcomer one = MakeNewcomer(random, 20);
      one.at_ns = at + random.Below(5 * kSecondNs);
      one.stays_ns += 5 * kSecondNs;
      all.push_back(std::move(one));
    }
  }
  const uint32_t others = options.clients - crowds * kCrowd;
  const double mean_stay_s = options.at_once * static_cast<double>(options.seconds) / std::max(others, 1U);
  while (all.size() < options.clients) {
    SoakNewcomer one = MakeNewcomer(random, mean_stay_s);
    one.at_ns = random.Below(whole_ns);
    // A sixth of the time is night.
    const bool is_night = one.at_ns * 6 / whole_ns == 3;
    if (is_night && !Chance(random, 0.1)) continue;
    if (is_night) one.stays_ns = std::min(one.stays_ns, 30 * kSecondNs);
    all.push_back(std::move(one));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
  return all;
}

ClientSettings SoakConfig::SettingsFor(const std::string& label) const {
  ClientSettings settings;
  if (label == "share") {
    settings.priority = -1;
    settings.least_share_percent = least_share;
  } else if (label == "soon") {
    settings.latency_bound_ns = 10 * kMs;
  } else if (label.size() == 2) {
    const auto number = static_cast<size_t>(label[1] - '0');
    settings.priority = priorities[number];
    settings.weight = weights[number];
  }
  return settings;
}

std::string SoakConfig::ToText() const {
  std::string text = fmt::format(
      "[policy]\nname = \"{}\"\nquantum_us = {}\nepoch_us = 3600000000\ncontext_switch_us = 100\n", policy,
      kQuantumNs / 1000);
  for (size_t i = 0; i < kLabels; ++i) {
    text += fmt::format("[[rule]]\nlabel = \"l{}\"\npriority = {}\nweight = {}\n", i, priorities[i], weights[i]);
  }
  text += fmt::format("[[rule]]\nlabel = \"share\"\npriority = -1\nleast_share_percent = {}\n", least_share);
  text += "[[rule]]\nlabel = \"soon\"\nlatency_bound_us = 10000\n";
  if (!is_good) text += "[[rule]]\nlabel = \"l1\"\nweight = \"heavy\"\n";
  return text;
}

SoakConfig MakeConfig(Prng& random, const std::string& policy) {
  SoakConfig config;
  config.policy = policy;
  for (uint32_t& weight : config.weights) weight = 1 + static_cast<uint32_t>(random.Below(SoakConfig::kMostWeight));
  for (int32_t& priority : config.priorities) priority = static_cast<int32_t>(random.Below(4));
  config.least_share = 3 + static_cast<uint32_t>(random.Below(4));
  return config;
}

}  // namespace cupola::sched
