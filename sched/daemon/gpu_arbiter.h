// GpuArbiter: one GPU as the daemon sees it: its boards, one for each user and one more for each that
// came from an earlier daemon, the arbiter's core, and a thread for each board that sleeps on the
// board's bell, the deciding threads (deciding_class.h). All public functions may be called from any thread; one lock
// guards the core. The deciding threads neither log nor ask the system for names: what they have to say, CollectExits does.
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

/// A process as the daemon knows it: what the system says, and what it says itself.
struct ProcessIdentity {
  uint32_t pid = 0;
  uint32_t uid = 0;
  uint64_t start = 0;      ///< ProcessStart
  std::string user;
  std::string executable;
  std::string label;
  // As in process_names.h; "" also of a process that has not brought its board to this daemon by itself yet.
  std::string started_as;
  std::string script;
  std::string cgroup;
  std::string container;

  /// An executable that is not known stays as it was.
  void TakeNames(ProcessNames names);
};

/// How a process is admitted.
struct Admission {
  JoinStatus status = JoinStatus::kFailed;
  std::string reason;      ///< of a refusal
  uint32_t slot = kNoSlot;
  int board_fd = -1;       ///< the board's own: to be sent, not closed
  uint64_t number = 0;     ///< of a new place, for Withdraw; 0 = it had its place before
};

/// One client, for display.
struct ClientStatus {
  ProcessIdentity process;
  uint32_t slot = 0;
  ClientSettings settings;
  uint32_t capabilities = 0;
  bool active = false;
  bool granted = false;
  bool held = false;          ///< asked to yield, by whomever
  bool stopped = false;
  uint64_t expected_ns = 0;   ///< FLEP's triplet of the launch at its head, while active
  uint64_t waited_ns = 0;
  uint64_t remaining_ns = 0;
  uint64_t wait_bound_ns = kNever;
  uint64_t ran_ns = 0;        ///< as the arbiter counts it
  uint64_t launches = 0;      ///< the client's own counters
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
  uint64_t decisions = 0;         ///< demands of clients that began, and were decided on
  uint64_t daemon_decisions = 0;  ///< of these, at a review that held somebody or let somebody go; for the others
                                  ///< the standing decisions had been enough
  uint64_t decision_p50_ns = 0;   ///< DecisionTimes
  uint64_t decision_p99_ns = 0;
  std::optional<ClassStatus> scheduling;  ///< of its deciding threads; nothing where there is none yet
  std::vector<ClientStatus> clients;
};

/// Settings by what is known of a process and the kernel at its head ("" = none yet).
class SettingsSource {
 public:
  virtual ~SettingsSource() = default;
  virtual ClientSettings SettingsFor(const ProcessIdentity& process,
                                     const std::string& kernel) const = 0;
  /// Whether they differ by the kernel.
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
  /// `source`, `system` and `deciding` outlive it. Changes of the source are told by Reconfigure.
  GpuArbiter(std::string uuid, const GpuOptions& options, const SettingsSource* source, const Surroundings& system,
             DecidingClass* deciding);
  /// Frees the clients: no hold of the daemon is left on any board.
  ~GpuArbiter();

  /// Gives the process a slot on a board of its user, or, where it `brought` a board with the slot
  /// that it has there, takes that board over.
  Admission Admit(const ProcessIdentity& process, uint32_t capabilities, uint32_t sms,
                  BoardMemory brought, uint32_t slot);

  /// Frees the place again, where the process still has that very one: it does not know of it.
  void Withdraw(uint64_t number);

  /// Applies new options and asks the source again for every client.
  void Reconfigure(const GpuOptions& options);
  /// The process of this number, if it is here and the user's (nothing: whosever it is).
  std::optional<ProcessIdentity> FindProcess(uint32_t pid, std::optional<uint32_t> uid);
  /// What that process says it can do when it is asked to yield (SlotCapability). Nothing: it is not here.
  std::optional<uint32_t> CapabilitiesOf(uint32_t pid, std::optional<uint32_t> uid);
  /// Asks the source again for one process.
  void SettingsChanged(uint32_t pid);

  /// Frees the slots of processes that have ended or left, and logs that. `exits_fd` is readable when one has.
  void CollectExits();
  int exits_fd() const { return exits_; }

  /// A review now, for who drives an arbiter whose boards have no threads. Returns when the next one is due at the
  /// latest; kNever: when a bell rings.
  uint64_t Review();
  GpuStatus Status();
  /// Until it is released no review runs, and the source is not asked.
  std::unique_lock<PiMutex> Pause() { return std::unique_lock(mutex_); }
  const std::string& uuid() const { return uuid_; }
  bool HasClients();
  bool HasBoardOf(uint32_t uid);

 private:
  struct Client {
    uint32_t slot = 0;
    ClientId id;
    uint64_t number = 0;  // of its admission
    ProcessIdentity process;
    int pidfd = -1;
    bool is_watched = false;  // `pidfd` is this process's: it tells when that has ended
    std::string kernel;  // that the settings are for
    uint32_t known_demand = 0;  // BoardSlot::demand that was decided on last
  };
  struct Board {
    BoardMemory memory;
    uint32_t uid = 0;
    std::vector<Client> clients;
    std::vector<Seat> seats;  // of `clients`
    std::thread bell;
    Client* FindSlot(uint32_t slot);
  };

  /// nullptr: the system has no thread for it.
  Board* NewBoard(BoardMemory memory, uint32_t uid);
  Board* BoardFor(uint32_t uid);
  Admission TakeOver(const ProcessIdentity& process, BoardMemory brought, uint32_t slot);
  /// `user`: the name of the board's user.
  void AdoptSlots(Board& board, const std::string& user, bool is_same_clock);
  void AddClient(Board& board, uint32_t slot, const ProcessIdentity& process);
  void RemoveClient(Board& board, size_t index);
  bool IsClient(uint32_t pid) const;
  /// `each(board, client)` for the places that a process has; no `uid`: whosever it is.
  template <typename Each>
  void ForEachOf(uint32_t pid, std::optional<uint32_t> uid, Each&& each);
  /// Removes the process's clients, save for the one with that slot of `kept`.
  void RemoveProcess(uint32_t pid, const Board* kept, uint32_t slot);
  void Apply(Board& board, Client& client);
  bool HasEnded(const Client& client) const;
  void CollectExitsLocked();
  /// The client at this place of the board has left or ended; CollectExits will log that.
  void RemoveGone(Board& board, size_t index, bool has_left);
  /// For a deciding thread: those that say that they have left.
  void CollectLeaversLocked();
  /// Notes when clients got the GPU, and how long new demands waited for this review, which is carried out.
  void NoteDecisions(bool changed_holds);
  void SetAttention();

  uint64_t ReviewLocked(uint64_t now_ns);
  void ListenToBell(Board& board);

  const std::string uuid_;
  const SettingsSource* source_;
  const Surroundings& system_;
  DecidingClass* const deciding_;
  int exits_ = -1;
  int news_ = -1;  ///< eventfd in exits_: there are notes
  PiMutex mutex_;
  GpuOptions options_;
  Arbiter core_;
  std::vector<std::unique_ptr<Board>> boards_;
  std::atomic<bool> stop_{false};
  uint64_t reviews_ = 0;
  uint64_t daemon_decisions_ = 0;
  DecisionTimes decision_times_;
  std::optional<ClassStatus> scheduling_;  ///< of the deciding thread that changed last
  std::vector<std::string> notes_;         ///< for the log
};

}  // namespace cupola::sched
