// The lock of the strict driver. With STRICT_LOCKS in the environment a waiting call keeps other
// threads out until it returns: their launches, stream waits, writes, queries and waiting calls. A
// call that waits behind a guard does the same on an H200 (docs/waiting.md). Any thread.
#pragma once

#include <cstdlib>
#include <cstring>
#include <mutex>

namespace strict {

inline std::recursive_mutex call_mutex;

inline bool Locks() {
  static const bool locks = std::getenv("STRICT_LOCKS") != nullptr;
  return locks;
}

/// Whether a waiting call keeps others out: all but cuCtx-, cuStream- and cuEventSynchronize, during
/// which launches come through.
inline bool LocksOthersOut(const char* name) {
  return Locks() && std::strstr(name, "Synchronize") == nullptr;
}

/// Holds the lock for the time of a call that does not wait.
class Call {
 public:
  Call() {
    if (Locks()) call_mutex.lock();
  }
  ~Call() {
    if (Locks()) call_mutex.unlock();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};

}  // namespace strict
