// With STRICT_LOCKS in the environment a call of the strict driver that may wait keeps other
// threads' launches, stream waits, writes and queries, and calls that may wait out until it returns,
// as one that waits behind a guard does on an H200 (docs/preemption.md). Any thread.
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

/// Beside cuCtx-, cuStream- and cuEventSynchronize, while which launches come through.
inline bool LocksOthersOut(const char* name) {
  return Locks() && std::strstr(name, "Synchronize") == nullptr;
}

/// A call that does not wait.
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
