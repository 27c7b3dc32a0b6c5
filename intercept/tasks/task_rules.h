// What is done about tasks before and behind a call of the program to the driver: calls that give a
// stream work come after its tasks, calls that may wait for the device find none, and a MasterKernel
// that leaves.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cupola::intercept::tasks {

/// Calls under way that wait for the device, or begin a capture: while there are any, no launch
/// becomes a task. To be looked at under the lock of the launch's stream: who opens a scope waits
/// for each, so that a put that it has not seen sees it.
extern std::atomic<uint32_t> scopes;

/// For a call of ours that may wait for the device: no task runs while it lives, and none is put
/// in. A MasterKernel stays, idle: one that leaves would keep the next from starting until the last
/// task that it still takes has run.
class WaitingScope {
 public:
  WaitingScope() noexcept;
  ~WaitingScope();
  WaitingScope(const WaitingScope&) = delete;
  WaitingScope& operator=(const WaitingScope&) = delete;

  /// False: a task does not go on, and may wait for the program. What is not the program's own call is not
  /// to be made.
  bool is_clear() const noexcept { return is_clear_; }

 private:
  bool is_clear_ = true;
  uint32_t kept_ = 0;  ///< of EndNotNow
};

/// Makes the table of rules; from now on such calls come here (preempt::watched). Before the first
/// task of any engine.
void WatchCalls() noexcept;

/// What is to be done behind a call.
struct Behind {
  enum class What : uint8_t {
    kNothing,
    kNoteWorkOf,  ///< it gave `stream` work
    kNoteWork,    ///< it gave some stream work
    kEndWait,     ///< it gave the default stream work, and waited in the driver
    kCloseScope,  ///< it may have waited for the device
  } what = What::kNothing;
  bool per_thread = false;
  CUstream stream = nullptr;
  uint32_t kept = 0;  ///< of kCloseScope: of EndNotNow (task_demand.h)
};

/// Before a synchronous copy goes to the driver, of a default stream: waits for all tasks. Behind it
/// EndDriverCopy is to be called.
void BeginDriverCopy(bool per_thread) noexcept;
void EndDriverCopy() noexcept;

/// A call (kCallNames[index]) of the class kMayWait or kStreamOrdered, with its register arguments,
/// the first at `arguments[0]`, the next below it. DoBehind is to be called after it.
Behind BeforeMayWait(size_t index, const uint64_t* arguments) noexcept;
Behind BeforeStreamOrdered(size_t index, const uint64_t* arguments) noexcept;
void DoBehind(const Behind& behind) noexcept;

/// How a call waits for all work of a context.
struct ContextWait {
  /// All tasks of the context have run, and only blocking streams have been given other work since the
  /// driver last waited for all of it: to wait for the legacy stream is enough, which does not wait for
  /// a MasterKernel [CUDA Driver API, "Stream synchronization behavior"].
  bool is_for_legacy_stream = false;
  bool is_in_scope = false;  ///< no launch becomes a task until EndContextWait
  uint64_t context = 0;
  uint64_t work = 0;  ///< WorkBesideLegacy of before
  uint32_t kept = 0;  ///< of EndNotNow (task_demand.h)
};

/// The program waits for a context; null: for the current one. Waits for its tasks. Where that is not all
/// that there is to wait for the driver is to, and EndContextWait is called behind it.
ContextWait BeginContextWait(CUcontext named) noexcept;
void EndContextWait(const ContextWait& wait, CUresult result) noexcept;

/// A launch goes to the driver; `function`: null for a graph. AfterPlainLaunch also comes behind one
/// that passed by where tasks may be made again meanwhile.
void BeforePlainLaunch(const void* function, CUstream stream, bool per_thread) noexcept;
void AfterPlainLaunch(const void* function, CUstream stream, bool per_thread,
                      CUresult result) noexcept;

}  // namespace cupola::intercept::tasks
