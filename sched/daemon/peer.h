// What the daemon does with the socket of one peer: who it is, what came with a packet, how to close. Any thread.
#pragma once

#include <sys/socket.h>

#include "base/result.h"
#include "sched/daemon/gpu_arbiter.h"

namespace cupola::sched {

inline constexpr char kNoDescriptors[] = "the daemon has no file descriptors left (ulimit -n)";

/// Who is at the other end. kExhausted: the daemon has no descriptor left to look. The message is for the peer.
Result<ProcessIdentity> PeerOf(int fd);

/// Whether it is the daemon's user or root.
bool IsOwn(const ProcessIdentity& peer);

/// The descriptor that came with a packet, or -1; further ones are closed.
int TakeDescriptor(msghdr& packet);

/// Closes so that the peer reads what it was sent: behind data that nobody has read its next call would fail instead.
void HangUp(int fd);

/// Whether the peer has hung up and nothing that it said is left to be read.
bool HasHungUp(int fd);

}  // namespace cupola::sched
