// A soak of the arbiter in virtual time (soak.h). Prints one JSON object; exit code 0 where no rule was broken.
//
//   arbiter_soak [--seed N] [--clients N] [--seconds N] [--at-once N] [--expect RULE]
//
// --expect RULE: for a daemon with a planted bug: 0 where that rule was found broken, 1 where it was not. What the bug
// needs does not happen with each seed: up to kMostSeeds are tried, from N on.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <sys/resource.h>

#include <spdlog/spdlog.h>

#include "soak.h"

using namespace cupola::sched;

int main(int argc, char** argv) {
  SoakOptions options;
  std::string expected;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--seed") options.seed = std::strtoull(value, nullptr, 0);
    else if (name == "--clients") options.clients = static_cast<uint32_t>(std::strtoul(value, nullptr, 0));
    else if (name == "--seconds") options.seconds = std::strtoull(value, nullptr, 0);
    else if (name == "--at-once") options.at_once = std::strtod(value, nullptr);
    else if (name == "--expect") expected = value;
    else return std::fprintf(stderr, "arbiter_soak: %s?\n", argv[i]), 2;
  }
  options.until_rule = expected;
  spdlog::set_level(spdlog::level::off);
  const auto start = std::chrono::steady_clock::now();
  SoakOutcome outcome = Soak(options).Run();
  constexpr uint64_t kMostSeeds = 4;
  const uint64_t first = options.seed;
  while (!expected.empty() && outcome.violations.empty() && options.seed + 1 < first + kMostSeeds) {
    ++options.seed;
    outcome = Soak(options).Run();
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  nlohmann::json result{{"seed", options.seed},         {"clients", options.clients},
                        {"seconds", options.seconds},   {"at_once", options.at_once},
                        {"counts", outcome.counts},     {"worst", outcome.worst},
                        {"wall_s", wall.count()},       {"peak_memory_kib", usage.ru_maxrss},
                        {"violations", outcome.violations.size()}};
  const auto wrong = outcome.counts.find("wrong_answers");
  bool is_found = false;
  bool is_good = wrong == outcome.counts.end();
  for (const Violation& violation : outcome.violations) {
    is_good = false;
    is_found = is_found || violation.rule == expected;
    std::fprintf(stderr, "arbiter_soak --seed %llu: %s\n", static_cast<unsigned long long>(options.seed),
                 violation.text.c_str());
  }
  std::printf("%s\n", result.dump(1).c_str());
  if (!expected.empty()) return is_found ? 0 : 1;
  return is_good ? 0 : 1;
}
