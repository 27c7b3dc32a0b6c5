// Where the daemon's socket is. Clients, `cupola ctl` and `cupola serve` all look here. Uses only libc and does not
// allocate. Any thread, except that FindArbiterPlaces reads the environment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupola::sched {

/// The longest path that a Unix socket can have, with its NUL (unix(7)).
inline constexpr size_t kSocketPathBytes = 108;

/// The places where the daemon's socket may be, in the order in which clients, `cupola ctl` and `cupola serve` look.
struct ArbiterPlaces {
  static constexpr uint32_t kMost = 3;

  char paths[kMost][kSocketPathBytes] = {};
  uint32_t count = 0;
  bool is_named = false;          ///< the user has named the one place, so any process that listens there is trusted
  const char* problem = nullptr;  ///< where there is no place: why, in a sentence
};

/// The place that CUPOLA_SOCKET names, where it is set. Else arbiter.sock in each of $XDG_RUNTIME_DIR/cupola,
/// /run/user/UID/cupola and /tmp/cupola-UID. These count whether they exist now or not, so that a daemon is found
/// although a login made or removed some of them. Reads the environment: call it at set-up only.
ArbiterPlaces FindArbiterPlaces();

/// The one place that an option or the like has named.
ArbiterPlaces NamedPlace(const char* path);

/// Whether the process at the other end of this connection belongs to this user or to root. At a place that nobody has
/// named, no other process may steer programs.
bool IsTrustedPeer(int fd);

}  // namespace cupola::sched
