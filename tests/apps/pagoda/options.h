// The command line of the evaluation's programs, and one setting of it. Plain host code.
#pragma once

#include <string>
#include <vector>

namespace pagoda {

/// Who copies a task's input to the device and its output back.
enum class Copies {
  kNone,    ///< nobody: compute only
  kCalls,   ///< the host, two calls a task
  kBulk,    ///< the host, for many tasks at once
  kInside,  ///< the task itself, between memory of the host and of the device
};

/// What is measured at a time.
struct Config {
  unsigned tasks = 32768, threads = 128;
  unsigned blocks = 1;     // of a task
  unsigned size = 0;       // of a problem, each kind in its unit; 0 = the kind's own
  unsigned seed = 1;       // of inputs
  unsigned streams = 32;   // in all
  unsigned batch = 2048;   // tasks
  bool shared = true;      // use shared memory where a kind can do without
  bool irregular = false;  // sizes by seed, and threads as the sizes want
  bool copies = true;      // measured
};

struct Options {
  std::vector<unsigned> tasks{32768}, threads{128}, blocks{1}, sizes{0};  // each with each
  Config config;                                                          // all else
  unsigned repeat = 5;
  unsigned host_threads = 1;
  std::string forms = "streams";
  bool latency = false;  // of tasks, on average
  bool times = true;     // print times (without them the output is the same every run)
};

/// Reads the command line, or says what is wrong with it and ends the program with exit code 2.
Options ReadOptions(int argc, char** argv);

}  // namespace pagoda
