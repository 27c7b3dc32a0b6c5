// BoardClient: a process's membership on the board of one GPU. libcupola.so (or a test) owns it. Its set-up and Poll
// belong to one thread at a time, the agent; any thread may use the board's words. It uses only libc, no exceptions and
// no allocation, starts no thread and keeps no descriptor open but the board's. It fails open: every failure leaves the
// process as it was without an arbiter.
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
  kNoDaemon,   ///< no process listens, or the one that does belongs to another user
  kTimedOut,   ///< the daemon does not answer
  kRefused,    ///< reason() says why
  kBadAnswer,  ///< the answer is not of this protocol
};

/// What a process tells the daemon of itself. How it was started it also tells, but that is looked up (Join). Strings
/// are copied, and cut where they are too long.
struct JoinRequest {
  const char* socket_path = nullptr;  ///< nullptr = the places of FindArbiterPlaces
  const char* executable = "";
  const char* label = "";             ///< value of CUPOLA_LABEL
  const char* gpu_uuid = "";          ///< "GPU-8-4-4-4-12" as nvidia-smi prints it, or "SIM-0"
  uint32_t capabilities = 0;          ///< SlotCapability
  uint32_t sm_count = 0;
  uint32_t timeout_ms = 200;          ///< limit of the whole exchange
};

/// Whether the daemon is there.
enum class DaemonState : uint32_t {
  kNone,     ///< never joined, or the slot no longer belongs to this process
  kPresent,
  kAbsent,   ///< dead, gone or stuck: requests in its own name are void, those of the clients still count
};

class BoardClient {
 public:
  BoardClient() = default;
  BoardClient(const BoardClient&) = delete;
  BoardClient& operator=(const BoardClient&) = delete;
  ~BoardClient() { Leave(); }

  /// Registers with the daemon and maps its board. Blocks for at most `timeout_ms`, and not at all where there is no
  /// socket. After a failure call AskAgain.
  JoinResult Join(const JoinRequest& request);

  /// Tries to join again after a Join that failed, without reading the environment again. Blocks for at most
  /// `timeout_ms`.
  JoinResult AskAgain(uint32_t timeout_ms);

  bool joined() const { return static_cast<bool>(memory_); }
  BoardView board() const { return memory_.view(); }
  uint32_t index() const { return index_; }
  /// This process's board slot. Only when joined().
  BoardSlot& slot() const { return memory_.view().slot(index_); }
  /// Whether the slot still belongs to the process that joined. A process that has lost its slot may not write to it,
  /// because it may belong to another one by now. Only when joined().
  bool owns_slot() const;
  /// Converts a time of this process's CLOCK_MONOTONIC to the board's clock. The two clocks differ where the process is
  /// in another time namespace than the daemon, as it may be in a container. Their difference is then estimated from
  /// the daemon's signs of life: it is right to within the time that an answer takes, and each Poll makes it more
  /// exact. Any thread.
  uint64_t OnBoard(uint64_t local_ns) const { return local_ns + clock_offset_.load(std::memory_order_relaxed); }
  /// Why the last attempt was refused or failed; "" = no reason.
  const char* reason() const { return reason_; }

  /// Looks after the daemon at `now_ns` of CLOCK_MONOTONIC; the agent calls it every 100 ms or so. It costs three loads
  /// when the daemon is well. When the daemon is found dead, or silent for kSilenceNs, the daemon's own request to this
  /// process is dropped. While the daemon is absent, Poll looks for a new one once a second, which takes at most 50 ms,
  /// and brings it the board that this process has: memory, slot and requests stay where they are, and launches under
  /// way notice nothing.
  DaemonState Poll(uint64_t now_ns);

  /// Looks for a new daemon at once. Poll calls it when it is time; others need not.
  JoinResult Rejoin(uint32_t timeout_ms);

  /// Takes all requests of this process back, gives its slot back where that still is its own, and unmaps the board. No
  /// launch of this process may read its yield line any more.
  void Leave();

  /// For the exit of the process: does the same, but leaves the memory mapped for threads and kernels that still run.
  void LeaveMapped();

  /// For the child of a fork: forgets the membership without telling anybody.
  void ForgetAfterFork();

  /// The variant that the configuration wants for the kernel of this name. Does not allocate, but is too slow for the
  /// launch path.
  VariantChoice VariantFor(const char* kernel) const;

  /// The daemon counts as absent when its last sign of life is older than this.
  static constexpr uint64_t kSilenceNs = 3'000'000'000;

 private:
  JoinResult Exchange(uint32_t timeout_ms);
  JoinResult Accept(const JoinAnswer& answer, int fd);
  bool DaemonIsWell(uint64_t board_now_ns) const;
  void CompareClocks();
  void LookAtBeat(uint64_t now_ns);
  void GatherTexts(const JoinRequest& request);

  JoinMessage message_;
  char texts_[kMostJoinTexts] = {};  ///< the texts that follow the message
  JoinAnswer answer_;
  ArbiterPlaces places_;
  char reason_[240] = {};
  BoardMemory memory_;
  uint32_t index_ = 0;
  // The slot's pid and process_start as the board had them at the join. They may differ from this process's own view,
  // because the daemon may be in another PID namespace.
  uint32_t slot_pid_ = 0;
  uint64_t slot_start_ = 0;
  int32_t joined_as_ = 0;  // getpid at the join
  bool present_ = false;
  uint32_t daemon_pid_ = 0;  // pid of the daemon that knows this process
  uint64_t next_attempt_ns_ = 0;  // time of the next attempt to reach a daemon, on CLOCK_MONOTONIC
  bool has_own_clock_ = false;  // the board's clock differs from this process's
  std::atomic<uint64_t> clock_offset_{0};  // the board's clock less this process's, modulo 2^64
};

}  // namespace cupola::sched
