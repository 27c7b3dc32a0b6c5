// ArbiterTrace: writes, for `cupola serve --trace`, when each client wanted the GPU, had it, was asked to leave and
// waited. The file is a Chrome JSON trace (the array of events may end anywhere, so it can be read while the daemon
// runs and after a crash): a group of rows for each GPU, a row for each process. `cupola report` reads it together
// with the traces of `cupola run --trace`; their heads have the same form (profiles/launch_trace.h).
//
// The Server owns it, and its thread alone calls it. The deciding threads only collect PhaseChanges under their
// GpuArbiter's lock (GpuArbiter::TakePhases), so that no decision waits for a file.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cupola::sched {

/// What a client does, as the arbiter sees it at a review.
enum class ClientPhase : uint8_t {
  kAbsent,  ///< it has not joined, or has left
  kIdle,    ///< it does not want the GPU
  kWaits,   ///< it wants the GPU and may not run
  kRuns,    ///< it wants the GPU and may run
  kLeaves,  ///< it has had the GPU, is asked to yield, and has not said that it stopped
};

/// "waits", "runs", "leaves"; "" for the other two, which have no slice in the trace.
const char* PhaseName(ClientPhase phase);

struct PhaseChange {
  uint64_t at_ns = 0;   ///< on the board's clock
  uint32_t pid = 0;
  ClientPhase phase = ClientPhase::kAbsent;
  std::string name;     ///< of the program, with its label; "" = as it was
};

class ArbiterTrace {
 public:
  /// The number of the format in the head; it is kTraceFormat of profiles/launch_trace.h.
  static constexpr int kFormat = 1;
  /// The largest file, in bytes. A trace that reaches it ends there, and the log is told so.
  static constexpr uint64_t kMostBytes = uint64_t{1} << 30;

  /// Opens `path`, which is emptied, or made with mode 0600. `base_ns` on the board's clock becomes 0 in the trace.
  /// kInvalidArgument: it is not a regular file. kIo: it cannot be written.
  static Result<std::unique_ptr<ArbiterTrace>> Create(const std::string& path, uint64_t base_ns);
  /// Closes the file.
  ~ArbiterTrace();
  ArbiterTrace(const ArbiterTrace&) = delete;
  ArbiterTrace& operator=(const ArbiterTrace&) = delete;

  /// Adds the changes of the GPU `uuid`, oldest first, and hands them to the system. kIo: the file could not be
  /// written, or has reached kMostBytes; further calls do nothing then.
  Status Add(const std::string& uuid, const std::vector<PhaseChange>& changes);
  /// Ends the slices that have begun and the JSON text. Without it, as after a crash, both are open.
  void End(uint64_t now_ns);

 private:
  ArbiterTrace(std::string path, std::FILE* file, uint64_t base_ns);
  void Write(const std::string& event);
  std::string Micros(uint64_t ns) const;
  void AddChange(uint32_t gpu, const PhaseChange& change);

  std::string path_;
  std::FILE* file_;
  uint64_t base_ns_;
  uint64_t bytes_ = 0;
  bool first_ = true;
  bool ended_ = false;                 ///< a write has failed, or the file is full
  std::map<std::string, uint32_t> gpus_;  ///< UUID to its number in the trace, from 1
  std::map<std::pair<uint32_t, uint32_t>, ClientPhase> open_;  ///< by GPU and pid: the slice that has begun
};

}  // namespace cupola::sched
