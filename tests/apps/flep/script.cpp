#include "script.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

int Round::TurnOf(int party) const {
  for (size_t i = 0; i < turns.size(); ++i) {
    if (turns[i].party == party) return static_cast<int>(i);
  }
  return -1;
}

std::vector<Round> ReadScript(const std::string& path) {
  std::ifstream file(path);
  std::vector<Round> rounds;
  std::string line;
  while (std::getline(file, line)) {
    Round round;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      Turn turn;
      if (std::sscanf(word.c_str(), "loop=%lf", &round.loop_seconds) == 1) continue;
      if (std::sscanf(word.c_str(), "%d@%lf", &turn.party, &turn.delay_us) < 1) {
        std::fprintf(stderr, "%s, line %zu: \"%s\" is no PARTY[@DELAY_US]\n", path.c_str(),
                     rounds.size() + 1, word.c_str());
        std::exit(2);
      }
      round.turns.push_back(turn);
    }
    rounds.push_back(round);
  }
  if (rounds.empty()) {
    std::fprintf(stderr, "%s: no rounds\n", path.c_str());
    std::exit(2);
  }
  return rounds;
}
