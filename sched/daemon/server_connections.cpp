// Server: its connections. A peer that connects finds room or is told why not; a peer that says nothing is dropped.
#include <algorithm>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "sched/daemon/peer.h"
#include "sched/daemon/server.h"

namespace cupola::sched {
namespace {

// Other users stay below kMostConnections by twice kMostOfUser, so that the daemon's user and root always find room.
constexpr size_t kMostConnections = 1024, kMostOfUser = 256;
// A connection that says nothing for kIdleNs is closed; one that has never said anything is closed after kSilentNs.
constexpr uint64_t kIdleNs = 10'000'000'000, kSilentNs = 2'000'000'000;
// Where there is no room for another connection, one that has never said anything may be dropped after this time.
constexpr uint64_t kSpeaksAtOnceNs = 100'000'000;

}  // namespace

void Server::Accept() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    Connection connection;
    connection.fd = AcceptOne();
    const bool is_out = connection.fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (is_out) connection.fd = AcceptBySpare();
    if (connection.fd < 0) return;
    connection.last_ns = BoardClockNs();
    Result<ProcessIdentity> peer = PeerOf(connection.fd);
    if (!is_out && !peer && peer.error().code == ErrorCode::kExhausted && DropSilent()) {
      peer = PeerOf(connection.fd);
    }
    if (is_out) {
      Refuse(connection, JoinStatus::kFailed, kNoDescriptors);
    } else if (!peer) {
      Refuse(connection, JoinStatus::kForeignUser, peer.error().message);
    } else {
      connection.peer = std::move(peer).value();
      const bool stays = MayStay(connection);
      if (stays && Watch(connection.fd)) {
        connections_[connection.fd] = std::move(connection);
        continue;
      }
      if (stays) Refuse(connection, JoinStatus::kFailed, "the daemon cannot watch another connection");
    }
    HangUp(connection.fd);
    if (is_out) KeepSpare();
  }
}

int Server::AcceptOne() {
  const auto accept = [&] { return accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); };
  const int fd = accept();
  if (fd >= 0 || (errno != EMFILE && errno != ENFILE)) return fd;
  DropGone();
  DropSilent();
  return accept();
}

// Without the spare descriptor the peer would wait for ever, and its waiting would wake the daemon all the time.
int Server::AcceptBySpare() {
  if (spare_ >= 0) close(spare_);
  spare_ = -1;
  return accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

void Server::KeepSpare() {
  if (spare_ < 0) spare_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

// Root may always ask. Whether a process of root may join is checked when it wants to.
bool Server::MayStay(const Connection& connection) {
  const ProcessIdentity& peer = connection.peer;
  const bool is_own = IsOwn(peer);
  if (!is_own && !config_.Admits(peer, geteuid())) {
    // Each user is logged once, because the user may come as often as it likes.
    if (turned_away_.insert(peer.uid).second) {
      spdlog::info("process {} is refused: {}", peer.pid, Config::RefusalOf(peer));
    }
    Tell(connection, JoinStatus::kForeignUser, Config::RefusalOf(peer));
    return false;
  }
  const size_t room = is_own ? kMostConnections : kMostConnections - 2 * kMostOfUser;
  const auto has_enough = [&] { return ConnectionsOf(peer.uid) >= kMostOfUser; };
  if (has_enough() || connections_.size() >= room) DropGone();
  if (has_enough()) DropSilent([&](const ProcessIdentity& one) { return one.uid == peer.uid; });
  if (connections_.size() >= room) DropSilent([&](const ProcessIdentity& one) { return is_own || !IsOwn(one); });
  if (has_enough()) {
    return Refuse(
        connection, JoinStatus::kFailed,
        fmt::format("user {} has {} connections open, which is the most that one may have",
                    peer.user, kMostOfUser));
  }
  if (connections_.size() < room) return true;
  return Refuse(connection, JoinStatus::kFailed, "too many connections at once");
}

size_t Server::ConnectionsOf(uint32_t uid) const {
  const auto count = std::count_if(connections_.begin(), connections_.end(),
                                   [uid](const auto& one) { return one.second.peer.uid == uid; });
  return static_cast<size_t>(count);
}

// These connections would have been dropped when they were served in their turn.
void Server::DropGone() {
  std::vector<int> gone;
  for (const auto& [fd, connection] : connections_) {
    if (HasHungUp(fd)) gone.push_back(fd);
  }
  for (const int fd : gone) Drop(fd);
}

// Programs and commands speak as soon as they are connected, so a silent peer is the one to drop.
bool Server::DropSilent(const std::function<bool(const ProcessIdentity&)>& may_go) {
  const Connection* longest = nullptr;
  for (const auto& [fd, connection] : connections_) {
    if (connection.has_spoken || (may_go && !may_go(connection.peer))) continue;
    if (longest == nullptr || connection.last_ns < longest->last_ns) longest = &connection;
  }
  if (longest == nullptr || BoardClockNs() < longest->last_ns + kSpeaksAtOnceNs) return false;
  Drop(longest->fd);
  return true;
}

void Server::Drop(int fd) {
  close(fd);
  connections_.erase(fd);
}

void Server::DropIdle() {
  const uint64_t now = BoardClockNs();
  std::vector<int> idle;
  for (const auto& [fd, connection] : connections_) {
    const uint64_t most = connection.has_spoken ? kIdleNs : kSilentNs;
    if (now > connection.last_ns + most) idle.push_back(fd);
  }
  for (const int fd : idle) Drop(fd);
}

}  // namespace cupola::sched
