#include "cli/report/trace_input.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "profiles/launch_trace.h"
#include "sched/daemon/arbiter_trace.h"

namespace cupola::report {
namespace {

using nlohmann::json;

static_assert(sched::ArbiterTrace::kFormat == kTraceFormat);

// With this every trace of Cupola begins. Traces of versions before the first format have the second part alone.
constexpr std::string_view kHead = R"({"displayTimeUnit":"ns","cupola":{)";
constexpr std::string_view kOldHead = R"({"displayTimeUnit":"ns","traceEvents":[)";
// Lines that the page needs nothing of: calls and arrows, two thirds of a trace.
constexpr std::string_view kSkipped[] = {R"({"ph":"X","cat":"call")", R"({"ph":"s")", R"({"ph":"f")"};

Error InputError(ErrorCode code, const std::string& file, std::string message, size_t line = 0) {
  return MakeError(code, std::move(message), Location{.file = file, .line = static_cast<uint32_t>(line)});
}

/// The file into which a `cupola run` that was killed has written its trace (LaunchTrace::Create); "" if there is none.
std::string UnfinishedTrace(const std::string& path) {
  constexpr size_t kRandomCharacters = 6;  // mkostemp(3)
  const std::filesystem::path file(path);
  const std::string start = file.filename().string() + ".";
  std::error_code ignored;
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(start) && name.size() == start.size() + kRandomCharacters) {
      return (file.parent_path() / name).string();
    }
  }
  return "";
}

Error CannotOpen(const std::string& path, int why) {
  if (why != ENOENT && why != ENOTDIR) {
    return InputError(ErrorCode::kIo, path, fmt::format("cannot be read: {}", std::strerror(why)));
  }
  const std::string left = UnfinishedTrace(path);
  return InputError(ErrorCode::kNotFound, path,
                    left.empty() ? "there is no such file; `cupola run --trace FILE -- CMD` writes one"
                                 : fmt::format("there is no such file; name {}, which a `cupola run` writes or left when "
                                               "it was killed",
                                               left));
}

Result<std::string> ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return CannotOpen(path, errno);
  std::string text;
  struct stat facts {};
  const bool is_file = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
  if (is_file) text.resize(static_cast<size_t>(facts.st_size));
  size_t at = 0;
  ssize_t got = 1;
  while (is_file && at < text.size() && (got = read(fd, text.data() + at, text.size() - at)) > 0) {
    at += static_cast<size_t>(got);
  }
  const int failure = got < 0 ? errno : 0;
  close(fd);
  if (!is_file) return InputError(ErrorCode::kIo, path, "is not a regular file; name the file that --trace wrote");
  if (failure != 0) return InputError(ErrorCode::kIo, path, fmt::format("cannot be read: {}", std::strerror(failure)));
  text.resize(at);
  return text;
}

std::optional<Way> WayOf(const std::string& name) {
  constexpr std::pair<std::string_view, Way> kNames[] = {{"preemptible", Way::kPreemptible},
                                                         {"sliced", Way::kSliced},
                                                         {"gated", Way::kGated},
                                                         {"plain", Way::kPlain},
                                                         {"unknown", Way::kUnknown}};
  for (const auto& [known, way] : kNames) {
    if (known == name) return way;
  }
  return std::nullopt;
}

std::optional<Phase> PhaseOf(const std::string& name) {
  if (name == "runs") return Phase::kRuns;
  if (name == "waits") return Phase::kWaits;
  if (name == "leaves") return Phase::kLeaves;
  return std::nullopt;
}

/// Takes one file's events into the Report. `Event` throws json::exception where a member is missing or of another
/// type.
class FileReader {
 public:
  FileReader(Report* report, std::unordered_map<std::string, uint32_t>* names) : report_(report), names_(names) {}

  void Start(bool is_arbiter, int64_t base_ns) {
    is_arbiter_ = is_arbiter;
    base_ns_ = base_ns;
  }

  void Event(const json& event) {
    const std::string phase = event.at("ph");
    if (phase == "M") {
      Name(event);
    } else if (is_arbiter_) {
      if (phase == "B" || phase == "E") Turn(event, phase == "B");
    } else if (phase == "X" || phase == "i") {
      AddLaunch(event);
    }
  }

  /// Slices of the arbiter's that have begun and not ended. They last to the end of all that was read.
  std::vector<ReportPhase> OpenPhases() const {
    std::vector<ReportPhase> open;
    for (const auto& [key, phase] : open_) open.push_back(phase);
    return open;
  }

 private:
  using Key = std::pair<uint64_t, uint64_t>;

  int64_t TimeOf(const json& microseconds) const {
    return base_ns_ + static_cast<int64_t>(std::llround(microseconds.get<double>() * 1000));
  }

  void Name(const json& event) {
    const std::string what = event.at("name");
    const uint64_t pid = event.at("pid");
    if (is_arbiter_) {
      NameForArbiter(event, what, pid);
    } else if (what == "process_name") {
      ReportProcess& process = report_->processes[ProcessOf(pid)];
      process.name = event.at("args").at("name");
    } else if (what == "process_labels") {
      // "pid 4711 /opt/app": the pid in `pid` is another one where the process became another program.
      ReportProcess& process = report_->processes[ProcessOf(pid)];
      const std::string labels = event.at("args").at("labels");
      unsigned real = 0;
      int end = 0;
      if (std::sscanf(labels.c_str(), "pid %u %n", &real, &end) == 1 && end > 0) {
        process.pid = real;
        process.path = labels.substr(static_cast<size_t>(end));
      }
    } else if (what == "thread_name") {
      labels_[{pid, event.at("tid").get<uint64_t>()}] = event.at("args").at("name");
    }
  }

  void NameForArbiter(const json& event, const std::string& what, uint64_t pid) {
    const std::string name = event.at("args").at("name");
    if (what == "process_name") {
      gpus_[pid] = static_cast<uint32_t>(report_->gpus.size());
      report_->gpus.push_back(name);
    } else if (what == "thread_name") {
      ReportProcess& process = report_->processes[ArbiterProcessOf(event.at("tid"))];
      process.name = name;
    }
  }

  /// The process of a launch trace, by the pid that the trace shows.
  uint32_t ProcessOf(uint64_t shown_pid) {
    const auto [entry, is_new] = processes_.try_emplace(shown_pid, static_cast<uint32_t>(report_->processes.size()));
    if (is_new) report_->processes.push_back({.pid = static_cast<uint32_t>(shown_pid), .in_launches = true});
    return entry->second;
  }

  /// The process that the arbiter means: that of a launch trace where there is one of this pid. A process that became
  /// another program is several there; the arbiter's is the last.
  uint32_t ArbiterProcessOf(uint64_t pid) {
    const auto [entry, is_new] = processes_.try_emplace(pid, 0);
    if (!is_new) return entry->second;
    auto& all = report_->processes;
    const auto last = std::find_if(all.rbegin(), all.rend(),
                                   [&](const ReportProcess& one) { return one.pid == pid && one.in_launches; });
    if (last == all.rend()) {
      entry->second = static_cast<uint32_t>(all.size());
      all.push_back({.pid = static_cast<uint32_t>(pid)});
    } else {
      entry->second = static_cast<uint32_t>(all.size() - 1 - static_cast<size_t>(last - all.rbegin()));
    }
    all[entry->second].in_arbiter = true;
    return entry->second;
  }

  uint32_t RowOf(uint64_t pid, uint64_t tid) {
    const auto [entry, is_new] = rows_.try_emplace({pid, tid}, static_cast<uint32_t>(report_->rows.size()));
    if (is_new) report_->rows.push_back({.process = ProcessOf(pid), .label = labels_[{pid, tid}]});
    return entry->second;
  }

  void AddLaunch(const json& event) {
    const std::string category = event.at("cat");
    const json& args = event.at("args");
    ReportLaunch launch;
    if (category == "kernel") {
      const std::optional<Way> way = WayOf(args.at("way"));
      if (!way) throw json::other_error::create(501, "unknown way", nullptr);
      launch.way = *way;
    } else if (category == "graph") {
      launch.way = Way::kGraph;
    } else if (category == "captured" || category == "failed") {
      launch.way = category == "failed" ? Way::kFailed : Way::kCaptured;
    } else {
      return;
    }
    launch.start_ns = TimeOf(event.at("ts"));
    launch.end_ns = launch.start_ns;
    if (const auto duration = event.find("dur"); duration != event.end()) {
      launch.end_ns += static_cast<int64_t>(std::llround(duration->get<double>() * 1000));
    }
    launch.call_ns = TimeOf(args.at("call_us"));
    launch.timed = args.at("timed") == "device";
    const auto [name, is_new] = names_->try_emplace(event.at("name"), static_cast<uint32_t>(report_->names.size()));
    if (is_new) report_->names.push_back(name->first);
    launch.name = name->second;
    launch.row = RowOf(event.at("pid"), event.at("tid"));
    report_->launches.push_back(launch);
  }

  void Turn(const json& event, bool begins) {
    const Key key{event.at("pid"), event.at("tid")};
    const int64_t at_ns = TimeOf(event.at("ts"));
    if (const auto open = open_.find(key); open != open_.end()) {
      open->second.end_ns = std::max(at_ns, open->second.start_ns);
      report_->phases.push_back(open->second);
      open_.erase(open);
    }
    const std::optional<Phase> phase = begins ? PhaseOf(event.at("name")) : std::nullopt;
    const auto gpu = gpus_.find(key.first);
    if (!phase || gpu == gpus_.end()) return;
    open_[key] = {.start_ns = at_ns, .end_ns = at_ns, .process = ArbiterProcessOf(key.second), .gpu = gpu->second,
                  .phase = *phase};
  }

  Report* report_;
  std::unordered_map<std::string, uint32_t>* names_;
  bool is_arbiter_ = false;
  int64_t base_ns_ = 0;
  std::map<uint64_t, uint32_t> processes_;  ///< by the pid in this file
  std::map<uint64_t, uint32_t> gpus_;       ///< by the arbiter's number
  std::map<Key, uint32_t> rows_;            ///< by pid and tid
  std::map<Key, std::string> labels_;       ///< of rows, by pid and tid
  std::map<Key, ReportPhase> open_;         ///< by GPU and pid
};

bool IsSkipped(std::string_view line) {
  return std::any_of(std::begin(kSkipped), std::end(kSkipped),
                     [&](std::string_view start) { return line.starts_with(start); });
}

/// What the head of a trace says.
struct Head {
  bool is_arbiter = false;
  int64_t base_ns = 0;
};

Result<Head> ReadHead(const std::string& file, std::string_view line) {
  if (line.empty()) {
    return InputError(ErrorCode::kDamaged, file, "is empty; run the program again with `cupola run --trace FILE -- CMD`");
  }
  if (line.starts_with(kOldHead)) {
    return InputError(ErrorCode::kUnsupported, file, "is a trace of an older Cupola; run the program again with --trace");
  }
  if (!line.starts_with(kHead)) {
    return InputError(ErrorCode::kDamaged, file,
                      "is not a trace of Cupola's; name what `cupola run --trace` or `cupola serve --trace` wrote");
  }
  const json head = json::parse(std::string(line) + "]}", nullptr, /*allow_exceptions=*/false);
  const json facts = head.is_object() ? head.value("cupola", json()) : json();
  if (!facts.is_object() || !facts.value("base_ns", json()).is_number_unsigned()) {
    return InputError(ErrorCode::kDamaged, file, "is cut off in its first line; run the program again with --trace", 1);
  }
  if (facts.value("format", json()) != kTraceFormat) {
    return InputError(ErrorCode::kUnsupported, file,
                      "is a trace of another version of Cupola; use `cupola report` of that version", 1);
  }
  return Head{facts.value("writer", json()) == "cupola serve", facts["base_ns"].get<int64_t>()};
}

/// Reads one file. Slices of the arbiter's that it leaves open are added to `open`.
Status ReadOne(const std::string& file, std::string_view text, Report* report,
               std::unordered_map<std::string, uint32_t>* names, std::vector<ReportPhase>* open) {
  const std::string_view first = text.substr(0, text.find('\n'));
  const Result<Head> head = ReadHead(file, first);
  if (!head) return head.error();
  FileReader reader(report, names);
  reader.Start(head->is_arbiter, head->base_ns);
  report->has_arbiter = report->has_arbiter || head->is_arbiter;
  bool is_whole = false;
  size_t number = 1, at = first.size() + 1;
  for (; at < text.size() && !is_whole; ++number) {
    const size_t end = text.find('\n', at);
    const bool is_cut = end == std::string_view::npos;
    std::string_view line = text.substr(at, is_cut ? end : end - at);
    at = is_cut ? text.size() : end + 1;
    if (line.ends_with(',')) line.remove_suffix(1);
    if (line.empty() || IsSkipped(line)) continue;
    if (line.front() == ']') {
      const json tail = json::parse("{\"traceEvents\":[" + std::string(line), nullptr, false);
      is_whole = tail.is_object();
      if (is_whole) report->dropped += tail.value("otherData", json::object()).value("dropped", uint64_t{0});
      continue;
    }
    try {
      reader.Event(json::parse(line));
    } catch (const json::exception&) {
      if (is_cut) continue;
      return InputError(ErrorCode::kDamaged, file, "is damaged in this line; run the program again with --trace",
                        number + 1);
    }
  }
  if (!is_whole) {
    report->notes.push_back(fmt::format(
        "{}: the trace breaks off in line {}, because its writer was killed or still runs; what came later is missing",
        file, number));
  }
  const std::vector<ReportPhase> left = reader.OpenPhases();
  open->insert(open->end(), left.begin(), left.end());
  return {};
}

void FindSpan(Report* report, std::vector<ReportPhase> open) {
  int64_t begin = std::numeric_limits<int64_t>::max(), end = std::numeric_limits<int64_t>::min();
  for (const ReportLaunch& launch : report->launches) {
    begin = std::min({begin, launch.start_ns, launch.call_ns});
    end = std::max(end, launch.end_ns);
  }
  for (const auto* phases : {&report->phases, &open}) {
    for (const ReportPhase& phase : *phases) {
      begin = std::min(begin, phase.start_ns);
      end = std::max(end, phase.end_ns);
    }
  }
  report->begin_ns = begin;
  report->end_ns = std::max(end, begin + 1);
  for (ReportPhase& phase : open) {
    phase.end_ns = report->end_ns;
    report->phases.push_back(phase);
  }
}

void SayWhatIsMissing(Report* report) {
  if (report->dropped != 0) {
    report->notes.push_back(fmt::format("{} launches are missing: the programs were faster than the writer of the trace",
                                        report->dropped));
  }
  const auto untimed = std::count_if(report->launches.begin(), report->launches.end(), [](const ReportLaunch& launch) {
    return !launch.timed && launch.way != Way::kCaptured && launch.way != Way::kFailed;
  });
  if (untimed != 0) {
    report->notes.push_back(fmt::format(
        "{} launches have no device times and stand where the program called; `cupola run --timing events` takes times",
        untimed));
  }
  if (!report->has_arbiter) {
    report->notes.emplace_back(
        "no trace of the arbiter is among the files: who waited is told by the kernels' times; `cupola serve --trace "
        "FILE` writes what it decided");
  } else if (report->launches.empty()) {
    report->notes.emplace_back("no launches are among the files; `cupola run --trace FILE -- CMD` writes them");
  }
}

}  // namespace

Result<Report> ReadTraces(const std::vector<std::string>& files) {
  Report report;
  report.files = files;
  std::unordered_map<std::string, uint32_t> names;
  std::vector<ReportPhase> open;
  // Launches first, so that the arbiter's processes find theirs.
  std::vector<std::pair<const std::string*, std::string>> arbiters;
  for (const std::string& file : files) {
    Result<std::string> text = ReadFile(file);
    if (!text) return std::move(text).error();
    const Result<Head> head = ReadHead(file, std::string_view(*text).substr(0, text->find('\n')));
    if (!head) return head.error();
    if (head->is_arbiter) {
      arbiters.emplace_back(&file, std::move(text).value());
    } else if (Status read = ReadOne(file, *text, &report, &names, &open); !read) {
      return read.error();
    }
  }
  for (const auto& [file, text] : arbiters) {
    if (Status read = ReadOne(*file, text, &report, &names, &open); !read) return read.error();
  }
  if (report.launches.empty() && report.phases.empty() && open.empty()) {
    return InputError(ErrorCode::kInvalidArgument, files.front(),
                      report.has_arbiter ? "no program has used the GPU in it; start programs by `cupola run`"
                                         : "no launch is in it: the program made none, or Cupola was not in front of its "
                                           "driver (`cupola doctor` says why)");
  }
  if (report.gpus.empty()) report.gpus.emplace_back("GPU");
  FindSpan(&report, std::move(open));
  std::stable_sort(report.launches.begin(), report.launches.end(), [](const ReportLaunch& a, const ReportLaunch& b) {
    return std::pair(a.row, a.start_ns) < std::pair(b.row, b.start_ns);
  });
  std::stable_sort(report.phases.begin(), report.phases.end(),
                   [](const ReportPhase& a, const ReportPhase& b) { return a.start_ns < b.start_ns; });
  SayWhatIsMissing(&report);
  return report;
}

}  // namespace cupola::report
