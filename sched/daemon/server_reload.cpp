// Server: reading the configuration again while programs run.
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "sched/daemon/server.h"

namespace cupola::sched {

Result<std::vector<std::string>> Server::Reload() {
  if (config_path_.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "the daemon was started without --config");
  }
  Result<Config> read = ReadConfig(config_path_);
  if (!read) return std::move(read).error();
  Config config = std::move(read).value();
  config.gpu.uses_mps = config_.gpu.uses_mps;
  std::vector<std::string> notes = config.warnings;
  if (config.rules.empty() && !config_.rules.empty()) {
    notes.push_back(fmt::format("{} has no rules now; {} that were in force are gone", config_path_,
                                config_.rules.size()));
  }
  if (config.socket != config_.socket) notes.emplace_back("server.socket counts when a daemon starts, not now");
  if (config.mps != config_.mps) notes.emplace_back("server.mps counts when a daemon starts, not now");
  NotePolicy(config, notes);
  NoteAccess(config, notes);
  {
    // Reviews ask for settings, so none may run while the configuration is exchanged.
    std::vector<std::unique_lock<PiMutex>> pause;
    for (const auto& [uuid, gpu] : gpus_) pause.push_back(gpu->Pause());
    config_ = std::move(config);
  }
  turned_away_.clear();
  const bool is_stopped = deciding_.was_stopped();
  if (config_.scheduling != deciding_.choice() || is_stopped) {
    deciding_.Choose(config_.scheduling);
    SayScheduling();
  }
  socket_.AdmitOthers(!config_.users.empty());
  for (const auto& [uuid, gpu] : gpus_) gpu->Reconfigure(config_.gpu);
  for (const std::string& note : notes) spdlog::warn("{}", note);
  spdlog::info("{} is in force", config_path_);
  return notes;
}

// Of `cupola ctl policy` and the configuration the later word counts. The configuration has spoken later where it names
// another policy now than when it was last read.
void Server::NotePolicy(Config& config, std::vector<std::string>& notes) {
  const std::string named = config.gpu.policy;
  const bool is_news = named != std::exchange(configured_policy_, named);
  if (told_policy_.empty() || told_policy_ == named) {
    told_policy_.clear();
  } else if (is_news) {
    notes.push_back(fmt::format("the policy is {}, as {} has it now; before it was {}, as cupola ctl policy said",
                                named, config_path_, told_policy_));
    told_policy_.clear();
  } else {
    notes.push_back(fmt::format("the policy stays {}, as cupola ctl policy said; {} has {}", told_policy_, config_path_,
                                named));
    config.gpu.policy = told_policy_;
  }
}

// Processes that have joined stay: one that was thrown out would run on beside the others without any rule.
void Server::NoteAccess(const Config& config, std::vector<std::string>& notes) {
  std::map<std::string, std::set<uint32_t>> staying;
  for (const auto& [uuid, gpu] : gpus_) {
    for (const ClientStatus& client : gpu->Status().clients) {
      const ProcessIdentity& process = client.process;
      if (config_.Admits(process, geteuid()) && !config.Admits(process, geteuid())) {
        staying[process.user].insert(process.pid);
      }
    }
  }
  for (const auto& [user, processes] : staying) {
    notes.push_back(fmt::format("user {} may not join any more; what has joined stays until it ends ({} {})", user,
                                processes.size(), processes.size() == 1 ? "process" : "processes"));
  }
}

}  // namespace cupola::sched
