#include "cli/arbiter_connection.h"

#include <cerrno>
#include <cstring>
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

/// The reason in a refusal to whoever connects; "" = it is something else.
std::string RefusalIn(const std::vector<char>& packet, ssize_t size) {
  sched::JoinAnswer answer;
  if (size != static_cast<ssize_t>(sizeof(answer))) return "";
  std::memcpy(&answer, packet.data(), sizeof(answer));
  const bool is_refusal = answer.head.magic == sched::kMessageMagic &&
                          answer.head.type == static_cast<uint16_t>(sched::MessageType::kJoined);
  return is_refusal ? std::string(answer.reason, strnlen(answer.reason, sizeof(answer.reason)))
                    : "";
}

}  // namespace

Result<ArbiterConnection> ArbiterConnection::Open(const std::string& socket) {
  char place[sched::kSocketPathBytes];
  if (socket.empty() && !sched::ArbiterSocketPath(place)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "CUPOLA_SOCKET must be an absolute path shorter than 108 bytes");
  }
  const std::string path = socket.empty() ? place : socket;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return At(path, ErrorCode::kInvalidArgument, "the path of the socket is too long");
  }
  path.copy(address.sun_path, path.size());
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return At(path, ErrorCode::kIo, std::strerror(errno));
  const timeval timeout{.tv_sec = 2, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    const int reason = errno;
    close(fd);
    if (reason == ENOENT || reason == ECONNREFUSED) {
      return At(path, ErrorCode::kNotFound, "no arbiter is running here; start one: cupola serve");
    }
    return At(path, ErrorCode::kIo, fmt::format("cannot connect: {}", std::strerror(reason)));
  }
  return ArbiterConnection(fd, path);
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
  // Where it has hung up it may have said why.
  (void)!send(fd_, packet.data(), packet.size(), MSG_NOSIGNAL);
  std::string answer;
  do {
    packet.resize(sched::kMaxMessage);
    const ssize_t size = recv(fd_, packet.data(), packet.size(), 0);
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
