// Whether and how this process takes part in preemption: the settings, the word that the forwarding
// stubs look at, and the process's start, fork and exit. docs/preemption.md.
#pragma once

#include <atomic>
#include <cstdint>

namespace cupola::intercept::preempt {

/// CUPOLA_PREEMPT: which launches of kernels that have a variant are made preemptible.
enum class Mode : uint8_t {
  kNever,   ///< none: only demand and launch priorities
  kAuto,    ///< those that are predicted to be long enough
  kAlways,  ///< all: for tests
  kTurns,   ///< by turns, plain and with each L of `turns`: a comparison inside one process
};

/// Turns that launches of one shape take at most before the first comes again.
inline constexpr uint32_t kMostTurns = 128;  // 15 L in both orders, with all and three parts of the workers

struct Settings {
  Mode mode = Mode::kAuto;
  bool allow_inexact = false;       ///< CUPOLA_INEXACT=1: variants that are not bit-exact too
  uint64_t threshold_ns = 150'000;  ///< CUPOLA_PREEMPT_ABOVE_US: shorter launches go out plain
  uint64_t equals_threshold_ns = 1'000'000;  ///< CUPOLA_PREEMPT_EQUALS_ABOVE_US: the same where only
                                             ///< processes of the same priority may ask
  uint32_t batch = 0;               ///< CUPOLA_BATCH: L of every kernel; 0 = by kernel
  uint32_t turns[kMostTurns] = {};  ///< CUPOLA_TURNS, of kTurns: profiles/claim_word.h, 0 = plain
  uint32_t turn_count = 0;
  uint32_t poll_period_ns = 2'000;  ///< CUPOLA_POLL_NS
  uint32_t watch_from = 512;         ///< CUPOLA_WATCH_FROM: workers from which one of them watches
  uint32_t look_after_ns = 18'000;  ///< CUPOLA_LOOK_AFTER_NS: PreemptParams::look_after_ns
  uint32_t fresh_after_ns = 4'500;  ///< CUPOLA_FRESH_AFTER_NS: PreemptParams::fresh_after_ns
  uint64_t hot_ns = 6'000'000;      ///< CUPOLA_AGENT_HOT_US: after it was asked, or let go, the agent
                                    ///< does not sleep for so long
  /// A process that comes back within less than it costs to stop and resume another, two changes of
  /// context or none, keeps the GPU meanwhile; one that does not gives it up at once.
  uint64_t short_gap_ns = 60'000;
  uint64_t demand_limit_ns = 10'000'000'000;  ///< CUPOLA_DEMAND_LIMIT_MS: a burst that is quiet for
                                              ///< longer loses its demand though it is at work
  uint64_t wait_limit_ns = 20'000'000;  ///< CUPOLA_WAIT_LIMIT_MS: a wait of ours of which nothing goes on
                                        ///< for so long ends (wait_net.h); 0: none does
  uint32_t gate_every = 8;          ///< CUPOLA_GATE_EVERY: plain launches a gate, 0 = no gates
};
extern Settings settings;

enum class Participation : uint8_t {
  kUndecided,
  kOff,  ///< no arbiter to be found, or CUPOLA_PREEMPT=off
  kOn,
};
extern std::atomic<Participation> participation;

/// One load. Settled when the driver is opened.
inline bool PreemptionOn() noexcept {
  return participation.load(std::memory_order_relaxed) == Participation::kOn;
}

/// Nonzero where calls that may wait are to be looked at: the number of guarded launches that are
/// outstanding and of streams that the program holds (host_holds.h), and the bits below. The stubs of the
/// build look at it (generate/stubs.py); those of most stream-ordered calls at the number alone.
extern std::atomic<uint32_t> watched __asm__("cupola_watched")
    __attribute__((visibility("hidden")));
/// The process takes part: a call that may wait must be known of also when nothing is outstanding,
/// for another thread may make a guarded launch while it is in the driver.
inline constexpr uint32_t kTakesPartBit = 1u << 30;

inline void Watch(uint32_t launches) noexcept { watched.fetch_add(launches); }
inline void Unwatch(uint32_t launches) noexcept { watched.fetch_sub(launches); }

/// Reads the environment and looks for an arbiter's socket; called when the driver has been opened,
/// before any call of it.
void StartPreemption() noexcept;

/// Whether a profiler or debugger is at work, which is said; our kernels and streams would disturb
/// what it measures, or it us.
bool ToolAtWork() noexcept;

/// A tool has come to work within the process: what it measures is to be the program's own, so from
/// now on its launches go out as they are made. Says `why`, once.
void StandAside(const char* why) noexcept;
extern std::atomic<bool> stands_aside;
inline bool StandsAside() noexcept { return stands_aside.load(std::memory_order_relaxed); }

/// The code at `caller` has asked for the driver's tables. CUPTI does when the first of its
/// functions is called; that the library is loaded says nothing: each program that imports PyTorch
/// has it.
void NoteTablesAsked(const void* caller) noexcept;

/// Whether this process will be a client of MPS, as far as can be told before cuInit.
bool MpsIsThere() noexcept;

/// In the child of a fork: nothing of the parent's is touched; the child joins anew.
void ForgetPreemptionAfterFork() noexcept;

/// From exit(): finishes what is preempted, within a bound, and leaves the board. Once.
void EndPreemptionAtExit() noexcept;

/// Sees to it that exit() does that before the driver's own handlers, behind which every call of it
/// fails: to be called when a context is there, since exit() runs first what was registered last.
void RegisterPreemptionExit() noexcept;

}  // namespace cupola::intercept::preempt
