#include "cli/launch_collector.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/settings/variables.h"

namespace cupola {
namespace {

namespace fs = std::filesystem;

// How long the collector's thread rests when no process has left it a record. Even at ten million launches a second of
// one process, its ring of 65536 records takes longer than this to fill. (A lane is smaller, but what does not fit into
// a lane goes to the ring: profiles/launch_record.h.)
constexpr auto kRest = std::chrono::milliseconds(5);

uint64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

/// Whether the process has ended. Where another process has got its pid by now, this is false; then the ended process's
/// file is closed only in Finish().
bool IsGone(uint32_t pid) { return kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH; }

/// The file that a `cupola run` or `cupola profile` makes in the folder of an outer one when it collects the launches
/// of its program itself. The outer command can then say why it saw none of them. The name begins with a dot, so that
/// the file is not taken for one of records.
constexpr char kTakenName[] = ".taken";

}  // namespace

std::string OuterRecords() {
  const char* folder = settings::Text("CUPOLA_RECORDS");
  struct stat facts {};
  const bool is_there = folder != nullptr && folder[0] == '/' && stat(folder, &facts) == 0 &&
                        S_ISDIR(facts.st_mode) && facts.st_uid == geteuid();
  return is_there ? folder : "";
}

Result<std::unique_ptr<LaunchCollector>> LaunchCollector::Create(const std::string& trace_file,
                                                                 LaunchObserver* observer) {
  std::unique_ptr<LaunchTrace> trace;
  if (!trace_file.empty()) {
    auto created = LaunchTrace::Create(trace_file, MonotonicNs());
    if (!created) return std::move(created).error();
    trace = std::move(created).value();
  }
  auto folder = PrivateFolder::Make(PrivateFolder::First::kMemory);
  if (!folder) return std::move(folder).error();
  if (const std::string outer = OuterRecords(); !outer.empty()) {
    std::ofstream(outer + "/" + kTakenName, std::ios::app);
  }
  std::unique_ptr<LaunchCollector> collector(new LaunchCollector(std::move(folder).value()));
  collector->trace_ = std::move(trace);
  collector->observer_ = observer;
  return collector;
}

LaunchCollector::~LaunchCollector() { EndThread(); }

bool LaunchCollector::is_taken_within() const {
  return access((folder() + "/" + kTakenName).c_str(), F_OK) == 0;
}

void LaunchCollector::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void LaunchCollector::EndThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

// `mutex_` guards only stop_. All else belongs to this thread while it runs, and before and after that to the thread
// that made the collector.
void LaunchCollector::Loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    const size_t got = Poll(/*last=*/false);
    lock.lock();
    if (got == 0) wake_.wait_for(lock, kRest, [this] { return stop_; });
  }
}

// Each process that launches makes one file in the folder. `last`: the call of Finish(), in which a folder that cannot
// be read is a problem for the user; before that, the next call tries again.
void LaunchCollector::OpenNewFiles(bool last) {
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder(), failure)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".") || sources_.contains(name) || closed_.contains(name)) continue;
    auto reader = LaunchRingReader::Open(entry.path().string());
    if (!reader) {
      // The file is not ready, because a process is making it: the next call tries again. If that process was killed
      // meanwhile, it had launched nothing, so the file need not be read in Finish() either.
      if (reader.error().code == ErrorCode::kExhausted) continue;
      problems_.push_back(std::move(reader).error());
      closed_.insert(name);
      continue;
    }
    Source source{std::move(reader).value(), TraceProcessId()};
    if (trace_)
      source.process = trace_->AddProcess(source.reader->pid(), source.reader->executable());
    sources_.emplace(name, std::move(source));
  }
  if (failure && last) {
    problems_.push_back(MakeError(ErrorCode::kIo, "cannot read the folder of launch records: " +
                                                      failure.message()));
  }
}

// Reads the records that are there now. An error of the reader is added to problems_.
size_t LaunchCollector::DrainSource(Source& source, WriterState state) {
  auto count = source.reader->Drain(state, [&](const Launch& launch) {
    summary_.Add(launch);
    if (trace_) trace_->Add(source.process, launch);
    if (observer_ != nullptr) observer_->Add(*source.reader, launch);
  });
  if (count) {
    read_ += *count;
    return *count;
  }
  problems_.push_back(std::move(count).error());
  return 0;
}

// The source gets no further look: takes its totals over and removes its file.
void LaunchCollector::Close(const std::string& name, Source& source) {
  const LaunchTotals totals = source.reader->totals();
  totals_.launches += totals.launches;
  totals_.graph_launches += totals.graph_launches;
  totals_.graph_kernel_nodes += totals.graph_kernel_nodes;
  totals_.captured += totals.captured;
  totals_.dropped += totals.dropped;
  if (observer_ != nullptr) observer_->Close(*source.reader, folder());
  closed_.insert(name);
  unlink((folder() + "/" + name).c_str());  // the folder may lie in memory, which this frees
}

// `last`: the call of Finish(). It closes the files of processes that still run too; what those launch later is not
// collected.
size_t LaunchCollector::Poll(bool last) {
  OpenNewFiles(last);
  size_t total = 0;
  for (auto it = sources_.begin(); it != sources_.end();) {
    Source& source = it->second;
    // Whether the process has ended must be asked before its records are read: only then are all its records there to
    // be read, and the file can be closed.
    const bool gone = last || IsGone(source.reader->pid());
    const size_t problems = problems_.size();
    total += DrainSource(source, gone ? WriterState::kGone : WriterState::kAlive);
    const bool damaged = problems_.size() != problems;  // DrainSource has added a problem: nothing more can be read
    if (gone || damaged) {
      Close(it->first, source);
      it = sources_.erase(it);
    } else {
      ++it;
    }
  }
  return total;
}

Status LaunchCollector::Finish() {
  EndThread();
  Poll(/*last=*/true);
  return trace_ ? trace_->Finish(totals_) : Status();
}

}  // namespace cupola
