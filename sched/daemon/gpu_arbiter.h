// GpuArbiter: one GPU as the daemon sees it. It holds the GPU's boards (one for each user, and further ones that
// clients of an earlier daemon have brought along), the arbiter's core, and a deciding thread for each board, which
// sleeps on the board's bell (deciding_class.h). Each review looks at all boards of the GPU. The Server owns one
// GpuArbiter for each GPU. Any thread may call the public functions; one lock guards the core, the boards and their
// clients. The deciding threads neither log nor ask the system for names, because that may take long: CollectExits,
// which the Server's thread calls, logs what they have to say.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "sched/arbiter.h"
#include "sched/board/board_memory.h"
#include "sched/board/protocol.h"
#include "sched/daemon/arbiter_trace.h"
#include "sched/daemon/board_review.h"
#include "sched/daemon/deciding_class.h"
#include "sched/daemon/decision_times.h"
#include "sched/daemon/pi_mutex.h"
#include "sched/daemon/process_names.h"
#include "sched/daemon/surroundings.h"

namespace cupola::sched {

/// A process as the daemon knows it, by what the system says of it and what it says of itself.
struct ProcessIdentity {
  uint32_t pid = 0;        ///< in the daemon's PID namespace
  uint32_t uid = 0;        ///< the user whose rights it has, and whose board it gets
  uint64_t start = 0;      ///< when it was started, in clock ticks since boot, as ProcessStart gives it
  std::string user;        ///< the name of that user
  std::string executable;
  /// CUPOLA_LABEL as the process says it; "" also where only another process has brought their board so far.
  std::string label;
  // As in process_names.h; "" also where the process has not said how it was started, see `label`.
  std::string started_as;
  std::string script;
  std::string cgroup;
  std::string container;

  /// Takes the names over, except that an unknown executable leaves the known one as it was.
  void TakeNames(ProcessNames names);
};

/// The answer to a process that wants to join.
struct Admission {
  JoinStatus status = JoinStatus::kFailed;
  std::string reason;      ///< why it was refused; "" = it was not
  uint32_t slot = kNoSlot;
  int board_fd = -1;       ///< the board's own descriptor: to be sent, not closed
  /// Tells the admissions of new board slots apart, on all GPUs of this daemon; for Withdraw. 0 = the process brought a
  /// board on which it had its slot before.
  uint64_t number = 0;
};

/// One client, for display.
struct ClientStatus {
  ProcessIdentity process;
  uint32_t slot = 0;
  ClientSettings settings;
  uint32_t capabilities = 0;  ///< SlotCapability
  bool active = false;        ///< it has demand
  bool granted = false;       ///< it may run, on all SMs or on some
  bool held = false;          ///< some client or the daemon asks it to yield
  bool stopped = false;       ///< it says that it has yielded what it was asked; meaningful while `held`
  uint64_t expected_ns = 0;   ///< T_e of its launch (LaunchView), while active
  uint64_t waited_ns = 0;     ///< T_w of its launch
  uint64_t remaining_ns = 0;  ///< T_r of its launch
  uint64_t wait_bound_ns = kNever;  ///< the longest wait that the policy promises it; kNever = none
  uint64_t ran_ns = 0;        ///< GPU time, as the arbiter counts it
  // The following are what the client says on its board slot, which has their meanings (board.h).
  uint64_t launches = 0;
  uint64_t preemptions = 0;
  uint64_t resumes = 0;
  uint64_t gpu_ns = 0;           ///< of launches that stop at blocks
  uint64_t between_ns = 0;       ///< of launches that stop between kernels
  uint64_t unstoppable_ns = 0;   ///< of launches that do not stop
  uint64_t client_waited_ns = 0;  ///< BoardSlot::waited_ns
  std::string kernel;
};

/// One GPU with its clients, for display.
struct GpuStatus {
  std::string uuid;
  uint32_t sms = 0;               ///< SMs of the GPU; 0 = unknown
  size_t boards = 0;              ///< number of its boards
  std::string policy;             ///< name of the policy
  std::string policy_state;       ///< Arbiter::Dump, several lines
  uint64_t reviews = 0;           ///< reviews so far
  uint64_t now_ns = 0;            ///< time of this status on the board's clock
  /// Demands that began while the GPU had several clients and that a review has seen. The times from their beginning to
  /// the end of that review are in DecisionTimes.
  uint64_t decisions = 0;
  /// Of these, seen by a review that changed the daemon's own requests; for the others the standing decisions had been
  /// enough.
  uint64_t daemon_decisions = 0;
  uint64_t decision_p50_ns = 0;   ///< median of DecisionTimes
  uint64_t decision_p99_ns = 0;   ///< 99th percentile of DecisionTimes
  std::optional<ClassStatus> scheduling;  ///< class of its deciding threads; nothing where there is none yet
  std::vector<ClientStatus> clients;
};

/// Where a GpuArbiter gets its clients' settings: from what is known of a process and from the kernel that it launched
/// last ("" = none yet). The Server is the source of its GpuArbiters. They ask it under their
/// locks, from any thread.
class SettingsSource {
 public:
  virtual ~SettingsSource() = default;
  virtual ClientSettings SettingsFor(const ProcessIdentity& process,
                                     const std::string& kernel) const = 0;
  /// Whether the settings depend on the kernel.
  virtual bool HasKernelRules(const ProcessIdentity& process) const = 0;
};

/// What the configuration says of the GPUs.
struct GpuOptions {
  std::string policy = "hpf";  ///< one of PolicyNames()
  PolicyOptions policy_options;
  uint64_t preemption_overhead_ns = 200'000;  ///< the whole cost of preempting a client that does not know its own
  uint64_t context_switch_ns = 140'000;       ///< time in which the GPU switches contexts (Arbiter::SetSwitchTime)
  bool uses_mps = false;                      ///< the daemon runs with MPS; the GpuArbiter itself does not use this
};

class GpuArbiter {
 public:
  /// `uuid`: the GPU's. `source`, `system` and `deciding` outlive the GpuArbiter. When the source changes, its owner
  /// calls Reconfigure or SettingsChanged.
  GpuArbiter(std::string uuid, const GpuOptions& options, const SettingsSource* source, const Surroundings& system,
             DecidingClass* deciding);
  /// Frees the clients: no request of the daemon's own is left on any board.
  ~GpuArbiter();

  /// Gives the process a slot on a board of its user, and reviews, so that the standing decisions about it are on the
  /// board. Where it `brought` a board on which it has `slot`, takes that board over instead, with the other clients on
  /// it. Slots that the process had elsewhere on this GPU are freed. `capabilities`: SlotCapability. `sms`: SMs of the
  /// GPU as the process says; 0 = it does not know. Errors are in the Admission.
  Admission Admit(const ProcessIdentity& process, uint32_t capabilities, uint32_t sms,
                  BoardMemory brought, uint32_t slot);

  /// Frees the board slot of this admission again, where the process still has that very slot. For a process that hung
  /// up before it got the answer, and so does not know of its slot. `number` is not 0.
  void Withdraw(uint64_t number);

  /// Applies new options and asks the source for the settings of every client again.
  void Reconfigure(const GpuOptions& options);
  /// The process of this number, if it is a client here and belongs to the user `uid` (nothing: to any user).
  std::optional<ProcessIdentity> FindProcess(uint32_t pid, std::optional<uint32_t> uid);
  /// What that process says that it can do when it is asked to yield (SlotCapability). Nothing: it is not here.
  std::optional<uint32_t> CapabilitiesOf(uint32_t pid, std::optional<uint32_t> uid);
  /// Asks the source for the settings of one process again.
  void SettingsChanged(uint32_t pid);

  /// Frees the slots of processes that have ended or left, and logs that. For the Server's thread, which calls it when
  /// `exits_fd` is readable: a process has ended, or a deciding thread has left something to log.
  void CollectExits();
  int exits_fd() const { return exits_; }

  /// Makes the reviews collect what clients do, for an ArbiterTrace. Call it before the first client joins.
  void CollectPhases();
  /// The changes since the last call, oldest first. For the Server's thread, twice a second and when `exits_fd` is
  /// readable. Where more than kMostPhases came in between, the later ones are lost and the log says so.
  std::vector<PhaseChange> TakePhases();
  static constexpr size_t kMostPhases = size_t{1} << 16;

  /// Reviews now, for a caller that drives an arbiter whose boards have no threads. Returns the time when the next
  /// review is due at the latest; kNever = when a bell rings.
  uint64_t Review();
  GpuStatus Status();
  /// Takes the lock. Until the caller releases it no review runs, and the source is not asked.
  std::unique_lock<PiMutex> Pause() { return std::unique_lock(mutex_); }
  const std::string& uuid() const { return uuid_; }
  bool HasClients();
  bool HasBoardOf(uint32_t uid);

 private:
  struct Client {
    uint32_t slot = 0;
    ClientId id;  // its number in core_
    uint64_t number = 0;  // of its admission, for Withdraw; 0 = it came with a board
    ProcessIdentity process;
    int pidfd = -1;  // readable once the process has ended, and in the epoll set exits_; -1 = there is none
    bool is_watched = false;  // `pidfd` is known to be of this process, so it tells when the process has ended
    std::string kernel;  // BoardSlot::kernel for which its settings were asked last
    uint32_t known_demand = 0;  // BoardSlot::demand that NoteDecisions has counted last
    ClientPhase phase = ClientPhase::kAbsent;  // as AddPhase was told last
    uint64_t phase_since_ns = 0;
  };
  struct Board {
    BoardMemory memory;
    uint32_t uid = 0;  // all clients on it belong to this user
    std::vector<Client> clients;
    std::vector<Seat> seats;  // slot and id of each of `clients`, in the same order, for board_review.h
    std::thread bell;  // the deciding thread (ListenToBell); none where Surroundings::HasThreads is false
    /// The client that has the slot; nullptr = none.
    Client* FindSlot(uint32_t slot);
  };

  // The private functions are called under the lock, except ListenToBell.

  /// Makes this process the daemon of the board and starts the board's deciding thread. nullptr, with errno: the system
  /// has no thread for the board.
  Board* NewBoard(BoardMemory memory, uint32_t uid);
  /// A board of the user, made where there is none. nullptr, with errno: it cannot be made.
  Board* BoardFor(uint32_t uid);
  /// Admit for a process that brought a board.
  Admission TakeOver(const ProcessIdentity& process, BoardMemory brought, uint32_t slot);
  /// Makes clients of the other processes that have slots on a board that was brought. `user`: the name of the board's
  /// user. `is_same_clock`: the board's earlier daemon was in this daemon's time namespace.
  void AdoptSlots(Board& board, const std::string& user, bool is_same_clock);
  void AddClient(Board& board, uint32_t slot, const ProcessIdentity& process);
  void RemoveClient(Board& board, size_t index);
  bool IsClient(uint32_t pid) const;
  /// Calls `each(board, client)` for each slot that the process has; no `uid` = whichever user it belongs to.
  template <typename Each>
  void ForEachOf(uint32_t pid, std::optional<uint32_t> uid, Each&& each);
  /// Removes the process's clients, except the one that has `slot` on the board `kept`.
  void RemoveProcess(uint32_t pid, const Board* kept, uint32_t slot);
  /// Asks the source for the client's settings, and hands them to the core and the board.
  void Apply(Board& board, Client& client);
  bool HasEnded(const Client& client) const;
  void CollectExitsLocked();
  /// Removes the client at `index`, which has left or ended; CollectExits will log that.
  void RemoveGone(Board& board, size_t index, bool has_left);
  /// Removes the clients that say that they have left, and makes exits_ readable. For a deciding thread.
  void CollectLeaversLocked();
  /// Records when clients got the GPU and how long new demands waited for the review that has just been carried out.
  /// `changed_holds`: that review set or took back a request in the daemon's own name.
  void NoteDecisions(bool changed_holds);
  /// What the client does now, after a review.
  ClientPhase PhaseOf(const Board& board, const Client& client);
  /// Adds the clients' changes at a review to phases_, where CollectPhases was called.
  void NotePhases(uint64_t now_ns);
  /// `with_name`: the change carries the program's name.
  void AddPhase(Client& client, ClientPhase phase, uint64_t now_ns, bool with_name = false);
  /// Makes exits_ readable, so that the Server's thread comes.
  void CallServer();
  /// The number of clients on all boards.
  size_t ClientCount() const;
  /// Tells the clients whether to ring when their demand changes: only where the GPU has more than one client, or a trace
  /// is wanted.
  void SetAttention();

  /// One review of all boards. Returns when the next one is due at the latest.
  uint64_t ReviewLocked(uint64_t now_ns);
  /// The deciding thread of the board: reviews, then sleeps until the bell is rung or the next review is due.
  void ListenToBell(Board& board);

  const std::string uuid_;
  const SettingsSource* source_;
  const Surroundings& system_;
  DecidingClass* const deciding_;
  int exits_ = -1;  ///< epoll set of the clients' pidfds and news_
  int news_ = -1;   ///< eventfd in exits_, readable when a deciding thread has added to notes_
  PiMutex mutex_;
  GpuOptions options_;
  Arbiter core_;
  std::vector<std::unique_ptr<Board>> boards_;
  std::atomic<bool> stop_{false};  ///< the deciding threads are to end
  uint64_t reviews_ = 0;
  uint64_t daemon_decisions_ = 0;  ///< GpuStatus::daemon_decisions
  DecisionTimes decision_times_;
  std::optional<ClassStatus> scheduling_;  ///< class of the deciding thread whose class changed last
  std::vector<std::string> notes_;         ///< lines that CollectExits is to log
  bool collects_phases_ = false;
  std::vector<PhaseChange> phases_;        ///< changes that TakePhases has not taken yet
  uint64_t lost_phases_ = 0;               ///< changes for which there was no room since TakePhases
};

}  // namespace cupola::sched
