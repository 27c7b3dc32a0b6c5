// ControlRequests: what `cupola ctl` and `cupola top` may ask of the daemon, as JSON both ways. A request is
// {"command": NAME, ...}; an answer is {"ok": true, ...} or {"ok": false, "error": TEXT}. docs/operating.md lists
// them. The Server makes one for each request, on its own thread.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "sched/daemon/server.h"

namespace cupola::sched {

class ControlRequests {
 public:
  explicit ControlRequests(Server& server) : server_(server) {}

  /// Never fails: where something is wrong with the request, the answer says so.
  std::string Handle(const ProcessIdentity& peer, const std::string& request);

 private:
  nlohmann::json Dispatch(const ProcessIdentity& peer, const nlohmann::json& request);
  nlohmann::json Show(bool with_state);
  nlohmann::json Scheduling(const ClassStatus& status) const;
  nlohmann::json Rules(const nlohmann::json& request);
  nlohmann::json ToJson(const ClientStatus& client) const;
  nlohmann::json Set(const ProcessIdentity& peer, const nlohmann::json& request);
  /// Whether the process is a client here and can do nothing when it is asked to yield. `uid` as in
  /// GpuArbiter::FindProcess.
  bool CannotBeStopped(uint32_t pid, std::optional<uint32_t> uid);
  nlohmann::json SetPolicy(const nlohmann::json& request);
  nlohmann::json Reload();

  Server& server_;
};

}  // namespace cupola::sched
