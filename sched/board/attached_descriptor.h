// AttachedDescriptor: a file descriptor that goes along with a packet through the arbiter's socket [unix(7), SCM_RIGHTS].
// Whoever sends the packet makes it beside the packet. One thread.
#pragma once

#include <cstring>

#include <sys/socket.h>

namespace cupola::sched {

class AttachedDescriptor {
 public:
  /// Attaches `fd` to the packet, which borrows from this; -1: attaches nothing.
  AttachedDescriptor(msghdr& packet, int fd) {
    if (fd < 0) return;
    packet.msg_control = control_;
    packet.msg_controllen = sizeof(control_);
    cmsghdr* const head = CMSG_FIRSTHDR(&packet);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &fd, sizeof(int));
  }
  AttachedDescriptor(const AttachedDescriptor&) = delete;
  AttachedDescriptor& operator=(const AttachedDescriptor&) = delete;

 private:
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int))] = {};
};

}  // namespace cupola::sched
