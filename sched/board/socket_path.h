// Where the arbiter's socket is. libc only, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupola::sched {

/// Longest path that a Unix socket can have, with its NUL (unix(7)).
inline constexpr size_t kSocketPathBytes = 108;

/// The places where the daemon's socket may be, in the order in which clients, `cupola ctl` and `cupola serve` look.
struct ArbiterPlaces {
  static constexpr uint32_t kMost = 3;

  char paths[kMost][kSocketPathBytes] = {};
  uint32_t count = 0;
  bool is_named = false;          ///< somebody has named the one place: whoever listens there is meant
  const char* problem = nullptr;  ///< where there is no place: why, in a sentence
};

/// CUPOLA_SOCKET where it is set; else arbiter.sock in each of $XDG_RUNTIME_DIR/cupola, /run/user/UID/cupola and
/// /tmp/cupola-UID, whether they are there now or not: what a login brings or takes away hides no daemon. Reads the
/// environment: call at set-up only.
ArbiterPlaces FindArbiterPlaces();

/// The one place that was named, by an option or the like.
ArbiterPlaces NamedPlace(const char* path);

/// Whether the process that listens at the other end of this connection is of this user or root: no other may steer
/// programs from a place that nobody has named.
bool IsTrustedPeer(int fd);

}  // namespace cupola::sched
