// What the daemon does with the socket of one peer: find out who the peer is, take what came with a packet, and close.
// The Server calls these functions on its thread. They have no state, and would serve any thread.
#pragma once

#include <sys/socket.h>

#include "base/result.h"
#include "sched/daemon/gpu_arbiter.h"

namespace cupola::sched {

inline constexpr char kNoDescriptors[] = "the daemon has no file descriptors left (ulimit -n)";

/// The process at the other end. kExhausted: the daemon has no file descriptor left to look it up. Error messages are
/// for the peer to read.
Result<ProcessIdentity> PeerOf(int fd);

/// Whether the peer belongs to the daemon's user or to root.
bool IsOwn(const ProcessIdentity& peer);

/// The file descriptor that came with a packet, which the caller then owns, or -1; further ones are closed.
int TakeDescriptor(msghdr& packet);

/// Closes the connection in such a way that the peer can read what it was sent. A plain close would make the peer's
/// next call fail where data from it has not been read.
void HangUp(int fd);

/// Whether the peer has hung up and nothing that it sent is left to be read.
bool HasHungUp(int fd);

}  // namespace cupola::sched
