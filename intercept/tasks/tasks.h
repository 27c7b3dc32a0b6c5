// Whether launches of this process may become tasks of a MasterKernel, and what did: the settings,
// the counts, the process's start and fork. docs/launches-as-tasks.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cupola::intercept::tasks {

struct Settings {
  uint32_t most_warps = 31;  ///< CUPOLA_TASK_WARPS: of a launch, all its blocks together
  uint32_t after_launches =
      32;  ///< CUPOLA_TASKS_AFTER: narrow launches in a row before the first task
  /// So many more, in rows, before the MasterKernel is loaded, which takes as long as 1,000 launches: 0
  /// where CUPOLA_TASKS_AFTER says how many.
  uint32_t ripe_launches = 480;
  uint32_t most_copied =
      65'536;  ///< CUPOLA_TASK_COPY_BYTES: larger copies are the driver's; 0: all are
  /// CUPOLA_TASK_NOTICE_MS: a task that is waited for so long is named; 0: none is.
  uint64_t notice_ns = 10'000'000'000;
  /// CUPOLA_TASK_PATIENCE_MS: before the MasterKernel is loaded, work that was there before is
  /// waited for so long at most (context_rest.h); 100 ms with CUPOLA_TASKS=always.
  uint64_t patience_ns = 5'000'000;
  /// CUPOLA_WAIT_LIMIT_MS: a wait of ours for tasks of which none goes on for so long ends; 0: none does.
  uint64_t wait_limit_ns = 20'000'000;
  uint64_t row_ns = 100'000;   ///< launches that follow each other within this are in a row
  bool allow_inexact = false;  ///< CUPOLA_INEXACT=1: kernels whose bits may differ too
};
extern Settings settings;

/// One load. Settled when the driver is opened.
extern std::atomic<bool> is_on;
inline bool TasksOn() noexcept { return is_on.load(std::memory_order_relaxed); }

/// Why a launch went out as the program made it.
enum class Plain : uint8_t {
  kNoBody,      ///< no bundle, or the kernel cannot be a task
  kWide,        ///< more threads or shared memory than a task may have
  kInexact,     ///< the body is not bit-exact and was not asked for
  kAttribute,   ///< cooperative, or a launch attribute
  kArguments,   ///< not as the kernel's parameters are
  kCapturing,   ///< a capture is open
  kFew,         ///< too few in a row yet
  kStream,      ///< a default stream beside others
  kDriverWork,  ///< other work of the stream is not over
  kScope,       ///< another thread is in a call that waits for the device
  kElsewhere,   ///< of another context or module than the MasterKernel serves now
  kNoEngine,    ///< the MasterKernel could not be set up, or failed
  kBusy,        ///< it is not loaded yet: the context does not come to rest
  kMixed,       ///< wide kernels came between so often that tasks do not pay
  kAsked,       ///< the process is asked to leave the GPU
  kTrial,       ///< a stream has enough tasks until it is known how long they take
  kLong,        ///< they take so long that they do not pay
  kGreen,       ///< of a green context, and bound to its SMs
  kStreams,     ///< more live streams than hardware queues
  kCount
};

/// For the log, indexed by Plain.
inline constexpr const char* kPlainWords[static_cast<size_t>(Plain::kCount)] = {
    "no body",
    "not narrow",
    "not bit-exact",
    "attribute",
    "arguments",
    "capturing",
    "few in a row",
    "default stream beside others",
    "other work in the stream",
    "waiting scope",
    "another module",
    "no MasterKernel",
    "busy before the first task",
    "mixed with wide ones",
    "asked to yield",
    "on trial",
    "long",
    "green context",
    "more streams than hardware queues"};

struct alignas(64) Counters {
  std::atomic<uint64_t> tasks{0};
  std::atomic<uint64_t> copies{0};
  /// No count: `tasks` and `copies` together when none of them was outstanding, and no MasterKernel
  /// ran. In their cache line, for PassesBy.
  std::atomic<uint64_t> idle_at{UINT64_MAX};
  std::atomic<uint64_t> starts{0};   ///< launches of the MasterKernel
  std::atomic<uint64_t> turns{0};    ///< to another module
  std::atomic<uint64_t> holds{0};    ///< the MasterKernel was sent away with tasks to come
  std::atomic<uint64_t> flushes{0};  ///< streams made to wait for their tasks
  std::atomic<uint64_t> stuck{0};    ///< waits that were ended since no task went on
  std::atomic<uint64_t> waits{0};    ///< calls before which tasks were waited for
  std::atomic<uint64_t> queries{0};  ///< of streams, whether their other work is over
  std::atomic<uint64_t> plain[static_cast<size_t>(Plain::kCount)] = {};
};
extern Counters counters;

inline void Count(std::atomic<uint64_t>& counter) noexcept {
  counter.fetch_add(1, std::memory_order_relaxed);
}

/// Tasks and copies so far. They are counted when they have been put in, before their call returns.
inline uint64_t PutSoFar() noexcept {
  return counters.tasks.load(std::memory_order_acquire) +
         counters.copies.load(std::memory_order_acquire);
}

/// Reads the environment: CUPOLA_TASKS=auto (default), always (from the first launch on) or off.
/// Called when the driver has been opened, behind preempt::StartPreemption.
void StartTasks() noexcept;

/// In the child of a process that had a MasterKernel no launch becomes a task.
void ForgetTasksAfterFork() noexcept;

/// From exit(): says what was counted.
void EndTasksAtExit() noexcept;

}  // namespace cupola::intercept::tasks
