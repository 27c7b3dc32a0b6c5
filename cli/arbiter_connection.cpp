#include "cli/arbiter_connection.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>

#include "sched/board/protocol.h"
#include "sched/board/socket_path.h"

namespace cupola {
namespace {

using sched::MessageHead;

Error At(const std::string& path, ErrorCode code, std::string message) {
  return MakeError(code, std::move(message), Location{.file = path});
}

/// The daemon's reason, if the packet refuses the connection; "" if it is another packet.
std::string RefusalIn(const std::vector<char>& packet, ssize_t size) {
  sched::JoinAnswer answer;
  if (size != static_cast<ssize_t>(sizeof(answer))) return "";
  std::memcpy(&answer, packet.data(), sizeof(answer));
  const bool is_refusal = answer.head.magic == sched::kMessageMagic &&
                          answer.head.type == static_cast<uint16_t>(sched::MessageType::kJoined);
  return is_refusal ? std::string(answer.reason, strnlen(answer.reason, sizeof(answer.reason)))
                    : "";
}

/// Connects to the socket at `path`. Errors: kNotFound when nobody listens there, or the listener is not to be trusted
/// (not checked with `any_owner`); kIo.
Result<int> Connect(const char* path, bool any_owner) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, strnlen(path, sizeof(address.sun_path) - 1));
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return At(path, ErrorCode::kIo, std::strerror(errno));
  const timeval timeout{.tv_sec = 2, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  // With a time limit on the socket, the system does not restart an interrupted call (signal(7)), and a signal tells
  // `cupola top` that the size of its terminal has changed.
  const long failed = TEMP_FAILURE_RETRY(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)));
  if (failed == 0 && (any_owner || sched::IsTrustedPeer(fd))) return fd;
  const int reason = failed != 0 ? errno : ENOENT;
  close(fd);
  if (reason == ENOENT || reason == ENOTDIR || reason == ECONNREFUSED) {
    return At(path, ErrorCode::kNotFound, "no arbiter is running here; start one: cupola serve");
  }
  return At(path, ErrorCode::kIo, fmt::format("cannot connect: {}", std::strerror(reason)));
}

}  // namespace

Result<ArbiterConnection> ArbiterConnection::Open(const std::string& socket) {
  if (socket.size() >= sched::kSocketPathBytes) {
    return At(socket, ErrorCode::kInvalidArgument, "the path of the socket is too long");
  }
  if (!socket.empty()) {
    Result<int> fd = Connect(socket.c_str(), true);
    if (!fd) return std::move(fd).error();
    return ArbiterConnection(*fd, socket);
  }
  const sched::ArbiterPlaces places = sched::FindArbiterPlaces();
  std::optional<Error> error;  // of the first place with an error other than kNotFound, else of the first place
  for (uint32_t i = 0; i < places.count; ++i) {
    Result<int> fd = Connect(places.paths[i], places.is_named);
    if (fd) return ArbiterConnection(*fd, places.paths[i]);
    const bool tells_more = error && error->code == ErrorCode::kNotFound && fd.error().code != ErrorCode::kNotFound;
    if (!error || tells_more) error = std::move(fd).error();
  }
  return error.value_or(MakeError(ErrorCode::kInvalidArgument, places.problem != nullptr ? places.problem : ""));
}

ArbiterConnection::~ArbiterConnection() {
  if (fd_ >= 0) close(fd_);
}

Result<nlohmann::json> ArbiterConnection::Ask(const nlohmann::json& request) {
  const std::string text = request.dump();
  MessageHead head;
  head.type = static_cast<uint16_t>(sched::MessageType::kControl);
  head.bytes = static_cast<uint32_t>(sizeof(head) + text.size());
  std::vector<char> packet(head.bytes);
  std::memcpy(packet.data(), &head, sizeof(head));
  text.copy(packet.data() + sizeof(head), text.size());
  // An error of send is ignored: a daemon that has hung up may have sent its reason, which is read below.
  (void)!TEMP_FAILURE_RETRY(send(fd_, packet.data(), packet.size(), MSG_NOSIGNAL));
  std::string answer;
  do {
    packet.resize(sched::kMaxMessage);
    const ssize_t size = TEMP_FAILURE_RETRY(recv(fd_, packet.data(), packet.size(), 0));
    if (size < static_cast<ssize_t>(sizeof(head))) {
      return At(path_, ErrorCode::kIo,
                size == 0 ? "the arbiter has hung up" : "the arbiter does not answer");
    }
    std::memcpy(&head, packet.data(), sizeof(head));
    if (const std::string reason = RefusalIn(packet, size); !reason.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, reason);
    }
    if (head.magic != sched::kMessageMagic || head.version != sched::kProtocolVersion ||
        head.type != static_cast<uint16_t>(sched::MessageType::kAnswer)) {
      return At(path_, ErrorCode::kUnsupported, "the arbiter is of another version");
    }
    answer.append(packet.data() + sizeof(head), static_cast<size_t>(size) - sizeof(head));
  } while (head.more != 0);
  nlohmann::json parsed = nlohmann::json::parse(answer, nullptr, false);
  if (!parsed.is_object()) return At(path_, ErrorCode::kDamaged, "the answer is no JSON object");
  if (!parsed.value("ok", false)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     parsed.value("error", std::string("the arbiter refuses")));
  }
  return parsed;
}

}  // namespace cupola
