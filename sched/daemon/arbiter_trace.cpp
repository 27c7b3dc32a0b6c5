#include "sched/daemon/arbiter_trace.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cupola::sched {
namespace {

std::string Quote(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Error TraceError(ErrorCode code, const std::string& path, std::string message) {
  return MakeError(code, std::move(message), Location{.file = path});
}

}  // namespace

const char* PhaseName(ClientPhase phase) {
  switch (phase) {
    case ClientPhase::kWaits: return "waits";
    case ClientPhase::kRuns: return "runs";
    case ClientPhase::kLeaves: return "leaves";
    case ClientPhase::kAbsent:
    case ClientPhase::kIdle: break;
  }
  return "";
}

Result<std::unique_ptr<ArbiterTrace>> ArbiterTrace::Create(const std::string& path, uint64_t base_ns) {
  // O_NONBLOCK: opening a FIFO without a reader fails at once.
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
  struct stat facts {};
  if (fd < 0 || fstat(fd, &facts) != 0) {
    Error error = TraceError(ErrorCode::kIo, path, fmt::format("cannot write the trace: {}", std::strerror(errno)));
    if (fd >= 0) close(fd);
    return error;
  }
  if (!S_ISREG(facts.st_mode)) {
    close(fd);
    return TraceError(ErrorCode::kInvalidArgument, path, "the trace needs a regular file, name another one");
  }
  std::FILE* const file = ftruncate(fd, 0) == 0 ? fdopen(fd, "w") : nullptr;
  if (file == nullptr) {
    close(fd);
    return TraceError(ErrorCode::kIo, path, fmt::format("cannot write the trace: {}", std::strerror(errno)));
  }
  return std::unique_ptr<ArbiterTrace>(new ArbiterTrace(path, file, base_ns));
}

ArbiterTrace::ArbiterTrace(std::string path, std::FILE* file, uint64_t base_ns)
    : path_(std::move(path)), file_(file), base_ns_(base_ns) {
  const std::string head = fmt::format(
      R"({{"displayTimeUnit":"ns","cupola":{{"writer":"cupola serve","format":{},"base_ns":{}}},"traceEvents":[)",
      kFormat, base_ns);
  bytes_ = std::fwrite(head.data(), 1, head.size(), file_);
  std::fflush(file_);
}

ArbiterTrace::~ArbiterTrace() { std::fclose(file_); }

void ArbiterTrace::End(uint64_t now_ns) {
  if (ended_) return;
  while (!open_.empty()) {
    const auto [gpu, pid] = open_.begin()->first;
    AddChange(gpu, {.at_ns = now_ns, .pid = pid, .phase = ClientPhase::kAbsent});
  }
  ended_ = true;
  std::fputs("\n]}\n", file_);
  std::fflush(file_);
}

void ArbiterTrace::Write(const std::string& event) {
  std::fputs(first_ ? "\n" : ",\n", file_);
  bytes_ += std::fwrite(event.data(), 1, event.size(), file_) + 2;
  first_ = false;
}

std::string ArbiterTrace::Micros(uint64_t ns) const {
  const bool before = ns < base_ns_;
  const uint64_t distance = before ? base_ns_ - ns : ns - base_ns_;
  return fmt::format("{}{}.{:03}", before ? "-" : "", distance / 1000, distance % 1000);
}

void ArbiterTrace::AddChange(uint32_t gpu, const PhaseChange& change) {
  if (!change.name.empty()) {
    Write(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", gpu, change.pid,
                      Quote(change.name)));
  }
  ClientPhase& open = open_[{gpu, change.pid}];
  if (open != change.phase && *PhaseName(open) != '\0') {
    Write(fmt::format(R"({{"ph":"E","cat":"arbiter","pid":{},"tid":{},"ts":{}}})", gpu, change.pid,
                      Micros(change.at_ns)));
  }
  if (open != change.phase && *PhaseName(change.phase) != '\0') {
    Write(fmt::format(R"({{"ph":"B","cat":"arbiter","name":"{}","pid":{},"tid":{},"ts":{}}})",
                      PhaseName(change.phase), gpu, change.pid, Micros(change.at_ns)));
  }
  open = change.phase;
  if (open == ClientPhase::kAbsent) open_.erase({gpu, change.pid});
}

Status ArbiterTrace::Add(const std::string& uuid, const std::vector<PhaseChange>& changes) {
  if (ended_ || changes.empty()) return {};
  const auto [gpu, is_new] = gpus_.try_emplace(uuid, static_cast<uint32_t>(gpus_.size() + 1));
  if (is_new) {
    Write(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", gpu->second, Quote(uuid)));
  }
  errno = 0;
  for (const PhaseChange& change : changes) AddChange(gpu->second, change);
  if (std::fflush(file_) != 0 || std::ferror(file_) != 0) {
    ended_ = true;
    return TraceError(ErrorCode::kIo, path_, fmt::format("cannot write the trace, which ends here: {}",
                                                         std::strerror(errno)));
  }
  if (bytes_ < kMostBytes) return {};
  End(changes.back().at_ns);
  return TraceError(ErrorCode::kIo, path_, fmt::format("the trace has reached {} MiB and ends here", kMostBytes >> 20));
}

}  // namespace cupola::sched
