// OwnCallScope: put around a driver call that Cupola makes for itself in the calling thread's context, outside of
// preemption, if that call may wait in the driver. A question about a kernel is one, since it may load the kernel.
#pragma once

#include <atomic>
#include <cstdint>

namespace cupola::intercept {

struct LaunchContext;

/// While it lives, no launch of the calling thread's context is guarded. The constructor waits until no guarded launch
/// is outstanding. Does nothing if preemption is off.
class OwnCallScope {
 public:
  OwnCallScope() noexcept;
  ~OwnCallScope();
  OwnCallScope(const OwnCallScope&) = delete;
  OwnCallScope& operator=(const OwnCallScope&) = delete;

  /// False: the caller must not ask the driver, because the driver could wait for work that may not end before the
  /// program goes on.
  bool may_ask() const noexcept { return may_ask_; }

 private:
  LaunchContext* context_ = nullptr;
  bool elsewhere_ = false;  ///< preemption does not know the context: counted in scopes_elsewhere
  bool is_kept_ = false;    ///< what ResidentGuarded::open_scope returned
  bool may_ask_ = true;
};

/// Number of calls that may wait and are made by threads whose context preemption does not know yet.
/// While it is not 0, no launch is guarded.
extern std::atomic<uint32_t> scopes_elsewhere;

}  // namespace cupola::intercept
