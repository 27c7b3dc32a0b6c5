#include "cli/profile_run.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <unordered_map>

#include <time.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/settings/variables.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/cupti_library.h"
#include "cli/launch_collector.h"
#include "models/plan_file.h"
#include "profiles/feature_file.h"
#include "profiles/profile_file.h"

namespace cupola {
namespace {

namespace fs = std::filesystem;

uint64_t ClockNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Makes a profile from launch records and from the files of features beside them.
class ProfileRecorder final : public LaunchObserver {
 public:
  explicit ProfileRecorder(MeasuredRun* run)
      : run_(run), to_unix_(ClockNs(CLOCK_REALTIME) - ClockNs(CLOCK_MONOTONIC)) {}

  void Add(const LaunchRingReader& source, const Launch& launch) override {
    if ((launch.flags & kFlagDeviceTimed) == 0 || launch.ticket == kNoTicket) return;
    const uint64_t ns = launch.device_end_ns - launch.device_start_ns;
    const bool is_variant = (launch.flags & kFlagPreemptible) != 0;
    if (is_variant && launch.batch == 0) return;  // a sliced launch is neither plain nor preemptible
    if (!is_variant) {  // the profile has only the program's own kernels
      times_[{source.pid(), source.start_ns()}][launch.ticket] = {
          ns, launch.call_start_ns + to_unix_};
    }
    TimedLaunch timed{.kernel = std::string(launch.name), .shared_bytes = launch.shared_bytes,
                      .start_ns = launch.device_start_ns, .end_ns = launch.device_end_ns,
                      .process = source.pid(),
                      .batch = is_variant ? launch.batch : 0};
    std::copy(launch.grid, launch.grid + 3, timed.grid);
    std::copy(launch.block, launch.block + 3, timed.block);
    run_->timeline.push_back(std::move(timed));
  }

  void Close(const LaunchRingReader& source, const std::string& folder) override {
    const auto times = std::move(times_[{source.pid(), source.start_ns()}]);
    const std::string file =
        fmt::format("{}/.{}.{}.features", folder, source.pid(), source.start_ns());
    Take(file, [&](uint64_t ticket) {
      const auto found = times.find(ticket);
      return found == times.end() ? std::nullopt : std::optional(found->second);
    });
  }

  /// Reads the files of processes that left no launch records. The CUPTI object leaves such files.
  void TakeRest(const std::string& folder) {
    std::error_code ignored;
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().extension() == ".features") files.push_back(entry.path());
    }
    for (const std::string& file : files) Take(file, [](uint64_t) { return std::nullopt; });
  }

 private:
  using TimeOf = std::function<std::optional<profiles::LaunchTime>(uint64_t)>;
  void Take(const std::string& file, const TimeOf& time_of) {
    profiles::Profile one;
    const auto summary = profiles::AddFeatures(ReadText(file), UnixNs(), time_of, &one);
    unlink(file.c_str());
    run_->launches += summary.launches;
    run_->timed += summary.timed;
    if (!summary.why_untimed.empty()) run_->remark = summary.why_untimed;
    if (Status merged = profiles::Merge(one, &run_->profile); !merged) {
      run_->remark = merged.error().message;
    }
  }

  MeasuredRun* run_;
  uint64_t to_unix_;
  std::map<std::pair<uint32_t, uint64_t>, std::unordered_map<uint64_t, profiles::LaunchTime>>
      times_;
};

/// The environment for the measured program: with the preloaded library, or with the CUPTI object in its place.
RunEnvironment EnvironmentOf(const PreparedRun& run, const std::string& cupti,
                             const std::string& folder,
                             std::vector<std::pair<std::string, std::string>> variables) {
  RunEnvironment environment = run.environment;
  environment.variables = std::move(variables);
  if (!cupti.empty()) {
    environment.preload = "";
    environment.driver = "";
    environment.variables.emplace_back("CUDA_INJECTION64_PATH", cupti);
    environment.variables.emplace_back(settings::Name("CUPOLA_CUPTI_RECORDS"), folder);
    return environment;
  }
  environment.records = folder;
  environment.timing = "events";
  environment.variables.emplace_back(settings::Name("CUPOLA_FEATURES"), "1");
  return environment;
}

}  // namespace

uint64_t UnixNs() { return ClockNs(CLOCK_REALTIME); }

Result<MeasuredRun> MeasureRun(const PreparedRun& run, MeasureWith with,
                               std::vector<std::pair<std::string, std::string>> variables) {
  MeasuredRun measured;
  std::string cupti;
  if (with != MeasureWith::kEvents && !run.simulated) {
    const CuptiChoice choice = ChooseCupti(run.path, run.environment.driver);
    cupti = choice.library;
    measured.remark = choice.why_not;
  }
  if (with == MeasureWith::kCupti && cupti.empty()) {
    return MakeError(ErrorCode::kNotFound, run.simulated
                                               ? "the simulated device has no CUPTI"
                                               : "cannot measure with CUPTI: " + measured.remark);
  }
  measured.by_cupti = !cupti.empty();
  ProfileRecorder recorder(&measured);
  auto collector = LaunchCollector::Create("", &recorder);
  if (!collector) return std::move(collector).error();
  const std::string& folder = (*collector)->folder();
  const RunEnvironment environment = EnvironmentOf(run, cupti, folder, std::move(variables));
  auto child = ChildProcess::Start(RunProgram(), WithCupola(CurrentEnvironment(), environment));
  if (!child) return std::move(child).error();
  signal(SIGPIPE, SIG_IGN);
  (*collector)->Start();
  measured.status = child->Wait();
  const Status finished = (*collector)->Finish();
  recorder.TakeRest(folder);
  const LaunchTotals& totals = (*collector)->totals();
  measured.unseen = totals.graph_kernel_nodes + totals.dropped;
  if (!finished) return finished.error();
  return measured;
}

void RequireWritable(const std::string& named) {
  if (named.empty()) RequireAbsolute("CUPOLA_PROFILES");
  const std::string folder = named.empty() ? models::ProfilesFolder() : "";
  if (named.empty() && folder.empty()) return;  // ProfilePath reports this error
  const Status writable = named.empty() ? profiles::CheckFolder(folder) : profiles::CheckMerge(named);
  if (!writable) Fail(writable.error(), kExitCupolaFailed);
}

Result<std::string> ProfilePath(const std::string& named, const profiles::Profile& profile) {
  if (!named.empty()) return named;
  const std::string folder = models::ProfilesFolder();
  if (folder.empty()) {
    return MakeError(ErrorCode::kNotFound,
                     "no folder for profiles: set CUPOLA_PROFILES, or name a file with --out");
  }
  return folder + "/" + models::GpuFileName(profile.gpu.name) + ".json";
}

}  // namespace cupola
