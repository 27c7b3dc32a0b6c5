#include "sched/board/board_client.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sched/board/attached_descriptor.h"
#include "sched/board/socket_path.h"

namespace cupola::sched {
namespace {

// Poll looks for a daemon no more often than this, and waits for an answer no longer than kRejoinTimeoutMs.
constexpr uint64_t kRetryNs = 1'000'000'000;
constexpr uint32_t kRejoinTimeoutMs = 50;

/// Copies as much of `from` as fits into `to`, and fills the rest with NULs; the last byte is always NUL.
template <size_t N>
void Copy(char (&to)[N], const char* from) {
  const size_t length = from != nullptr ? strnlen(from, N - 1) : 0;
  std::memset(to, 0, N);
  if (length != 0) std::memcpy(to, from, length);
}

/// The time on CLOCK_MONOTONIC by which an exchange with the daemon must be over.
class Deadline {
 public:
  explicit Deadline(uint32_t timeout_ms) : end_(BoardClockNs() + uint64_t{timeout_ms} * 1'000'000) {}
  int RemainingMs() const {
    const uint64_t now = BoardClockNs();
    return now >= end_ ? 0 : static_cast<int>((end_ - now + 999'999) / 1'000'000);
  }

 private:
  uint64_t end_;
};

/// Waits until `fd` is ready for `events` (of poll(2)). False: the time is over.
bool WaitFor(int fd, short events, const Deadline& deadline) {
  for (;;) {
    pollfd wanted{fd, events, 0};
    const int ready = poll(&wanted, 1, deadline.RemainingMs());
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

/// Returns a connected socket, or -1 with `result` set. Unless `any_owner`, the process that listens must belong to
/// this user or to root. A Unix socket connects at once or not at all; where the daemon's backlog is full (EAGAIN),
/// tries again each millisecond until the time is over.
int ConnectTo(const char* path, bool any_owner, const Deadline& deadline, JoinResult& result) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    result = JoinResult::kNoDaemon;
    return -1;
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  Copy(address.sun_path, path);
  while (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    const bool full = errno == EAGAIN;
    if ((!full && errno != EINTR) || deadline.RemainingMs() == 0) {
      result = full ? JoinResult::kTimedOut : JoinResult::kNoDaemon;
      close(fd);
      return -1;
    }
    if (full) poll(nullptr, 0, 1);
  }
  if (!any_owner && !IsTrustedPeer(fd)) {
    result = JoinResult::kNoDaemon;
    close(fd);
    return -1;
  }
  return fd;
}

/// Sends the message and, behind it in the same packet, as many bytes of `texts` as `message.head.bytes` counts beyond
/// the message. `board_fd`: the descriptor of the board that the process brings; -1 = it brings none. False: nothing
/// was sent.
bool SendJoin(int fd, const JoinMessage& message, const char* texts, int board_fd, const Deadline& deadline) {
  iovec parts[2] = {{const_cast<JoinMessage*>(&message), sizeof(message)},
                    {const_cast<char*>(texts), message.head.bytes - sizeof(message)}};
  msghdr packet{};
  packet.msg_iov = parts;
  packet.msg_iovlen = 2;
  const AttachedDescriptor attached(packet, board_fd);
  for (;;) {
    if (sendmsg(fd, &packet, MSG_NOSIGNAL) >= 0) return true;
    if (errno != EAGAIN && errno != EINTR) return false;
    if (!WaitFor(fd, POLLOUT, deadline)) return false;
  }
}

/// Receives one answer; `board_fd` is -1 where no descriptor came with it. Returns the answer's size, 0 when the daemon
/// hung up, -1 when the time is over.
ssize_t ReceiveAnswer(int fd, JoinAnswer& answer, int& board_fd, const Deadline& deadline) {
  iovec part{&answer, sizeof(answer)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control;
  packet.msg_controllen = sizeof(control);
  board_fd = -1;
  ssize_t size = -1;
  do {
    if (!WaitFor(fd, POLLIN, deadline)) return -1;
    size = recvmsg(fd, &packet, MSG_CMSG_CLOEXEC);
  } while (size < 0 && (errno == EAGAIN || errno == EINTR));
  for (cmsghdr* head = CMSG_FIRSTHDR(&packet); head != nullptr; head = CMSG_NXTHDR(&packet, head)) {
    if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int))) {
      std::memcpy(&board_fd, CMSG_DATA(head), sizeof(int));
    }
  }
  return size < 0 ? 0 : size;
}

/// Whether the answer is complete. Ends its texts with a NUL, whatever came.
bool IsAnswer(JoinAnswer& answer, ssize_t size) {
  answer.reason[sizeof(answer.reason) - 1] = '\0';
  for (KernelRule& rule : answer.kernels) rule.pattern[sizeof(rule.pattern) - 1] = '\0';
  return size == sizeof(answer) && answer.head.magic == kMessageMagic &&
         answer.head.type == static_cast<uint16_t>(MessageType::kJoined) &&
         answer.head.bytes == sizeof(answer);
}

}  // namespace

const char* VariantName(VariantChoice choice) {
  switch (choice) {
    case VariantChoice::kAuto: return "auto";
    case VariantChoice::kOriginal: return "original";
    case VariantChoice::kPreemptible: return "preemptible";
    case VariantChoice::kSliced: return "sliced";
  }
  return "auto";
}

// Fills texts_ with the texts that follow a JoinMessage, in the order that protocol.h gives: the label, the path by
// which the program was started, the working directory, the command line. For a file that was opened and not named
// (fexecve(3)), AT_EXECFN is a name that the kernel made up and says nothing.
void BoardClient::GatherTexts(const JoinRequest& request) {
  size_t used = 0;
  const auto add = [&](const char* text) {
    const size_t length = text != nullptr ? strnlen(text, kMostJoinText - 1) : 0;
    if (length != 0) std::memcpy(texts_ + used, text, length);
    texts_[used + length] = '\0';
    used += length + 1;
  };
  add(request.label);
  const char* started_as = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  const bool says_nothing = started_as != nullptr && (std::strncmp(started_as, "/proc/", 6) == 0 ||
                                                      std::strncmp(started_as, "/dev/fd/", 8) == 0);
  add(says_nothing ? nullptr : started_as);
  if (getcwd(texts_ + used, kMostJoinText) == nullptr) texts_[used] = '\0';
  used += std::strlen(texts_ + used) + 1;
  const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t size = fd >= 0 ? read(fd, texts_ + used, kMostJoinText) : 0;
  if (fd >= 0) close(fd);
  if (size > 0) used += static_cast<size_t>(size);
  message_.head.bytes = static_cast<uint32_t>(sizeof(message_) + used);
}

JoinResult BoardClient::Join(const JoinRequest& request) {
  if (joined()) return JoinResult::kJoined;
  message_ = JoinMessage{};
  message_.head.type = static_cast<uint16_t>(MessageType::kJoin);
  message_.capabilities = request.capabilities;
  message_.sm_count = request.sm_count;
  Copy(message_.gpu_uuid, request.gpu_uuid);
  Copy(message_.executable, request.executable);
  Copy(message_.label, request.label);
  GatherTexts(request);
  places_ = request.socket_path != nullptr ? NamedPlace(request.socket_path) : FindArbiterPlaces();
  if (places_.count == 0) {
    Copy(reason_, places_.problem);
    return JoinResult::kNoDaemon;
  }
  return Exchange(request.timeout_ms);
}

JoinResult BoardClient::AskAgain(uint32_t timeout_ms) {
  if (joined()) return JoinResult::kJoined;
  return places_.count != 0 ? Exchange(timeout_ms) : JoinResult::kNoDaemon;
}

// Sends message_ to the first of places_ where a trusted process listens, and acts on its answer. A process that has
// joined brings the board that it has.
JoinResult BoardClient::Exchange(uint32_t timeout_ms) {
  reason_[0] = '\0';
  const int own_board = joined() ? memory_.fd() : -1;
  if (joined() && own_board < 0) {
    Copy(reason_, "the program has closed the descriptor of the board");
    return JoinResult::kNoDaemon;
  }
  const Deadline deadline(timeout_ms);
  JoinResult result = JoinResult::kNoDaemon;
  int fd = -1;
  for (uint32_t i = 0; i < places_.count && fd < 0 && result == JoinResult::kNoDaemon; ++i) {
    fd = ConnectTo(places_.paths[i], places_.is_named, deadline, result);
  }
  if (fd < 0) return result;
  int board_fd = -1;
  // Where sending failed, the daemon may have answered with a refusal before it hung up, so the answer is read anyway.
  const bool sent = SendJoin(fd, message_, texts_, own_board, deadline);
  const ssize_t size = ReceiveAnswer(fd, answer_, board_fd, deadline);
  close(fd);
  if (size < 0) {
    Copy(reason_, "the arbiter does not answer");
    return JoinResult::kTimedOut;
  }
  if (size == 0 && !sent) return JoinResult::kNoDaemon;
  if (!IsAnswer(answer_, size)) {
    if (board_fd >= 0) close(board_fd);
    Copy(reason_, "what the arbiter answers is not of this version");
    return JoinResult::kBadAnswer;
  }
  return Accept(answer_, board_fd);
}

// `fd`: the board's descriptor that came with the answer, or -1. Takes it over: maps it or closes it.
JoinResult BoardClient::Accept(const JoinAnswer& answer, int fd) {
  if (answer.status != static_cast<uint32_t>(JoinStatus::kAccepted)) {
    if (fd >= 0) close(fd);
    Copy(reason_, answer.reason);
    return JoinResult::kRefused;
  }
  if (joined()) {  // the daemon took over the board that this process brought
    if (fd >= 0) close(fd);
    present_ = true;
    daemon_pid_ = board().header().daemon_pid.load();
    CompareClocks();
    return JoinResult::kJoined;
  }
  const char* why = "the answer came without a board";
  BoardMemory memory = fd >= 0 ? BoardMemory::Map(fd, &why) : BoardMemory();
  if (!memory || answer.slot >= kBoardSlots) {
    Copy(reason_, memory ? "the answer names no slot" : why);
    return JoinResult::kBadAnswer;
  }
  memory_ = static_cast<BoardMemory&&>(memory);
  index_ = answer.slot;
  slot_pid_ = slot().pid.load();
  slot_start_ = slot().process_start.load();
  joined_as_ = getpid();
  present_ = true;
  daemon_pid_ = board().header().daemon_pid.load();
  CompareClocks();
  return JoinResult::kJoined;
}

// Finds out whether the board's clock is this process's, and makes a first estimate of the difference where it is not.
// Where a time namespace cannot be known, the two clocks count as one if they differ by less than kSilenceNs, the age
// that a living daemon's sign of life may have.
void BoardClient::CompareClocks() {
  const uint64_t now_ns = BoardClockNs();
  const BoardHeader& header = board().header();
  const uint64_t own = ClockNamespace(), others = header.clock_namespace.load();
  const auto apart_ns = static_cast<int64_t>(header.daemon_beat_ns.load() - now_ns);
  const bool seem_one = apart_ns > -static_cast<int64_t>(kSilenceNs) && apart_ns < static_cast<int64_t>(kSilenceNs);
  has_own_clock_ = own != 0 && others != 0 ? own != others : !seem_one;
  clock_offset_.store(has_own_clock_ ? static_cast<uint64_t>(apart_ns) : 0);
}

// Makes the estimated difference of the clocks more exact. A sign of life is at most as late as the present time on the
// board's clock, so the difference "sign of life less own time" is never too large, and the largest that was seen is
// the most exact one. The cast to a signed number compares differences that may be negative.
void BoardClient::LookAtBeat(uint64_t now_ns) {
  if (!has_own_clock_) return;
  const uint64_t apart_ns = board().header().daemon_beat_ns.load() - now_ns;
  const uint64_t known_ns = clock_offset_.load(std::memory_order_relaxed);
  if (static_cast<int64_t>(apart_ns - known_ns) > 0) clock_offset_.store(apart_ns, std::memory_order_relaxed);
}

// A daemon that is well gives a sign of life every 250 ms, so kSilenceNs / 6 (500 ms) is enough without a look at its
// process. An older sign counts up to kSilenceNs if the process of the daemon's pid exists. From another PID namespace
// it cannot be seen, and the daemon counts as absent earlier.
bool BoardClient::DaemonIsWell(uint64_t board_now_ns) const {
  const BoardHeader& header = board().header();
  const uint32_t pid = header.daemon_pid.load();
  if (pid == 0) return false;
  const uint64_t beat = header.daemon_beat_ns.load();
  if (board_now_ns < beat + kSilenceNs / 6) return true;
  if (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return false;
  return board_now_ns < beat + kSilenceNs;
}

bool BoardClient::owns_slot() const {
  return slot().pid.load() == slot_pid_ && slot().process_start.load() == slot_start_ &&
         getpid() == joined_as_;
}

DaemonState BoardClient::Poll(uint64_t now_ns) {
  if (!joined() || !owns_slot()) return DaemonState::kNone;
  LookAtBeat(now_ns);
  if (DaemonIsWell(OnBoard(now_ns))) {
    present_ = true;
    // Another process has brought this board to a new daemon. This process brings it too, because the new daemon does
    // not know this process's label yet.
    if (board().header().daemon_pid.load() != daemon_pid_ && now_ns >= next_attempt_ns_) {
      next_attempt_ns_ = now_ns + kRetryNs;
      Rejoin(kRejoinTimeoutMs);
    }
    return DaemonState::kPresent;
  }
  if (present_) {  // the daemon's absence has just begun: look for another one at once
    present_ = false;
    next_attempt_ns_ = now_ns;
  }
  // At each Poll, because a stuck daemon may have gone on for a moment and asked again.
  DropDaemonHolds(board(), index_);
  DropStaleRequests(board(), index_, OnBoard(now_ns));
  if (now_ns < next_attempt_ns_) return DaemonState::kAbsent;
  next_attempt_ns_ = now_ns + kRetryNs;
  return Rejoin(kRejoinTimeoutMs) == JoinResult::kJoined ? DaemonState::kPresent
                                                         : DaemonState::kAbsent;
}

JoinResult BoardClient::Rejoin(uint32_t timeout_ms) {
  if (!joined()) return JoinResult::kNoDaemon;
  message_.slot = index_;
  return Exchange(timeout_ms);
}

void BoardClient::LeaveMapped() {
  if (!joined() || !owns_slot()) return;
  EndDemand(board(), index_);
  // At each slot, because a thread that was in the middle of asking may have set a bit after EndDemand.
  for (uint32_t victim = 0; victim < kBoardSlots; ++victim) ClearRequest(board(), victim, index_);
  // Only from kLive: the daemon may have freed the slot in the meantime.
  auto live = static_cast<uint32_t>(SlotState::kLive);
  slot().state.compare_exchange_strong(live, static_cast<uint32_t>(SlotState::kLeft));
  RingBell(board().header());
}

void BoardClient::Leave() {
  LeaveMapped();
  memory_.Close();
  present_ = false;
}

void BoardClient::ForgetAfterFork() {
  memory_.Close();
  present_ = false;
}

// Of the rules that match the kernel's name the last one counts, as in the configuration.
VariantChoice BoardClient::VariantFor(const char* kernel) const {
  if (!joined()) return VariantChoice::kAuto;
  uint32_t choice = answer_.variant;
  for (uint32_t i = 0; i < answer_.kernel_rules && i < kMaxKernelRules; ++i) {
    if (fnmatch(answer_.kernels[i].pattern, kernel, 0) == 0) choice = answer_.kernels[i].variant;
  }
  return choice <= static_cast<uint32_t>(VariantChoice::kSliced) ? static_cast<VariantChoice>(choice)
                                                                 : VariantChoice::kAuto;
}

}  // namespace cupola::sched
