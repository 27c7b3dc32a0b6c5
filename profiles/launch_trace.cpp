#include "profiles/launch_trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "profiles/kernel_name.h"

namespace cupola {
namespace {

// Rows of streams get thread ids above every id that Linux gives out (PID_MAX_LIMIT is 2^22).
constexpr uint64_t kFirstStreamTid = 10'000'000;
// A pid that comes again is shown with this added, once for each time.
constexpr uint64_t kPidStep = 10'000'000;
// Rows of streams stand above the rows of their process's threads.
constexpr uint64_t kThreadRowOrder = 100'000;

Error TraceError(ErrorCode code, const std::string& path, std::string message) {
  return MakeError(code, std::move(message), Location{.file = path});
}

/// `text` as a JSON string with its quotes; bytes that are not UTF-8 are replaced.
std::string Quote(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The file that a link leads to, or `path` itself.
std::string FollowLinks(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string target(real);
  std::free(real);
  return target;
}

std::string KernelArgs(const Launch& launch) {
  std::string text = fmt::format(
      R"("grid":"{}x{}x{}","block":"{}x{}x{}","dynamic_shared_bytes":{},"door":"{}")",
      launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0], launch.block[1],
      launch.block[2], launch.shared_bytes, DoorName(static_cast<uint8_t>(launch.door)));
  if (launch.flags & kFlagCooperative) text += R"(,"cooperative":true)";
  if (launch.flags & kFlagPerThreadStream) text += R"(,"per_thread_stream":true)";
  if (launch.flags & kFlagPackedArgs) text += R"(,"packed_arguments":true)";
  return text;
}

/// The form in which the launch went out, where that is known.
const char* WayOf(const Launch& launch) {
  if ((launch.flags & kFlagWayKnown) == 0) return "unknown";
  if (launch.flags & kFlagPreemptible) return launch.batch == 0 ? "sliced" : "preemptible";
  return launch.flags & kFlagGated ? "gated" : "plain";
}

/// `call_us`: when the program called, as the trace counts time.
std::string Args(const Launch& launch, const std::string& call_us) {
  const bool timed = (launch.flags & kFlagDeviceTimed) != 0;
  const uint64_t call_ns =
      launch.call_end_ns > launch.call_start_ns ? launch.call_end_ns - launch.call_start_ns : 0;
  std::string text = launch.kind == RecordKind::kGraph
                         ? fmt::format(R"("kernel_nodes":{})", launch.kernel_nodes)
                         : KernelArgs(launch);
  text += fmt::format(R"(,"way":"{}","call_us":{},"host_call_ns":{},"timed":"{}")", WayOf(launch), call_us, call_ns,
                      timed ? "device" : "host");
  if (timed && launch.device_end_ns >= launch.device_start_ns) {
    text += fmt::format(R"(,"device_ns":{})", launch.device_end_ns - launch.device_start_ns);
  }
  if (launch.flags & kFlagFailed) text += fmt::format(R"(,"CUresult":{})", launch.result);
  return text;
}

}  // namespace

Result<std::unique_ptr<LaunchTrace>> LaunchTrace::Create(const std::string& path,
                                                         uint64_t base_ns) {
  const std::string target = FollowLinks(path);
  struct stat info {};
  const bool exists = stat(target.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {
    return TraceError(ErrorCode::kInvalidArgument, path,
                     "the trace needs a regular file, name another one");
  }
  if (exists && access(target.c_str(), W_OK) != 0) {
    return TraceError(ErrorCode::kIo, path,
                     fmt::format("cannot write the trace: {}", std::strerror(errno)));
  }
  std::string temporary = target + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) {
    return TraceError(ErrorCode::kIo, path,
                     fmt::format("cannot write the trace: {}", std::strerror(errno)));
  }
  // mkostemp(3) made the file private. The trace gets the rights of the file that it replaces, or
  // those of a new file.
  const mode_t mask = umask(0);
  umask(mask);
  (void)fchmod(fd, exists ? info.st_mode & 0777 : 0666 & ~mask);
  std::FILE* file = fdopen(fd, "w");
  if (file == nullptr) {
    close(fd);
    unlink(temporary.c_str());
    return TraceError(ErrorCode::kIo, path, "cannot write the trace: out of memory");
  }
  return std::unique_ptr<LaunchTrace>(new LaunchTrace(target, temporary, file, base_ns));
}

LaunchTrace::LaunchTrace(std::string path, std::string temporary, std::FILE* file, uint64_t base_ns)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(file), base_ns_(base_ns) {
  const std::string head = fmt::format(
      R"({{"displayTimeUnit":"ns","cupola":{{"writer":"cupola run","format":{},"base_ns":{}}},"traceEvents":[)",
      kTraceFormat, base_ns);
  std::fwrite(head.data(), 1, head.size(), file_);
}

LaunchTrace::~LaunchTrace() {
  if (file_ != nullptr) std::fclose(file_);
  if (!finished_) unlink(temporary_.c_str());
}

void LaunchTrace::Write(const std::string& event) {
  std::fputs(first_ ? "\n" : ",\n", file_);
  std::fwrite(event.data(), 1, event.size(), file_);
  first_ = false;
}

std::string LaunchTrace::Micros(uint64_t ns) const {
  // The format counts in microseconds; three decimals keep the nanoseconds.
  const bool before = ns < base_ns_;
  const uint64_t distance = before ? base_ns_ - ns : ns - base_ns_;
  return fmt::format("{}{}.{:03}", before ? "-" : "", distance / 1000, distance % 1000);
}

void LaunchTrace::NameRow(uint64_t pid, uint64_t tid, const std::string& name, uint64_t order) {
  Write(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                    pid, tid, Quote(name)));
  Write(fmt::format(
      R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
      pid, tid, order));
}

TraceProcessId LaunchTrace::AddProcess(uint32_t pid, const std::string& executable) {
  Process process;
  process.pid = pid;
  while (std::any_of(processes_.begin(), processes_.end(),
                     [&](const Process& other) { return other.pid == process.pid; })) {
    process.pid += kPidStep;
  }
  const std::string base_name = executable.substr(executable.rfind('/') + 1);
  Write(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})",
                    process.pid, Quote(base_name)));
  Write(fmt::format(
      R"({{"ph":"M","name":"process_labels","pid":{},"args":{{"labels":{}}}}})", process.pid,
      Quote(fmt::format("pid {} {}", pid, executable))));
  processes_.push_back(std::move(process));
  return TraceProcessId(static_cast<uint32_t>(processes_.size() - 1));
}

uint64_t LaunchTrace::RowFor(Process& process, const Launch& launch, uint64_t start_ns,
                             uint64_t end_ns) {
  auto context = std::find(process.contexts.begin(), process.contexts.end(), launch.context);
  if (context == process.contexts.end()) {
    process.contexts.push_back(launch.context);
    context = process.contexts.end() - 1;
  }
  const auto context_number = context - process.contexts.begin() + 1;
  StreamRows& rows = process.streams[{launch.context, launch.stream}];
  if (rows.label.empty()) {
    rows.label = launch.stream == 0 ? "default stream" : fmt::format("stream {}", launch.stream);
    if (context_number > 1) rows.label += fmt::format(", context {}", context_number);
  }
  for (size_t i = 0; i < rows.tids.size(); ++i) {
    if (rows.end_ns[i] > start_ns) continue;
    rows.end_ns[i] = std::max(rows.end_ns[i], end_ns);
    return rows.tids[i];
  }
  const uint64_t tid = kFirstStreamTid + process.next_row++;
  const std::string name = rows.tids.empty()
                               ? rows.label
                               : fmt::format("{} (overlap {})", rows.label, rows.tids.size());
  rows.tids.push_back(tid);
  rows.end_ns.push_back(end_ns);
  NameRow(process.pid, tid, name, process.next_row);
  return tid;
}

const std::string& LaunchTrace::KernelName(Process& process, const Launch& launch) {
  auto [entry, is_new] = process.kernels.try_emplace(std::string(launch.name));
  if (is_new) entry->second = Quote(KernelDisplayName(launch.name));
  return entry->second;
}

void LaunchTrace::AddCall(Process& process, const Launch& launch, const std::string& name,
                          uint64_t flow) {
  if (process.threads.insert(launch.thread_id).second) {
    NameRow(process.pid, launch.thread_id, fmt::format("CPU thread {}", launch.thread_id),
            kThreadRowOrder + process.threads.size());
  }
  const uint64_t dur_ns =
      launch.call_end_ns > launch.call_start_ns ? launch.call_end_ns - launch.call_start_ns : 0;
  Write(fmt::format(
      R"({{"ph":"X","cat":"call","name":"{}","pid":{},"tid":{},"ts":{},"dur":{}.{:03},)"
      R"("args":{{"launches":{},"CUresult":{}}}}})",
      DoorName(static_cast<uint8_t>(launch.door)), process.pid, launch.thread_id,
      Micros(launch.call_start_ns), dur_ns / 1000, dur_ns % 1000, name, launch.result));
  if (flow != 0) {
    Write(fmt::format(
        R"({{"ph":"s","cat":"launch","name":"launch","id":{},"pid":{},"tid":{},"ts":{}}})", flow,
        process.pid, launch.thread_id, Micros(launch.call_start_ns)));
  }
}

void LaunchTrace::Add(TraceProcessId id, const Launch& launch) {
  Process& process = processes_[id.value()];
  ++count_;
  const bool timed = (launch.flags & kFlagDeviceTimed) != 0;
  const bool ran = launch.kind != RecordKind::kCapturedKernel && !(launch.flags & kFlagFailed);
  const bool graph = launch.kind == RecordKind::kGraph;
  const std::string name =
      graph ? fmt::format("\"graph ({} kernel nodes)\"", launch.kernel_nodes)
            : KernelName(process, launch);
  AddCall(process, launch, name, timed && ran ? count_ : 0);

  const uint64_t start_ns = timed ? launch.device_start_ns : launch.call_start_ns;
  const uint64_t end_ns =
      std::max(start_ns, timed ? launch.device_end_ns : launch.call_end_ns);
  if (!ran) {
    const uint64_t tid = RowFor(process, launch, UINT64_MAX, 0);
    const char* what = launch.kind == RecordKind::kCapturedKernel ? "captured" : "failed";
    Write(fmt::format(
        R"({{"ph":"i","s":"t","cat":"{}","name":{},"pid":{},"tid":{},"ts":{},)"
        R"("args":{{"{}":true,{}}}}})",
        what, name, process.pid, tid, Micros(launch.call_start_ns), what,
        Args(launch, Micros(launch.call_start_ns))));
    return;
  }
  const uint64_t tid = RowFor(process, launch, start_ns, end_ns);
  const uint64_t dur_ns = end_ns - start_ns;
  Write(fmt::format(
      R"({{"ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{},"dur":{}.{:03},"args":{{{}}}}})",
      graph ? "graph" : "kernel", name, process.pid, tid, Micros(start_ns), dur_ns / 1000,
      dur_ns % 1000, Args(launch, Micros(launch.call_start_ns))));
  if (timed) {
    Write(fmt::format(
        R"({{"ph":"f","bp":"e","cat":"launch","name":"launch","id":{},"pid":{},"tid":{},"ts":{}}})",
        count_, process.pid, tid, Micros(start_ns)));
  }
}

Status LaunchTrace::Finish(const LaunchTotals& totals) {
  const std::string end = fmt::format(
             "\n],\"otherData\":{{\"writer\":\"cupola\",\"launches\":{},\"graph_launches\":{},"
             "\"graph_kernel_nodes\":{},\"captured\":{},\"dropped\":{}}}}}\n",
             totals.launches, totals.graph_launches, totals.graph_kernel_nodes, totals.captured,
             totals.dropped);
  std::fputs(end.c_str(), file_);
  const bool written = std::fflush(file_) == 0 && std::ferror(file_) == 0;
  const int write_errno = errno;
  std::fclose(std::exchange(file_, nullptr));
  if (!written) {
    return TraceError(ErrorCode::kIo, path_,
                     fmt::format("cannot write the trace: {}", std::strerror(write_errno)));
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return TraceError(ErrorCode::kIo, path_,
                     fmt::format("cannot put the trace in place: {}", std::strerror(errno)));
  }
  finished_ = true;
  return {};
}

}  // namespace cupola
