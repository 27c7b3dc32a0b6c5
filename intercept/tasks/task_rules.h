// What Cupola does about tasks before and after a driver call of the program. A call that gives a
// stream work comes after the stream's tasks. A call that may wait for the device finds no tasks,
// and a MasterKernel that leaves. Called by the hooks and by calls/, on the thread that makes the
// call; any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cupola::intercept::tasks {

/// Number of calls under way that wait for the device or begin a capture. While there are any, no
/// launch becomes a task. A thread that puts a task in reads it under the lock of the launch's
/// stream. A thread that opens a scope adds to it first and then takes each stream's lock in turn,
/// so a task that it does not see in the table belongs to a thread that sees the scope.
extern std::atomic<uint32_t> scopes;

/// For a call of Cupola's own that may wait for the device: while the object lives, no task runs
/// and none is put in. The MasterKernel stays, idle: if it left, it would keep the next one from
/// starting until it has run the last task that it still takes.
class NoTasksScope {
 public:
  NoTasksScope() noexcept;
  ~NoTasksScope();
  NoTasksScope(const NoTasksScope&) = delete;
  NoTasksScope& operator=(const NoTasksScope&) = delete;

  /// False: a task makes no progress and may wait for the program. Cupola then must not make its
  /// call, since the call could wait for that task.
  bool is_clear() const noexcept { return is_clear_; }

 private:
  bool is_clear_ = true;
  uint32_t kept_ = 0;  ///< the GPUs to give EndNotNow (task_demand.h)
};

/// Has the calls that concern tasks come to calls/ from now on (process/participation.h, Watch).
/// Called before the first task of any engine.
void WatchCalls() noexcept;

/// What Cupola does about tasks at a driver call. calls/calls.def gives each call its rule.
enum class TaskRule : uint8_t {
  kNone,                 ///< nothing
  kHook,                 ///< the call's own hook does what is needed (task_copies.h)
  kFlush,                ///< the call gives a stream work, which comes after the stream's tasks
  kWait,                 ///< the call waits for all tasks; the MasterKernel may stay
  kWaitAndLeave,         ///< the call may wait for the device
  kSyncStream,           ///< the call waits for the tasks of one stream
  kSyncStreamPerThread,  ///< the same, for the _ptsz form
  kSyncEvent,            ///< the call waits, in the driver, for tasks that the event is behind
  kEndStream,            ///< the call destroys a stream
};

/// What Cupola has to do after a driver call. Made before the call, on the same thread.
struct Behind {
  enum class What : uint8_t {
    kNothing,
    kNoteWorkOf,  ///< record that the call gave `stream` work
    kNoteWork,    ///< record that the call gave work to some stream
    kEndWait,     ///< the call gave the default stream work, and waited in the driver
    kCloseScope,  ///< the call may have waited for the device
  } what = What::kNothing;
  bool per_thread = false;     ///< the call was the _ptsz or _ptds form
  CUstream stream = nullptr;   ///< of kNoteWorkOf and kEndWait
  uint32_t kept = 0;           ///< of kCloseScope: the GPUs to give EndNotNow (task_demand.h)
};

/// Around a synchronous copy in a default stream that the driver makes. Begin waits for all tasks;
/// the same thread calls End after the copy.
void BeginDriverCopy(bool per_thread) noexcept;
void EndDriverCopy() noexcept;

/// Called before a driver call (kCallNames[index]) of the class kMayWait or kStreamOrdered, with
/// its register arguments: the first at `arguments[0]`, each next one word below it. The caller
/// gives the result to DoBehind after the call. May wait for tasks.
Behind BeforeMayWait(TaskRule rule, size_t index, const uint64_t* arguments) noexcept;
Behind BeforeStreamOrdered(TaskRule rule, size_t index, const uint64_t* arguments) noexcept;
void DoBehind(const Behind& behind) noexcept;

/// How a call of the program waits for all work of a context.
struct ContextWait {
  /// All tasks of the context have run, and since the driver last waited for all of the context's
  /// work only blocking streams have been given driver work. Then a wait for the legacy stream is
  /// enough, and it does not wait for the MasterKernel, whose stream is non-blocking
  /// [CUDA Driver API, "Stream synchronization behavior"].
  bool is_for_legacy_stream = false;
  bool is_in_scope = false;  ///< no launch becomes a task until EndContextWait
  uint64_t context = 0;      ///< CUcontext that is waited for
  uint64_t work = 0;         ///< WorkBesideLegacy before the wait (driver_work.h)
  uint32_t kept = 0;         ///< the GPUs to give EndNotNow (task_demand.h)
};

/// Called when the program waits for a context; null: for the current one. Waits for its tasks, and
/// says how the driver is to wait for the rest. The caller has the driver wait and then calls
/// EndContextWait with its result.
ContextWait BeginContextWait(CUcontext named) noexcept;
void EndContextWait(const ContextWait& wait, CUresult result) noexcept;

/// Called around a launch that goes to the driver; `function` is null for a graph. AfterPlainLaunch
/// also comes after a launch that passed by (task_launch.h, PassesBy), because tasks may be made
/// again by then.
void BeforePlainLaunch(const void* function, CUstream stream, bool per_thread) noexcept;
void AfterPlainLaunch(const void* function, CUstream stream, bool per_thread,
                      CUresult result) noexcept;

}  // namespace cupola::intercept::tasks
