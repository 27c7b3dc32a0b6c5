// Which parties launch in which round, in what order and after what delays. Plain host code.
#pragma once

#include <string>
#include <vector>

struct Turn {
  int party = 0;
  double delay_us = 0;  // after the launch of the turn before
};

struct Round {
  double loop_seconds = 0;  // > 0: all launch again and again for so long, in no order
  std::vector<Turn> turns;
  /// The index of `party` in `turns`; -1 where it does not take part.
  int TurnOf(int party) const;
};

/// Reads a file with a line a round, `[loop=SECONDS] PARTY[@DELAY_US] PARTY[@DELAY_US] ...`; a
/// wrong line ends the program with exit code 2.
std::vector<Round> ReadScript(const std::string& path);
