// GpuArbiter: one GPU as the daemon sees it. It holds the GPU's boards (one for each user, and one more for each that
// came from an earlier daemon), the arbiter's core, and a deciding thread for each board, which sleeps on the board's
// bell (deciding_class.h). The Server owns one for each GPU. Any thread may call the public functions; one lock guards
// the core. The deciding threads neither log nor ask the system for names: CollectExits logs what they have to say.
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
#include "sched/daemon/board_review.h"
#include "sched/daemon/deciding_class.h"
#include "sched/daemon/decision_times.h"
#include "sched/daemon/pi_mutex.h"
#include "sched/daemon/process_names.h"
#include "sched/daemon/surroundings.h"

namespace cupola::sched {

/// A process as the daemon knows it, by what the system says of it and what it says of itself.
struct ProcessIdentity {
  uint32_t pid = 0;
  uint32_t uid = 0;
  uint64_t start = 0;      ///< when it was started, as ProcessStart gives it
  std::string user;
  std::string executable;
  std::string label;
  // As in process_names.h; "" also of a process that has not brought its board to this daemon by itself yet.
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
  std::string reason;      ///< why it was refused
  uint32_t slot = kNoSlot;
  int board_fd = -1;       ///< the board's own descriptor: to be sent, not closed
  uint64_t number = 0;  ///< number of the new board slot's admission, for Withdraw; 0 = the process had its slot before
};

/// One client, for display.
struct ClientStatus {
  ProcessIdentity process;
  uint32_t slot = 0;
  ClientSettings settings;
  uint32_t capabilities = 0;
  bool active = false;
  bool granted = false;
  bool held = false;          ///< some client or the daemon asks it to yield
  bool stopped = false;
  uint64_t expected_ns = 0;   ///< FLEP's triplet of the launch at its head, while active
  uint64_t waited_ns = 0;     ///< of that triplet
  uint64_t remaining_ns = 0;
  uint64_t wait_bound_ns = kNever;
  uint64_t ran_ns = 0;        ///< GPU time, as the arbiter counts it
  uint64_t launches = 0;      ///< the client's own counter, as are the following ones
  uint64_t preemptions = 0;
  uint64_t resumes = 0;
  uint64_t gpu_ns = 0;
  uint64_t client_waited_ns = 0;
  std::string kernel;
};

struct GpuStatus {
  std::string uuid;
  uint32_t sms = 0;
  size_t boards = 0;
  std::string policy;
  std::string policy_state;
  uint64_t reviews = 0;
  uint64_t now_ns = 0;
  uint64_t decisions = 0;         ///< demands of clients that began and that a review has decided on
  /// Of these, decided at a review that changed the daemon's own requests; for the others the standing decisions had
  /// been enough.
  uint64_t daemon_decisions = 0;
  uint64_t decision_p50_ns = 0;   ///< median of DecisionTimes
  uint64_t decision_p99_ns = 0;   ///< 99th percentile of DecisionTimes
  std::optional<ClassStatus> scheduling;  ///< class of its deciding threads; nothing where there is none yet
  std::vector<ClientStatus> clients;
};

/// Where a GpuArbiter gets its clients' settings: from what is known of a process and the kernel at its head ("" = none
/// yet).
class SettingsSource {
 public:
  virtual ~SettingsSource() = default;
  virtual ClientSettings SettingsFor(const ProcessIdentity& process,
                                     const std::string& kernel) const = 0;
  /// Whether the settings depend on the kernel.
  virtual bool HasKernelRules(const ProcessIdentity& process) const = 0;
};

struct GpuOptions {
  std::string policy = "hpf";
  PolicyOptions policy_options;
  uint64_t preemption_overhead_ns = 200'000;
  uint64_t context_switch_ns = 140'000;
  bool uses_mps = false;
};

class GpuArbiter {
 public:
  /// `source`, `system` and `deciding` outlive the GpuArbiter. When the source changes, its owner calls Reconfigure.
  GpuArbiter(std::string uuid, const GpuOptions& options, const SettingsSource* source, const Surroundings& system,
             DecidingClass* deciding);
  /// Frees the clients: no request of the daemon's own is left on any board.
  ~GpuArbiter();

  /// Gives the process a slot on a board of its user. Where it `brought` a board on which it has `slot`, takes that
  /// board over instead.
  Admission Admit(const ProcessIdentity& process, uint32_t capabilities, uint32_t sms,
                  BoardMemory brought, uint32_t slot);

  /// Frees the board slot of this admission again, where the process still has that very slot. For a process that does
  /// not know of its slot.
  void Withdraw(uint64_t number);

  /// Applies new options and asks the source for the settings of every client again.
  void Reconfigure(const GpuOptions& options);
  /// The process of this number, if it is a client here and belongs to the user `uid` (nothing: to any user).
  std::optional<ProcessIdentity> FindProcess(uint32_t pid, std::optional<uint32_t> uid);
  /// What that process says that it can do when it is asked to yield (SlotCapability). Nothing: it is not here.
  std::optional<uint32_t> CapabilitiesOf(uint32_t pid, std::optional<uint32_t> uid);
  /// Asks the source for the settings of one process again.
  void SettingsChanged(uint32_t pid);

  /// Frees the slots of processes that have ended or left, and logs that. `exits_fd` is readable when there is one.
  void CollectExits();
  int exits_fd() const { return exits_; }

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
    ClientId id;
    uint64_t number = 0;  // of its admission, for Withdraw
    ProcessIdentity process;
    int pidfd = -1;
    bool is_watched = false;  // `pidfd` is known to be of this process, so it tells when the process has ended
    std::string kernel;  // the kernel for which its settings are
    uint32_t known_demand = 0;  // BoardSlot::demand that the last decision was about
  };
  struct Board {
    BoardMemory memory;
    uint32_t uid = 0;
    std::vector<Client> clients;
    std::vector<Seat> seats;  // one for each of `clients`, in the same order
    std::thread bell;
    Client* FindSlot(uint32_t slot);
  };

  /// nullptr: the system has no thread for the board.
  Board* NewBoard(BoardMemory memory, uint32_t uid);
  Board* BoardFor(uint32_t uid);
  Admission TakeOver(const ProcessIdentity& process, BoardMemory brought, uint32_t slot);
  /// `user`: the name of the board's user. `is_same_clock`: the board's daemon was in this daemon's time namespace.
  void AdoptSlots(Board& board, const std::string& user, bool is_same_clock);
  void AddClient(Board& board, uint32_t slot, const ProcessIdentity& process);
  void RemoveClient(Board& board, size_t index);
  bool IsClient(uint32_t pid) const;
  /// Calls `each(board, client)` for each slot that the process has; no `uid` = whichever user it belongs to.
  template <typename Each>
  void ForEachOf(uint32_t pid, std::optional<uint32_t> uid, Each&& each);
  /// Removes the process's clients, except the one that has `slot` on the board `kept`.
  void RemoveProcess(uint32_t pid, const Board* kept, uint32_t slot);
  void Apply(Board& board, Client& client);
  bool HasEnded(const Client& client) const;
  void CollectExitsLocked();
  /// Removes the client at `index`, which has left or ended; CollectExits will log that.
  void RemoveGone(Board& board, size_t index, bool has_left);
  /// Removes the clients that say that they have left. For a deciding thread.
  void CollectLeaversLocked();
  /// Records when clients got the GPU and how long new demands waited for the review that has just been carried out.
  void NoteDecisions(bool changed_holds);
  void SetAttention();

  uint64_t ReviewLocked(uint64_t now_ns);
  void ListenToBell(Board& board);

  const std::string uuid_;
  const SettingsSource* source_;
  const Surroundings& system_;
  DecidingClass* const deciding_;
  int exits_ = -1;
  int news_ = -1;  ///< eventfd in exits_, readable when there are notes
  PiMutex mutex_;
  GpuOptions options_;
  Arbiter core_;
  std::vector<std::unique_ptr<Board>> boards_;
  std::atomic<bool> stop_{false};
  uint64_t reviews_ = 0;
  uint64_t daemon_decisions_ = 0;
  DecisionTimes decision_times_;
  std::optional<ClassStatus> scheduling_;  ///< class of the deciding thread whose class changed last
  std::vector<std::string> notes_;         ///< lines that CollectExits is to log
};

}  // namespace cupola::sched
