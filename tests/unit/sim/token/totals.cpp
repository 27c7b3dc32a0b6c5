// Prints the counters of a token's file as one JSON object: sim_token_totals FILE
#include <cstdio>

#include "device/sim/token/shared_token.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto totals = cupola::sim::ReadTokenTotals(argv[1]);
  if (!totals) {
    std::fprintf(stderr, "%s\n", totals.error().ToString().c_str());
    return 1;
  }
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf("{\"slices\": %llu, \"handovers\": %llu, \"waited_ns\": %llu, \"held_ns\": %llu, "
              "\"recoveries\": %llu, \"evictions\": %llu, \"unshared\": %llu}\n",
              number(totals->slices), number(totals->handovers), number(totals->waited_ns),
              number(totals->held_ns), number(totals->recoveries), number(totals->evictions),
              number(totals->unshared));
  return 0;
}
