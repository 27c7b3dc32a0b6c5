// Runs a program under libcupola.so over a null driver and reads the launch records that it left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "profiles/launch_record.h"
#include "tests/paths.h"

namespace cupola::preload_test {

/// A launch record with its name.
struct Launch {
  std::string name;
  uint64_t call_start_ns, call_end_ns, device_start_ns, device_end_ns, stream, context;
  uint32_t thread_id, grid[3], block[3], shared_bytes, kernel_nodes;
  int32_t result;
  uint16_t flags;
  RecordKind kind;
  LaunchDoor door;
};

/// One file of launch records.
struct Records {
  std::string executable;
  uint32_t pid = 0;
  // Counters of the file's header (RecordsHeader):
  uint64_t tail = 0;
  uint64_t dropped = 0;
  uint64_t launches = 0;
  uint64_t graph_launches = 0;
  uint64_t graph_kernel_nodes = 0;
  uint64_t captured = 0;
  uint64_t in_lanes = 0;     ///< those of `launches` that are in lanes
  std::vector<Launch> list;  ///< in the order of the calls' times
};

/// How a program ended and what it left.
struct Outcome {
  int exit_code = -1;  ///< 128 + signal when killed
  std::string out;     ///< standard output
  std::string err;     ///< standard error
  std::vector<Records> records;  ///< one per file, in the order of the files' names
};

struct RunOptions {
  std::vector<std::string> command = {};        ///< program and arguments
  std::string driver = CUPOLA_NULL_DRIVER;      ///< CUPOLA_DRIVER; "" = not set
  bool preload = true;
  bool record = true;
  std::map<std::string, std::string> environment = {};
};

/// Runs a program to its end, for at most 100 s. The folder of the records is made for this run and
/// removed afterwards.
Outcome RunProgram(const RunOptions& options);

/// Runs the probe (probe.h). `arguments`: the scenario and its arguments.
Outcome RunProbe(std::vector<std::string> arguments, RunOptions options = {});

}  // namespace cupola::preload_test
