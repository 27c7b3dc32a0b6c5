// What `cupola report` makes its page of: the launches of one or several runs, and what the arbiter did with the
// programs, read from traces (trace_input.h), with the figures that the page shows (figures.h). Plain data; one thread.
//
// Times are nanoseconds on CLOCK_MONOTONIC, signed because a trace may hold times before its own beginning.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace cupola::report {

/// The way by which a launch went to the GPU. The page has a colour and a text for each (page.js, `WAYS`).
enum class Way : uint8_t {
  kPreemptible,  ///< could be stopped between blocks
  kSliced,       ///< in parts, between which it could be stopped
  kGated,        ///< as it came, behind a gate: could be kept from starting
  kPlain,        ///< as it came; nothing could stop it
  kGraph,        ///< a graph; a gate may have kept it from starting
  kCaptured,     ///< recorded into a graph; nothing ran
  kFailed,       ///< refused by the driver; nothing ran
  kUnknown,      ///< as the trace does not tell, because the launch was not to be timed on the device
};
inline constexpr size_t kWays = 8;

/// One launch. It lies on a row of the timeline.
struct ReportLaunch {
  int64_t start_ns = 0;  ///< on the device where `timed`, else when the program called
  int64_t end_ns = 0;
  int64_t call_ns = 0;   ///< when the program called
  uint32_t name = 0;     ///< index into Report::names
  uint32_t row = 0;      ///< index into Report::rows
  Way way = Way::kPlain;
  bool timed = false;    ///< start and end were taken on the device
};

/// A row of the timeline: one stream, or a further row of a stream whose launches overlap.
struct ReportRow {
  uint32_t process = 0;  ///< index into Report::processes
  std::string label;     ///< "stream 7"
};

struct ReportProcess {
  uint32_t pid = 0;
  std::string name;   ///< of the program, with the label that the arbiter knows of it
  std::string path;   ///< "" where only the arbiter saw it
  bool in_launches = false;  ///< a trace of launches has it
  bool in_arbiter = false;   ///< the arbiter's trace has it
};

enum class Phase : uint8_t { kWaits, kRuns, kLeaves };

/// What a process did on a GPU, as the arbiter saw it, or as the launches show it where it was under no arbiter.
struct ReportPhase {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t process = 0;  ///< index into Report::processes
  uint32_t gpu = 0;      ///< index into Report::gpus
  Phase phase = Phase::kRuns;
};

/// Everything that was read.
struct Report {
  std::vector<std::string> files;      ///< as the user named them
  std::vector<std::string> notes;      ///< what the reader of the page must know of the input, one sentence each
  std::vector<std::string> names;      ///< of kernels
  std::vector<ReportProcess> processes;
  std::vector<ReportRow> rows;
  std::vector<ReportLaunch> launches;  ///< by row, then by start
  std::vector<std::string> gpus;       ///< UUIDs that the arbiter's trace names; "GPU" where there is none
  std::vector<ReportPhase> phases;     ///< by start
  bool has_arbiter = false;
  uint64_t dropped = 0;                ///< launches that the programs made and the traces lack
  int64_t begin_ns = 0;                ///< of all that is there
  int64_t end_ns = 0;
};

/// A part of the GPU's time for each process: `parts[bin][process]`, each from 0 to 1, at most 1 together.
struct Shares {
  uint32_t gpu = 0;
  int64_t bin_ns = 0;
  std::vector<std::vector<double>> parts;
};

/// For how long one process wanted the GPU while another one had it.
struct Wait {
  uint32_t waiter = 0, holder = 0;  ///< indexes into Report::processes
  uint64_t total_ns = 0;
  uint64_t longest_ns = 0;  ///< longest without a break
  uint64_t times = 0;
};

/// Launches of a process by the way that they went, with the time for which they had the GPU.
struct Coverage {
  uint32_t process = 0;
  std::array<uint64_t, kWays> launches{};
  std::array<uint64_t, kWays> gpu_ns{};
};

/// Launches of a kernel that went the same way.
struct KernelTotal {
  uint32_t name = 0;
  Way way = Way::kPlain;
  uint64_t launches = 0;
  uint64_t timed = 0;     ///< of these, with device times
  uint64_t total_ns = 0;  ///< of the timed ones, from start to end, waits included
  uint64_t longest_ns = 0;
};

struct Figures {
  std::vector<Shares> shares;       ///< one for each GPU
  std::vector<Wait> waits;          ///< the longest total first
  std::vector<Coverage> coverage;   ///< one for each process with launches
  std::vector<KernelTotal> kernels; ///< the most time first
};

}  // namespace cupola::report
