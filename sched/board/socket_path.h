// Where the arbiter's socket is. libc only, no allocation.
#pragma once

#include <cstddef>

namespace cupola::sched {

/// Longest path that a Unix socket can have, with its NUL (unix(7)).
inline constexpr size_t kSocketPathBytes = 108;

/// Writes the path of the arbiter's socket to `path`: CUPOLA_SOCKET where it is set, else arbiter.sock
/// in the first of $XDG_RUNTIME_DIR/cupola, /run/user/UID/cupola and /tmp/cupola-UID whose parent is a
/// folder. False: it does not fit, or CUPOLA_SOCKET is no absolute path. Reads the environment: call
/// at set-up only.
bool ArbiterSocketPath(char (&path)[kSocketPathBytes]);

}  // namespace cupola::sched
