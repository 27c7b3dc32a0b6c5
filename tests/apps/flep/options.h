// The command line that all benchmark programs share. Plain host code.
#pragma once

#include <string>

struct Options {
  std::string input = "small";
  long size = 0;                       // 0 = as the table of inputs says
  double scale = 1;                    // of the size; 0 = the smallest
  int repeat = 1;                      // measured launches
  int warmup = 1;                      // launches before them
  double loop_seconds = 0;             // > 0: launch again and again for so long instead
  int depth = 1;                       // launches in flight at most while looping
  double delay_us = 0;                 // from the launch of the party before to ours
  std::string stream_priority = "no";  // no, low, high
  std::string script;                  // a file of rounds (script.h) instead of --repeat
  int sweep = 0;                       // > 0: so many launches of random sizes instead
  double seed = 1;                     // of the sizes of a sweep
  std::string barrier;                 // a file that the parties meet in; empty = alone
  int party = 0;                       // 0 launches first
  int parties = 1;
  bool events = false;      // time with events too
  bool check_each = false;  // poison the result before and compare it after each launch
  bool verify = false;
  bool times = true;  // print times (without them the output is the same every run)
};

/// Reads the command line, or says what is wrong with it and ends the program with exit code 2.
Options ReadOptions(int argc, char** argv);
