// BoardClient: a process's membership on the board of one GPU. Owned by libcupola.so (or a test); its
// set-up and Poll belong to one thread at a time, the agent; the board's words are for all threads.
// libc only, no exceptions, no allocation, no thread and no descriptor of its own that stays open but
// the board's. Fails open: every failure leaves the process as it was without an arbiter.
#pragma once

#include <atomic>
#include <cstdint>

#include "sched/board/board_memory.h"
#include "sched/board/protocol.h"
#include "sched/board/socket_path.h"

namespace cupola::sched {

/// How an attempt to join ended.
enum class JoinResult : uint32_t {
  kJoined,
  kNoDaemon,   ///< nobody listens, or it belongs to another user
  kTimedOut,   ///< the daemon does not answer
  kRefused,    ///< reason() says why
  kBadAnswer,  ///< what came is not of this protocol
};

/// What a process tells of itself, besides how it was started, which is looked up. Strings are copied, and cut where
/// they are too long.
struct JoinRequest {
  const char* socket_path = nullptr;  ///< nullptr: FindArbiterPlaces
  const char* executable = "";
  const char* label = "";             ///< value of CUPOLA_LABEL
  const char* gpu_uuid = "";          ///< "GPU-8-4-4-4-12" as nvidia-smi prints it; "SIM-0"
  uint32_t capabilities = 0;          ///< SlotCapability
  uint32_t sm_count = 0;
  uint32_t timeout_ms = 200;          ///< for the whole exchange
};

/// How the daemon is.
enum class DaemonState : uint32_t {
  kNone,     ///< never joined, or this process's slot is no longer its own
  kPresent,
  kAbsent,   ///< dead, gone or stuck: its holds are void, the clients' own requests still count
};

class BoardClient {
 public:
  BoardClient() = default;
  BoardClient(const BoardClient&) = delete;
  BoardClient& operator=(const BoardClient&) = delete;
  ~BoardClient() { Leave(); }

  /// Registers with the daemon and maps its board. Blocks for at most `timeout_ms`, and not at all
  /// where there is no socket. After a failure: AskAgain.
  JoinResult Join(const JoinRequest& request);

  /// The same once more, after a Join that did not succeed: the environment is not read again. Blocks for at most
  /// `timeout_ms`.
  JoinResult AskAgain(uint32_t timeout_ms);

  bool joined() const { return static_cast<bool>(memory_); }
  BoardView board() const { return memory_.view(); }
  uint32_t index() const { return index_; }
  /// This process's slot. Only when joined().
  BoardSlot& slot() const { return memory_.view().slot(index_); }
  /// Whether the slot still is of the process that joined: who has lost it may not write to it, it may
  /// be another's. Only when joined().
  bool owns_slot() const;
  /// A time of this process's CLOCK_MONOTONIC on the board's clock. In a time namespace of its own, which containers
  /// may have, the two differ: by what the daemon's signs of life tell, which is right to within the time that an
  /// answer takes, and becomes more exact with each Poll. Any thread.
  uint64_t OnBoard(uint64_t local_ns) const { return local_ns + clock_offset_.load(std::memory_order_relaxed); }
  /// Of the last refusal or failure; "" = none.
  const char* reason() const { return reason_; }

  /// Looks after the daemon at `now_ns` of CLOCK_MONOTONIC: call every 100 ms or so, from the agent. Three
  /// loads when it is well. When it is found dead or silent for kSilenceNs, frees this process of the
  /// daemon's holds. While it is absent, looks for a new daemon once a second, which takes at most 50 ms,
  /// and brings it the board that this process has: memory, slot and requests stay where they are, launches
  /// under way notice nothing.
  DaemonState Poll(uint64_t now_ns);

  /// Looks for a new daemon at once; Poll does this by itself.
  JoinResult Rejoin(uint32_t timeout_ms);

  /// Gives the slot back, where it is its own: takes all requests back and unmaps the board. No launch of this process
  /// may read its yield line any more.
  void Leave();

  /// At the exit of the process: as Leave, but the memory stays mapped for whoever still runs.
  void LeaveMapped();

  /// In the child of a fork: forgets everything without a word to anyone.
  void ForgetAfterFork();

  /// The form that the configuration wants for the kernel of this name. No allocation; not for the
  /// launch path.
  VariantChoice VariantFor(const char* kernel) const;

  /// The daemon counts as absent when its last sign of life is older.
  static constexpr uint64_t kSilenceNs = 3'000'000'000;

 private:
  JoinResult Exchange(uint32_t timeout_ms);
  JoinResult Accept(const JoinAnswer& answer, int fd);
  bool DaemonIsWell(uint64_t board_now_ns) const;
  void CompareClocks();
  void LookAtBeat(uint64_t now_ns);
  void GatherTexts(const JoinRequest& request);

  JoinMessage message_;
  char texts_[kMostJoinTexts] = {};  ///< that follow the message
  JoinAnswer answer_;
  ArbiterPlaces places_;
  char reason_[240] = {};
  BoardMemory memory_;
  uint32_t index_ = 0;
  // As the board has them when it joins: the daemon may count processes in a namespace of its own.
  uint32_t slot_pid_ = 0;
  uint64_t slot_start_ = 0;
  int32_t joined_as_ = 0;  // getpid
  bool present_ = false;
  uint32_t daemon_pid_ = 0;  // that knows this process
  uint64_t next_attempt_ns_ = 0;  // on CLOCK_MONOTONIC
  bool has_own_clock_ = false;
  std::atomic<uint64_t> clock_offset_{0};  // of the board's clock; wraps
};

}  // namespace cupola::sched
