#include "sched/daemon/control.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/background_log.h"
#include "base/settings/variables.h"

namespace cupola::sched {
namespace {

using nlohmann::json;

json Failure(const std::string& text) { return {{"ok", false}, {"error", text}}; }

json Names(const ProcessIdentity& process) {
  return {{"pid", process.pid},
          {"user", process.user},
          {"uid", process.uid},
          {"executable", process.executable},
          {"started_as", process.started_as},
          {"script", process.script},
          {"label", process.label},
          {"cgroup", process.cgroup},
          {"container", process.container}};
}

json RuleJson(const Rule& rule) {
  json conditions = json::object(), settings = json::object();
  for (const auto& [key, pattern] : rule.Conditions()) conditions[key] = pattern;
  for (const auto& [key, value] : rule.Settings()) settings[key] = value;
  return {{"line", rule.line}, {"conditions", std::move(conditions)}, {"settings", std::move(settings)}};
}

/// The whole number at `name`; nothing where there is none. `error` is set where it is not in [low, high].
template <typename T>
std::optional<T> NumberAt(const json& request, const char* name, int64_t low, int64_t high,
                          std::string& error) {
  if (!request.contains(name)) return std::nullopt;
  const json& value = request.at(name);
  // json would convert a number above the range of int64_t to another one.
  const bool is_beyond = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  if (value.is_number_integer() && !is_beyond && value.get<int64_t>() >= low && value.get<int64_t>() <= high) {
    return static_cast<T>(value.get<int64_t>());
  }
  error = fmt::format("{} must be a whole number from {} to {}", name, low, high);
  return std::nullopt;
}

/// As NumberAt, for a setting of [[rule]] within the bounds of its row.
template <typename T>
std::optional<T> SettingAt(const json& request, settings::ConfigSetting setting, std::string& error) {
  return NumberAt<T>(request, setting.key().data(), setting.row->least, setting.row->most, error);
}

double Microseconds(uint64_t ns) { return static_cast<double>(ns) / 1000; }

/// Says which of the changes are kept but do nothing under the policy in force; "" = all of them do something.
std::string NoteOn(const ToldSetting& changes, const std::string& policy) {
  std::string idle;
  if (changes.priority && policy != "hpf") idle = "priority counts under hpf";
  if ((changes.latency_bound_ns || changes.least_share_percent) && policy != "hpf") {
    idle = "priority, latency_bound_us and least_share_percent count under hpf";
  }
  if (changes.weight && policy != "ffs") idle += (idle.empty() ? "" : ", ") + std::string("weight counts under ffs");
  return idle.empty() ? "" : fmt::format("{}; the policy is {}", idle, policy);
}

}  // namespace

std::string ControlRequests::Handle(const ProcessIdentity& peer, const std::string& request) {
  const json parsed = json::parse(request, nullptr, false);
  const json answer = parsed.is_object() ? Dispatch(peer, parsed)
                                         : Failure("the request is no JSON object");
  return answer.dump(-1, ' ', false, json::error_handler_t::replace);
}

json ControlRequests::Dispatch(const ProcessIdentity& peer, const json& request) {
  const std::string command = request.contains("command") && request["command"].is_string()
                                  ? request["command"].get<std::string>()
                                  : std::string();
  if (peer.uid != 0 && !server_.config_.Admits(peer, geteuid())) {
    return Failure(Config::RefusalOf(peer));
  }
  if (command == "show") return Show(request.value("state", json(false)) == json(true));
  if (command == "rules") return Rules(request);
  // Other users may look. They may only pause their own processes, nothing else.
  if (command == "set") return Set(peer, request);
  if (peer.uid != geteuid() && peer.uid != 0) {
    return Failure(fmt::format("only the daemon's user may do that, not {}", peer.user));
  }
  if (command == "policy") return SetPolicy(request);
  if (command == "reload") return Reload();
  return Failure(fmt::format("unknown command \"{}\"", command));
}

json ControlRequests::ToJson(const ClientStatus& client) const {
  json row{{"slot", client.slot},
           {"priority", client.settings.priority},
           {"weight", client.settings.weight},
           {"latency_bound_us", client.settings.latency_bound_ns / 1000},
           {"least_share_percent", client.settings.least_share_percent},
           {"paused", client.settings.paused},
           {"can_preempt", (client.capabilities & kCanPreempt) != 0},
           {"can_gate", (client.capabilities & kCanGate) != 0},
           {"shares_context", (client.capabilities & kSharesContext) != 0},
           {"active", client.active},
           {"granted", client.granted},
           {"held", client.held},
           {"stopped", client.stopped},
           {"ran_ns", client.ran_ns},
           {"launches", client.launches},
           {"preemptions", client.preemptions},
           {"resumes", client.resumes},
           {"gpu_ns", client.gpu_ns},
           {"between_ns", client.between_ns},
           {"unstoppable_ns", client.unstoppable_ns},
           {"waited_ns", client.client_waited_ns},
           {"kernel", client.kernel}};
  row.update(Names(client.process));
  row["rules"] = server_.config_.FittingRules(client.process, client.kernel);
  row["wait_bound_us"] =
      client.wait_bound_ns == kNever ? json(nullptr) : json(client.wait_bound_ns / 1000);
  if (client.active) {
    row["launch"] = {{"expected_ns", client.expected_ns},
                     {"waited_ns", client.waited_ns},
                     {"remaining_ns", client.remaining_ns}};
  }
  return row;
}

json ControlRequests::Rules(const json& request) {
  std::string error;
  const auto pid = NumberAt<uint32_t>(request, "pid", 1, INT32_MAX, error);
  if (!error.empty()) return Failure(error);
  std::vector<ClientStatus> clients;
  for (const auto& [uuid, gpu] : server_.gpus_) {
    for (ClientStatus& client : gpu->Status().clients) {
      if (!pid || client.process.pid == *pid) clients.push_back(std::move(client));
    }
  }
  if (pid && clients.empty()) return Failure(fmt::format("process {} is not known here", *pid));
  json rules = json::array();
  for (const Rule& rule : server_.config_.rules) {
    json entry = RuleJson(rule);
    const auto fits = [&](const ClientStatus& client) {
      return rule.Matches(client.process) && rule.MatchesKernel(client.kernel);
    };
    entry["fits"] = std::count_if(clients.begin(), clients.end(), fits);
    if (pid) entry["why_not"] = rule.WhyNot(clients.front().process, clients.front().kernel);
    rules.push_back(std::move(entry));
  }
  json answer{{"ok", true},
              {"config", server_.config_path_},
              {"rules", std::move(rules)},
              {"warnings", server_.config_.warnings}};
  if (pid) answer["process"] = ToJson(clients.front());
  return answer;
}

// The class that the deciding threads have now; before there are any, the class that they would have.
json ControlRequests::Scheduling(const ClassStatus& status) const {
  const DecidingClass& deciding = server_.deciding_;
  return {{"wanted", DecidingClass::NameOf(deciding.choice())},
          {"class", status.name},
          {"policy", status.policy},
          {"priority", status.priority},
          {"nice", status.nice},
          {"slice_us", status.slice_us},
          {"why", status.why},
          {"stopped_by_guard", DecidingClass::Stops()},
          {"rests", deciding.rests()}};
}

json ControlRequests::Show(bool with_state) {
  json gpus = json::array();
  ClassStatus scheduling = server_.scheduling_;
  for (const auto& [uuid, gpu] : server_.gpus_) {
    const GpuStatus status = gpu->Status();
    json clients = json::array();
    for (const ClientStatus& client : status.clients) clients.push_back(ToJson(client));
    json entry{{"uuid", status.uuid},       {"sms", status.sms},
               {"boards", status.boards},   {"policy", status.policy},
               {"reviews", status.reviews}, {"now_ns", status.now_ns},
               {"clients", std::move(clients)}};
    entry["decisions"] = {{"count", status.decisions},
                          {"by_daemon", status.daemon_decisions},
                          {"p50_us", Microseconds(status.decision_p50_ns)},
                          {"p99_us", Microseconds(status.decision_p99_ns)}};
    if (status.scheduling) scheduling = *status.scheduling;
    if (with_state) entry["state"] = status.policy_state;
    gpus.push_back(std::move(entry));
  }
  return {{"ok", true},
          {"pid", getpid()},
          {"socket", server_.socket_.path()},
          {"config", server_.config_path_},
          {"mps", server_.config_.gpu.uses_mps},
          {"log_lines_lost", BackgroundLog::LostLines()},
          {"policy", server_.config_.gpu.policy},
          {"scheduling", Scheduling(scheduling)},
          {"gpus", std::move(gpus)}};
}

json ControlRequests::Set(const ProcessIdentity& peer, const json& request) {
  std::string error;
  const auto pid = NumberAt<uint32_t>(request, "pid", 1, INT32_MAX, error);
  ToldSetting changes;
  changes.priority = SettingAt<int32_t>(request, "rule.priority", error);
  changes.weight = SettingAt<uint32_t>(request, "rule.weight", error);
  if (const auto bound = SettingAt<uint64_t>(request, "rule.latency_bound_us", error)) {
    changes.latency_bound_ns = *bound * 1000;
  }
  changes.least_share_percent = SettingAt<uint32_t>(request, "rule.least_share_percent", error);
  if (request.contains("paused")) {
    if (!request["paused"].is_boolean()) return Failure("paused must be true or false");
    changes.paused = request["paused"].get<bool>();
  }
  if (!error.empty()) return Failure(error);
  if (!pid) return Failure("pid is missing");
  const bool own = peer.uid == geteuid() || peer.uid == 0;
  const bool only_pauses =
      !changes.priority && !changes.weight && !changes.latency_bound_ns && !changes.least_share_percent;
  const auto whose = own ? std::optional<uint32_t>() : peer.uid;
  if (changes.paused.value_or(false) && (own || only_pauses) && CannotBeStopped(*pid, whose)) {
    return Failure(fmt::format("process {} cannot be stopped, so it is not paused: its launches are not held at gates "
                               "(CUPOLA_GATE_EVERY=0, the driver refuses them, or a tool is at work in it), and it has "
                               "launched no kernel that has a preemptible variant",
                               *pid));
  }
  bool found = false;
  if (own || only_pauses) {
    for (const auto& [uuid, gpu] : server_.gpus_) {
      const std::optional<ProcessIdentity> process = gpu->FindProcess(*pid, whose);
      if (process) server_.told_.Tell(*process, changes);
      found = found || process;
    }
    // The process may be between two programs (execve), and so not on a board now.
    found = found || server_.told_.TellKnown(*pid, whose, changes);
    for (const auto& [uuid, gpu] : server_.gpus_) gpu->SettingsChanged(*pid);
  }
  if (!found && !own) {
    return Failure(fmt::format("{} may only pause and resume processes of their own", peer.user));
  }
  if (!found) return Failure(fmt::format("process {} is not known here", *pid));
  const std::string note = NoteOn(changes, server_.config_.gpu.policy);
  return note.empty() ? json{{"ok", true}} : json{{"ok", true}, {"note", note}};
}

bool ControlRequests::CannotBeStopped(uint32_t pid, std::optional<uint32_t> uid) {
  std::optional<uint32_t> all;
  for (const auto& [uuid, gpu] : server_.gpus_) {
    if (const auto one = gpu->CapabilitiesOf(pid, uid)) all = all.value_or(0) | *one;
  }
  return all && (*all & (kCanPreempt | kCanGate)) == 0;
}

json ControlRequests::SetPolicy(const json& request) {
  const std::string name = request.contains("name") && request["name"].is_string()
                               ? request["name"].get<std::string>()
                               : std::string();
  if (MakePolicy(name, {}) == nullptr) {
    return Failure(fmt::format("unknown policy \"{}\"; there are {}", name,
                               fmt::join(PolicyNames(), ", ")));
  }
  server_.config_.gpu.policy = name;
  server_.told_policy_ = name == server_.configured_policy_ ? "" : name;
  for (const auto& [uuid, gpu] : server_.gpus_) gpu->Reconfigure(server_.config_.gpu);
  return {{"ok", true}};
}

json ControlRequests::Reload() {
  const Result<std::vector<std::string>> notes = server_.Reload();
  if (!notes) return Failure(notes.error().ToString() + "; the configuration stays as it was");
  return {{"ok", true}, {"notes", *notes}};
}

}  // namespace cupola::sched
