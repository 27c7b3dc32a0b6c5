// Server: the process behind `cupola serve`: a socket, the GPUs that clients have named, and the
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
#include "sched/daemon/config.h"
#include "sched/daemon/deciding_class.h"
#include "sched/daemon/gpu_arbiter.h"
#include "sched/daemon/listening_socket.h"
#include "sched/daemon/told_settings.h"

namespace cupola::sched {

class Server : private SettingsSource {
 public:
  /// Takes its place at the first of `places` that can be taken. `config_path` is what Reload reads; "" = none.
  static Result<std::unique_ptr<Server>> Start(const ArbiterPlaces& places, Config config, std::string config_path,
                                               const Surroundings& system = Surroundings::OfSystem());
  ~Server() override;

  /// Serves until SIGTERM or SIGINT; SIGHUP reads the configuration again. The caller has blocked the
  /// three in all threads.
  Status Run();

  /// For display. Before Run.
  void SetUsesMps(bool uses_mps) { config_.gpu.uses_mps = uses_mps; }

  const std::string& socket_path() const { return socket_.path(); }

  /// Gives the process a place on the GPU `uuid`, or takes over the place that it has on the board that it brings; who
  /// is refused is told why. What Run does for each process that wants to join.
  Admission Join(const ProcessIdentity& process, const std::string& uuid, const JoinMessage& message,
                 BoardMemory brought);
  /// Frees what processes that have ended had. Run does so whenever one has, and twice a second.
  void KeepHouse();
  /// Reviews each GPU, where the surroundings have no threads that do. Returns when the next review is due at the latest.
  uint64_t Review();

 private:
  struct Connection {
    int fd = -1;
    ProcessIdentity peer;
    uint64_t last_ns = 0;
    bool has_spoken = false;
    std::string gpu;         ///< where it has been given a place, by the answer sent last
    uint64_t admission = 0;  ///< Admission::number of that; 0 = none
    AnswerQueue answer;
  };

  /// Taken from those who wait to be connected; then those who are there are served.
  static constexpr int kMostWaiting = 512, kAcceptedAtOnce = 16;

  Server(ListeningSocket socket, Config config, std::string config_path, const Surroundings& system);
  ClientSettings SettingsFor(const ProcessIdentity& process,
                             const std::string& kernel) const override;
  bool HasKernelRules(const ProcessIdentity& process) const override;
  Status Prepare();
  Status Watch(int fd);
  /// Twice a second: sees whether others can find this daemon, and takes its place again. An error: another has it.
  Status LookAfterSocket();
  /// false = it is time to end.
  bool HandleSignals();
  /// Some of those who want to connect.
  void Accept();
  /// As accept4(2); makes room where there are no descriptors.
  int AcceptOne();
  /// Where there is no room either: by the descriptor that is kept for it. The peer is to be told, and let go.
  int AcceptBySpare();
  void KeepSpare();
  /// false = it was told why not: its user is not admitted, or has connections enough.
  bool MayStay(const Connection& connection);
  size_t ConnectionsOf(uint32_t uid) const;
  /// Those whose peer has hung up.
  void DropGone();
  /// The one that has been there longest of those that never said anything and may go (nothing: any), if it had time to
  /// speak. False: there is none such.
  bool DropSilent(const std::function<bool(const ProcessIdentity&)>& may_go = nullptr);
  /// false = the connection is over.
  bool Serve(Connection& connection);
  /// `texts`: what followed the message.
  bool ServeJoin(Connection& connection, const JoinMessage& message, std::string texts,
                 BoardMemory brought);
  bool ServeControl(Connection& connection, const std::string& request);
  /// What the peer takes of its answer now.
  bool SendAnswer(Connection& connection);
  bool Answer(const Connection& connection, const JoinAnswer& answer, int board_fd);
  /// Tells the peer and the log; false.
  bool Refuse(const Connection& connection, JoinStatus status, const std::string& reason);
  void Tell(const Connection& connection, JoinStatus status, const std::string& reason);
  /// The peer has hung up before it had its answer: it has no place.
  void Withdraw(const Connection& connection);
  void Drop(int fd);
  void DropIdle();
  /// The error is for the peer.
  Result<GpuArbiter*> GpuFor(const std::string& uuid, const ProcessIdentity& peer);
  size_t GpusOf(uint32_t uid) const;
  void DropEmptyGpus();
  /// Tells the log at which priority decisions are made.
  void SayScheduling();
  /// Tells the log where a guard has taken the deciding threads' class.
  void LookAtGuard();
  /// Reads the configuration again; the answer is what is worth a word though it is no error, also in the log.
  Result<std::vector<std::string>> Reload();
  /// Which policy counts; adds to `notes` where that may be a surprise.
  void NotePolicy(Config& config, std::vector<std::string>& notes);
  /// Adds to `notes` whose access is taken away.
  void NoteAccess(const Config& config, std::vector<std::string>& notes);

  const Surroundings& system_;
  ListeningSocket socket_;
  Config config_;
  std::string configured_policy_;  ///< that the configuration named when it was last read
  std::string told_policy_;        ///< by `cupola ctl policy` since; "" = none
  ToldSettings told_;
  std::string config_path_;
  uint64_t next_look_ns_ = 0;  ///< at the socket's place
  bool is_lost_ = false;       ///< the socket has no place, which has been told
  int epoll_ = -1;
  int signals_ = -1;
  int spare_ = -1;  ///< a descriptor, for when there are no more
  std::map<int, Connection> connections_;
  DecidingClass deciding_;
  ClassStatus scheduling_;   ///< that the deciding threads would have, by the last try
  uint64_t told_stops_ = 0;  ///< DecidingClass::Stops() that the log has been told of
  std::set<uint32_t> turned_away_;  ///< users who were not admitted, since the rules are in force
  std::map<std::string, std::unique_ptr<GpuArbiter>> gpus_;

  friend class ControlRequests;
};

}  // namespace cupola::sched
