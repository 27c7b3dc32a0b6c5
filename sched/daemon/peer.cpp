#include "sched/daemon/peer.h"

#include <cerrno>
#include <cstring>
#include <optional>

#include <unistd.h>

#include "sched/daemon/process_facts.h"

namespace cupola::sched {

bool IsOwn(const ProcessIdentity& peer) { return peer.uid == geteuid() || peer.uid == 0; }

int TakeDescriptor(msghdr& packet) {
  int taken = -1;
  for (cmsghdr* head = CMSG_FIRSTHDR(&packet); head != nullptr; head = CMSG_NXTHDR(&packet, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
      if (taken < 0) {
        taken = fd;
      } else {
        close(fd);
      }
    }
  }
  return taken;
}

Result<ProcessIdentity> PeerOf(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return MakeError(ErrorCode::kIo, std::strerror(errno));
  }
  if (peer.pid == 0) {
    return MakeError(ErrorCode::kNotFound, "this process is in a PID namespace that the daemon does not see into");
  }
  ProcessIdentity identity;
  identity.pid = static_cast<uint32_t>(peer.pid);
  identity.uid = peer.uid;
  identity.user = UserName(peer.uid);
  identity.executable = ProcessExecutable(identity.pid);
  int reason = 0;
  const std::optional<uint64_t> start = ProcessStart(identity.pid, &reason);
  if (!start && (reason == EMFILE || reason == ENFILE)) {
    return MakeError(ErrorCode::kExhausted, kNoDescriptors);
  }
  if (!start) return MakeError(ErrorCode::kNotFound, "the daemon does not find this process in /proc");
  identity.start = *start;
  return identity;
}

void HangUp(int fd) {
  shutdown(fd, SHUT_RD);
  char byte = 0;
  while (recv(fd, &byte, 1, MSG_DONTWAIT) > 0) {
  }
  close(fd);
}

bool HasHungUp(int fd) {
  char byte = 0;
  return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace cupola::sched
