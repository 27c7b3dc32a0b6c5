// Server: the process behind `cupola serve`. It owns the socket, the GPUs that clients have named, and the
// configuration. One thread runs Run(); each board has a thread of its own inside GpuArbiter.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "sched/daemon/answer_queue.h"
#include "sched/daemon/arbiter_trace.h"
#include "sched/daemon/config.h"
#include "sched/daemon/deciding_class.h"
#include "sched/daemon/gpu_arbiter.h"
#include "sched/daemon/listening_socket.h"
#include "sched/daemon/told_settings.h"

namespace cupola::sched {

class Server : private SettingsSource {
 public:
  /// Listens at the first of `places` that can be taken. `config_path` is the file that Reload reads; "" = none.
  static Result<std::unique_ptr<Server>> Start(const ArbiterPlaces& places, Config config, std::string config_path,
                                               const Surroundings& system = Surroundings::OfSystem());
  ~Server() override;

  /// Serves until SIGTERM or SIGINT; SIGHUP makes it read the configuration again. The caller has blocked these three
  /// signals in all threads.
  Status Run();

  /// Says whether MPS is used, which is only displayed. Call it before Run.
  void SetUsesMps(bool uses_mps) { config_.gpu.uses_mps = uses_mps; }

  /// Makes the server write who ran and who waited into `trace`. Call it before Run.
  void SetTrace(std::unique_ptr<ArbiterTrace> trace) { trace_ = std::move(trace); }

  const std::string& socket_path() const { return socket_.path(); }

  /// Gives the process a board slot on the GPU `uuid`, or takes over the board that it brings and its slot there. A
  /// process that is refused is told why. Run calls it for each process that wants to join.
  Admission Join(const ProcessIdentity& process, const std::string& uuid, const JoinMessage& message,
                 BoardMemory brought);
  /// Frees what belonged to processes that have ended. Run calls it whenever one has ended, and twice a second.
  void KeepHouse();
  /// Reviews each GPU, for surroundings without threads that do so. Returns when the next review is due at the latest.
  uint64_t Review();

 private:
  struct Connection {
    int fd = -1;
    ProcessIdentity peer;
    uint64_t last_ns = 0;
    bool has_spoken = false;
    std::string gpu;         ///< the GPU on which the last answer gave it a slot
    uint64_t admission = 0;  ///< Admission::number of that answer; 0 = none
    AnswerQueue answer;
  };

  /// At most kMostWaiting peers wait to be connected. Run accepts kAcceptedAtOnce of them at a time, then serves the
  /// connections that there are.
  static constexpr int kMostWaiting = 512;
  static constexpr int kAcceptedAtOnce = 16;

  Server(ListeningSocket socket, Config config, std::string config_path, const Surroundings& system);
  ClientSettings SettingsFor(const ProcessIdentity& process,
                             const std::string& kernel) const override;
  bool HasKernelRules(const ProcessIdentity& process) const override;
  Status Prepare();
  Status Watch(int fd);
  /// Twice a second: checks whether clients can find this daemon, and opens another socket where they cannot. An error:
  /// another daemon has the place.
  Status LookAfterSocket();
  /// False: it is time to end.
  bool HandleSignals();
  /// Accepts some of the peers that want to connect.
  void Accept();
  /// Does what accept4(2) does; where there are no file descriptors left it first makes room.
  int AcceptOne();
  /// Accepts a peer by the spare descriptor, where there is no room either. The caller tells the peer so and lets it
  /// go.
  int AcceptBySpare();
  void KeepSpare();
  /// False: the peer was told why it may not stay: its user is not admitted, or has too many connections.
  bool MayStay(const Connection& connection);
  size_t ConnectionsOf(uint32_t uid) const;
  /// Drops the connections whose peer has hung up.
  void DropGone();
  /// Drops the oldest of the connections whose peer has said nothing so far and `may_go` (nothing: any), if it has had
  /// time to speak. False: there is no such connection.
  bool DropSilent(const std::function<bool(const ProcessIdentity&)>& may_go = nullptr);
  /// False: the connection is over.
  bool Serve(Connection& connection);
  /// `texts`: what followed the message in its packet.
  bool ServeJoin(Connection& connection, const JoinMessage& message, std::string texts,
                 BoardMemory brought);
  bool ServeControl(Connection& connection, const std::string& request);
  /// Sends as much of the answer as the peer takes now.
  bool SendAnswer(Connection& connection);
  bool Answer(const Connection& connection, const JoinAnswer& answer, int board_fd);
  /// Tells the peer and the log why the peer is refused. Always returns false.
  bool Refuse(const Connection& connection, JoinStatus status, const std::string& reason);
  void Tell(const Connection& connection, JoinStatus status, const std::string& reason);
  /// Frees the slot of a peer that hung up before it had its answer.
  void Withdraw(const Connection& connection);
  void Drop(int fd);
  void DropIdle();
  /// The GpuArbiter of `uuid`, made where there is none. The error is for the peer to read.
  Result<GpuArbiter*> GpuFor(const std::string& uuid, const ProcessIdentity& peer);
  size_t GpusOf(uint32_t uid) const;
  void DropEmptyGpus();
  /// Writes what the GPU's clients did since the last call into the trace, if there is one.
  void WriteTrace(GpuArbiter& gpu);
  /// WriteTrace for each GPU, twice a second or when `is_called`: a GPU has called for it.
  void WriteTraceWhenDue(bool is_called);
  /// Logs at which priority decisions are made.
  void SayScheduling();
  /// Logs that a guard has taken the deciding threads' class, where one has.
  void LookAtGuard();
  /// Reads the configuration again. Returns notes on what is no error and yet worth saying; they are logged too.
  Result<std::vector<std::string>> Reload();
  /// Settles which policy counts, and adds to `notes` where that may be a surprise.
  void NotePolicy(Config& config, std::vector<std::string>& notes);
  /// Adds to `notes` which users lose their access.
  void NoteAccess(const Config& config, std::vector<std::string>& notes);

  const Surroundings& system_;
  ListeningSocket socket_;
  Config config_;
  std::string configured_policy_;  ///< the policy that the configuration named when it was last read
  std::string told_policy_;        ///< the policy that `cupola ctl policy` has named since; "" = none
  ToldSettings told_;
  std::string config_path_;
  uint64_t next_look_ns_ = 0;  ///< when the socket's place is looked at next
  bool is_lost_ = false;       ///< the socket has no place, and the log has been told so
  int epoll_ = -1;
  int signals_ = -1;
  int spare_ = -1;  ///< a spare file descriptor, for when there are no others left
  std::map<int, Connection> connections_;
  DecidingClass deciding_;
  ClassStatus scheduling_;   ///< the class that the deciding threads would have, by the last Probe
  uint64_t told_stops_ = 0;  ///< the value of DecidingClass::Stops() that the log has been told of
  std::set<uint32_t> turned_away_;  ///< users who were not admitted under the rules in force, each logged once
  std::map<std::string, std::unique_ptr<GpuArbiter>> gpus_;
  std::unique_ptr<ArbiterTrace> trace_;  ///< null: no trace is wanted
  uint64_t next_trace_ns_ = 0;           ///< when the trace is written next

  friend class ControlRequests;
};

}  // namespace cupola::sched
