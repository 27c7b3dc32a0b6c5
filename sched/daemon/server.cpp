#include "sched/daemon/server.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "sched/board/attached_descriptor.h"
#include "sched/daemon/control.h"
#include "sched/daemon/peer.h"
#include "sched/daemon/process_facts.h"
#include "sched/daemon/process_names.h"
#include "sched/daemon/watchdog.h"

namespace cupola::sched {
namespace {

constexpr int kHousekeepingMs = 500;
// Each GPU has a descriptor, and each of its boards a thread. Other users stay kMostGpusOfUser below the limit, so that
// the daemon's user and root always find room.
constexpr size_t kMostGpus = 64, kMostGpusOfUser = 16;

bool IsUuid(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '-' || c == '_' || c == '.';
  });
}

template <size_t N>
std::string FieldText(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

/// Takes the first text and its NUL off `texts`; where there is no NUL, all of `texts` is one text.
std::string TakeText(std::string& texts) {
  std::string text = texts.substr(0, texts.find('\0'));
  texts.erase(0, text.size() + 1);
  return text;
}

// The daemon has a descriptor for each process on a board, and the usual soft limit is meant for programs that use
// select().
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// A board is a file in memory, so RLIMIT_FSIZE counts for it too.
void RaiseFileSizeLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_FSIZE, &limit);
  if (limit.rlim_cur >= kBoardBytes) return;
  spdlog::warn("files are limited to {} bytes (ulimit -f), and a board has {}: no program can join",
               static_cast<uint64_t>(limit.rlim_cur), kBoardBytes);
}

}  // namespace

Server::Server(ListeningSocket socket, Config config, std::string config_path, const Surroundings& system)
    : system_(system),
      socket_(std::move(socket)),
      config_(std::move(config)),
      configured_policy_(config_.gpu.policy),
      told_(system),
      config_path_(std::move(config_path)),
      deciding_(config_.scheduling) {}

Result<std::unique_ptr<Server>> Server::Start(const ArbiterPlaces& places, Config config, std::string config_path,
                                              const Surroundings& system) {
  Result<ListeningSocket> socket = ListeningSocket::Open(places, !config.users.empty());
  if (!socket) return std::move(socket).error();
  for (const std::string& warning : config.warnings) spdlog::warn("{}", warning);
  std::unique_ptr<Server> server(
      new Server(std::move(socket).value(), std::move(config), std::move(config_path), system));
  if (Status status = server->Prepare(); !status) return status.error();
  return server;
}

Server::~Server() {
  for (const auto& [fd, connection] : connections_) close(fd);
  for (const auto& [uuid, gpu] : gpus_) WriteTrace(*gpu);
  if (trace_ != nullptr) trace_->End(system_.NowNs());
  gpus_.clear();
  if (spare_ >= 0) close(spare_);
  if (signals_ >= 0) close(signals_);
  if (epoll_ >= 0) close(epoll_);
}

Status Server::Watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return MakeError(ErrorCode::kIo, fmt::format("epoll_ctl: {}", std::strerror(errno)));
}

Status Server::Prepare() {
  RaiseDescriptorLimit();
  KeepSpare();
  RaiseFileSizeLimit();
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (epoll_ < 0 || signals_ < 0) {
    return MakeError(ErrorCode::kIo, fmt::format("cannot serve: {}", std::strerror(errno)));
  }
  if (Status status = Watch(signals_); !status) return status;
  return Watch(socket_.fd());
}

ClientSettings Server::SettingsFor(const ProcessIdentity& process,
                                   const std::string& kernel) const {
  return told_.Over(config_.SettingsFor(process, kernel), process);
}

bool Server::HasKernelRules(const ProcessIdentity& process) const {
  return config_.HasKernelRules(process);
}

Result<GpuArbiter*> Server::GpuFor(const std::string& uuid, const ProcessIdentity& peer) {
  const bool is_own = IsOwn(peer);
  const auto has_enough = [&] {
    const auto known = gpus_.find(uuid);
    const bool is_another = known == gpus_.end() || !known->second->HasBoardOf(peer.uid);
    return !is_own && is_another && GpusOf(peer.uid) >= kMostGpusOfUser;
  };
  const size_t room = is_own ? kMostGpus : kMostGpus - kMostGpusOfUser;
  const auto is_full = [&] { return gpus_.size() >= room && !gpus_.contains(uuid); };
  if (has_enough() || is_full()) DropEmptyGpus();
  if (has_enough()) {
    return MakeError(ErrorCode::kExhausted,
                     fmt::format("user {} has {} GPUs, which is the most that one may have",
                                 peer.user, kMostGpusOfUser));
  }
  if (is_full()) return MakeError(ErrorCode::kExhausted, "too many GPUs");
  std::unique_ptr<GpuArbiter>& gpu = gpus_[uuid];
  if (gpu != nullptr) return gpu.get();
  const SettingsSource* source = this;
  gpu = std::make_unique<GpuArbiter>(uuid, config_.gpu, source, system_, &deciding_);
  if (Status status = Watch(gpu->exits_fd()); !status) {
    gpus_.erase(uuid);
    return status.error();
  }
  if (trace_ != nullptr) gpu->CollectPhases();
  spdlog::info("a board for {}", uuid);
  return gpu.get();
}

size_t Server::GpusOf(uint32_t uid) const {
  const auto count = std::count_if(gpus_.begin(), gpus_.end(),
                                   [uid](const auto& one) { return one.second->HasBoardOf(uid); });
  return static_cast<size_t>(count);
}

void Server::DropEmptyGpus() {
  std::erase_if(gpus_, [this](const auto& one) {
    one.second->CollectExits();
    WriteTrace(*one.second);
    return !one.second->HasClients();
  });
}

bool Server::HandleSignals() {
  signalfd_siginfo info{};
  bool go_on = true;
  while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGHUP) {
      if (const auto notes = Reload(); !notes) {
        spdlog::error("{}; the configuration stays as it was", notes.error().ToString());
      }
    } else {
      go_on = false;
    }
  }
  return go_on;
}

Status Server::LookAfterSocket() {
  const uint64_t now = BoardClockNs();
  if (now < next_look_ns_) return {};
  next_look_ns_ = now + uint64_t{kHousekeepingMs} * 1'000'000;
  if (socket_.IsInPlace()) return {};
  Result<ListeningSocket> again = socket_.OpenAgain();
  if (!again) {
    if (again.error().code == ErrorCode::kExhausted) {
      Error error = std::move(again).error();
      error.message = "the socket of this daemon was taken away, and " + error.message;
      return error;
    }
    if (!is_lost_) {
      spdlog::error("the socket of this daemon was taken away, and no program finds it until there is one again: {}",
                    again.error().ToString());
    }
    is_lost_ = true;
    return {};
  }
  for (int i = 0; i < kMostWaiting / kAcceptedAtOnce; ++i) Accept();  // peers that came by the old socket
  if (Status status = Watch(again->fd()); !status) return status;
  socket_ = std::move(again).value();
  is_lost_ = false;
  spdlog::warn("the socket of this daemon was taken away; there is one again at {}", socket_.path());
  return {};
}

// Run calls this first, and nobody earlier: Probe changes the process's limits, and programs that the daemon starts
// before Run are to have the limits that it was started with.
void Server::SayScheduling() {
  scheduling_ = deciding_.Probe();
  const auto level = scheduling_.why.empty() ? spdlog::level::info : spdlog::level::warn;
  spdlog::log(level, "{}", DecidingClass::Describe(scheduling_));
}

void Server::LookAtGuard() {
  const uint64_t stops = DecidingClass::Stops();
  if (stops == std::exchange(told_stops_, stops)) return;
  spdlog::error("a thread that decides ran for {} ms without a pause and has lost its real-time priority, until the "
                "configuration is read again",
                DecidingClass::kLongestRunUs / 1000);
}

Status Server::Run() {
  SayScheduling();
  Watchdog watchdog([this] { socket_.Remove(); });
  for (;;) {
    epoll_event events[32];
    watchdog.Rest();
    const int count = epoll_wait(epoll_, events, 32, kHousekeepingMs);
    watchdog.Begin();
    if (count < 0 && errno != EINTR) {
      return MakeError(ErrorCode::kIo, fmt::format("epoll_wait: {}", std::strerror(errno)));
    }
    bool exits = count == 0;
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == signals_) {
        if (!HandleSignals()) return {};
      } else if (fd == socket_.fd()) {
        Accept();
      } else if (const auto found = connections_.find(fd); found != connections_.end()) {
        Connection& connection = found->second;
        const bool stays = connection.answer.IsEmpty() ? Serve(connection) : SendAnswer(connection);
        if (!stays) Drop(fd);
      } else {
        exits = true;
      }
    }
    if (exits) KeepHouse();
    WriteTraceWhenDue(exits);
    DropIdle();
    LookAtGuard();
    if (Status status = LookAfterSocket(); !status) return status;
  }
}

void Server::KeepHouse() {
  for (const auto& [uuid, gpu] : gpus_) gpu->CollectExits();
  told_.DropEnded();
}

void Server::WriteTraceWhenDue(bool is_called) {
  if (trace_ == nullptr) return;
  const uint64_t now = BoardClockNs();
  if (!is_called && now < next_trace_ns_) return;
  next_trace_ns_ = now + uint64_t{kHousekeepingMs} * 1'000'000;
  for (const auto& [uuid, gpu] : gpus_) WriteTrace(*gpu);
}

void Server::WriteTrace(GpuArbiter& gpu) {
  if (trace_ == nullptr) return;
  if (const Status written = trace_->Add(gpu.uuid(), gpu.TakePhases()); !written) {
    spdlog::error("{}", written.error().ToString());
  }
}

uint64_t Server::Review() {
  uint64_t next = kNever;
  for (const auto& [uuid, gpu] : gpus_) next = std::min(next, gpu->Review());
  return next;
}

bool Server::Serve(Connection& connection) {
  static thread_local std::vector<char> bytes(kMaxMessage + 1);
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control;
  packet.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(connection.fd, &packet, MSG_CMSG_CLOEXEC);
  if (size < 0) {
    if (errno == EAGAIN || errno == EINTR) return true;
    if (errno == ECONNRESET) Withdraw(connection);  // the peer left an answer unread (unix_release_sock)
    return false;
  }
  const int descriptor = TakeDescriptor(packet);
  BoardMemory brought;
  const char* why = "";
  if (descriptor >= 0) brought = BoardMemory::Map(descriptor, &why);
  if (size == 0) return false;
  connection.last_ns = BoardClockNs();
  connection.has_spoken = true;
  MessageHead head;
  if (static_cast<size_t>(size) < sizeof(head)) {
    return Refuse(connection, JoinStatus::kBadMessage, "the message is too short");
  }
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (head.magic != kMessageMagic || head.bytes != static_cast<size_t>(size)) {
    return Refuse(connection, JoinStatus::kBadMessage, "that is no message of Cupola");
  }
  if (head.version != kProtocolVersion) {
    return Refuse(connection, JoinStatus::kBadVersion,
                  fmt::format("the client speaks version {}, the daemon version {}", head.version,
                              kProtocolVersion));
  }
  if (head.type == static_cast<uint16_t>(MessageType::kControl)) {
    return ServeControl(connection,
                        std::string(bytes.data() + sizeof(head), head.bytes - sizeof(head)));
  }
  JoinMessage message;
  if (head.type != static_cast<uint16_t>(MessageType::kJoin) ||
      static_cast<size_t>(size) < sizeof(message) ||
      static_cast<size_t>(size) > sizeof(message) + kMostJoinTexts) {
    return Refuse(connection, JoinStatus::kBadMessage, "the message is of an unknown kind");
  }
  std::memcpy(&message, bytes.data(), sizeof(message));
  if (descriptor >= 0 && !brought) return Refuse(connection, JoinStatus::kNoBoard, why);
  const std::string texts(bytes.data() + sizeof(message), head.bytes - sizeof(message));
  return ServeJoin(connection, message, texts, std::move(brought));
}

bool Server::ServeJoin(Connection& connection, const JoinMessage& message, std::string texts,
                       BoardMemory brought) {
  ProcessIdentity process = connection.peer;
  if (process.executable.empty()) process.executable = FieldText(message.executable);
  process.label = TakeText(texts);
  if (process.label.empty()) process.label = FieldText(message.label);
  StartWords words;
  words.started_as = TakeText(texts);
  words.folder = TakeText(texts);
  words.command_line = std::move(texts);
  process.TakeNames(NamesOf(process.pid, words));
  if (HasHungUp(connection.fd)) return false;  // the process may be here again, by another connection
  const std::string uuid = FieldText(message.gpu_uuid);
  const Admission admission = Join(process, uuid, message, std::move(brought));
  if (admission.status != JoinStatus::kAccepted) {
    return Refuse(connection, admission.status, admission.reason);
  }
  spdlog::info("process {} ({}) of {} has slot {} of {}", process.pid, process.executable,
               process.user, admission.slot, uuid);
  JoinAnswer answer;
  answer.slot = admission.slot;
  config_.FillVariants(process, answer);
  connection.gpu = uuid;
  connection.admission = admission.number;
  if (Answer(connection, answer, admission.board_fd)) return true;
  Withdraw(connection);
  return false;
}

Admission Server::Join(const ProcessIdentity& process, const std::string& uuid, const JoinMessage& message,
                       BoardMemory brought) {
  if (!config_.Admits(process, geteuid())) return {JoinStatus::kForeignUser, Config::RefusalOf(process)};
  if (!IsUuid(uuid)) return {JoinStatus::kBadMessage, "the message names no GPU"};
  const Result<GpuArbiter*> gpu = GpuFor(uuid, process);
  if (!gpu) return {JoinStatus::kFailed, gpu.error().message};
  return (*gpu)->Admit(process, message.capabilities, message.sm_count, std::move(brought), message.slot);
}

void Server::Withdraw(const Connection& connection) {
  const auto gpu = gpus_.find(connection.gpu);
  if (connection.admission != 0 && gpu != gpus_.end()) gpu->second->Withdraw(connection.admission);
}

bool Server::Refuse(const Connection& connection, JoinStatus status, const std::string& reason) {
  const auto level = status == JoinStatus::kFull ? spdlog::level::warn : spdlog::level::info;
  spdlog::log(level, "process {} ({}) is refused: {}", connection.peer.pid, connection.peer.executable,
              reason);
  Tell(connection, status, reason);
  return false;
}

void Server::Tell(const Connection& connection, JoinStatus status, const std::string& reason) {
  JoinAnswer answer;
  answer.status = static_cast<uint32_t>(status);
  reason.copy(answer.reason, sizeof(answer.reason) - 1);
  Answer(connection, answer, -1);
}

bool Server::Answer(const Connection& connection, const JoinAnswer& wanted, int board_fd) {
  JoinAnswer answer = wanted;
  answer.head.type = static_cast<uint16_t>(MessageType::kJoined);
  answer.head.bytes = sizeof(answer);
  iovec part{&answer, sizeof(answer)};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  const AttachedDescriptor attached(packet, board_fd);
  return sendmsg(connection.fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(answer);
}

bool Server::ServeControl(Connection& connection, const std::string& request) {
  connection.answer.Put(ControlRequests(*this).Handle(connection.peer, request));
  return SendAnswer(connection);
}

// A peer that reads slowly has no other request served until it has its answer.
bool Server::SendAnswer(Connection& connection) {
  if (!connection.answer.Send(connection.fd)) return false;
  connection.last_ns = BoardClockNs();
  epoll_event event{};
  event.events = connection.answer.IsEmpty() ? EPOLLIN : EPOLLOUT;
  event.data.fd = connection.fd;
  return epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event) == 0;
}

}  // namespace cupola::sched
