#include "cli/ctl_command.h"

#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/arbiter_connection.h"
#include "cli/arbiter_table.h"
#include "cli/commands.h"
#include "cli/ctl_rules.h"

namespace cupola {
namespace {

struct CtlOptions {
  std::string socket;
  bool as_json = false;
  bool state = false;
  int64_t pid = 0;
  std::vector<std::string> changes;
  std::string policy;
};

constexpr char kCtlFooter[] =
    "\nExamples:\n"
    "  cupola ctl show                       who is there, who runs, who waits\n"
    "  cupola ctl rules --for 4711           which rules fit it, and why the others do not\n"
    "  cupola ctl set 4711 priority=10       before all of lower priority, from now on\n"
    "  cupola ctl set 4711 weight=2 latency_bound_us=2000\n"
    "  cupola ctl policy ffs                 weighted shares instead of priorities\n"
    "  cupola ctl pause 4711                 off the GPU, until: cupola ctl resume 4711\n"
    "  cupola ctl reload                     read the configuration again\n"
    "\nWhat is set of a process holds as long as the process and the daemon, also where the process\n"
    "becomes another program; it comes before rules, whatever is read again. Of its children nothing is\n"
    "said by it: rules count for them.\n"
    "\nExit codes: 0 done, 1 refused, or no arbiter is running, 2 wrong usage.\n";

nlohmann::json Ask(const CtlOptions& options, const nlohmann::json& request) {
  Result<ArbiterConnection> connection = ArbiterConnection::Open(options.socket);
  if (!connection) Fail(connection.error());
  Result<nlohmann::json> answer = connection->Ask(request);
  if (!answer) Fail(answer.error());
  return std::move(answer).value();
}

/// Sends a request whose answer has no contents to show but a note.
void Do(const CtlOptions& options, const nlohmann::json& request) {
  const nlohmann::json answer = Ask(options, request);
  if (const std::string note = answer.value("note", ""); !note.empty()) Say(note);
  if (options.as_json) fmt::print("{}\n", answer.dump());
  for (const nlohmann::json& note : answer.value("notes", nlohmann::json::array())) Say(note.get<std::string>());
}

void Show(const CtlOptions& options) {
  const nlohmann::json answer = Ask(options, {{"command", "show"}, {"state", options.state}});
  if (options.as_json) {
    fmt::print("{}\n", answer.dump(2));
    return;
  }
  fmt::print("{}", ArbiterTableText(answer));
  if (!options.state) return;
  for (const nlohmann::json& gpu : answer["gpus"]) {
    fmt::print("{}", gpu["state"].get<std::string>());
  }
}

void ShowRules(const CtlOptions& options) {
  nlohmann::json request{{"command", "rules"}};
  if (options.pid != 0) request["pid"] = options.pid;
  const nlohmann::json answer = Ask(options, request);
  fmt::print("{}", options.as_json ? answer.dump(2) + "\n" : Printable(RulesText(answer)));
}

void SetScheduling(const CtlOptions& options) {
  nlohmann::json request{{"command", "set"}, {"pid", options.pid}};
  for (const std::string& change : options.changes) {
    const size_t equals = change.find('=');
    const std::string name = change.substr(0, equals);
    const bool known = name == "priority" || name == "weight" || name == "latency_bound_us" ||
                       name == "least_share_percent";
    int64_t value = 0;
    const char* end = change.data() + change.size();
    const char* number = equals == std::string::npos ? end : change.data() + equals + 1;
    const auto [read_to, error] = std::from_chars(number, end, value);
    if (known && error == std::errc::result_out_of_range) {
      Fail(MakeError(ErrorCode::kInvalidArgument, fmt::format("\"{}\": no number is so large here", change)),
           kExitUsage);
    }
    if (!known || number == end || error != std::errc() || read_to != end) {
      Fail(MakeError(ErrorCode::kInvalidArgument,
                     fmt::format("\"{}\": expected priority=N, weight=N, latency_bound_us=N or "
                                 "least_share_percent=N", change)),
           kExitUsage);
    }
    request[name] = value;
  }
  Do(options, request);
}

CLI::App* AddProcessCommand(CLI::App& ctl, const char* name, const char* text,
                            const std::shared_ptr<CtlOptions>& options) {
  CLI::App* command = ctl.add_subcommand(name, text);
  command->add_option("PID", options->pid, "The process")->required();
  return command;
}

}  // namespace

void AddCtlCommand(CLI::App& app) {
  auto options = std::make_shared<CtlOptions>();
  CLI::App* ctl = app.add_subcommand("ctl", "Show and change what the arbiter does, live");
  ctl->add_option("--socket", options->socket, "The arbiter's socket, if not in its usual place");
  ctl->add_flag("--json", options->as_json, "Print the answer as JSON");
  ctl->require_subcommand(1);
  ctl->fallthrough();
  ctl->footer(kCtlFooter);
  CLI::App* show = ctl->add_subcommand("show", "Who shares the GPUs, and who runs");
  show->add_flag("--state", options->state, "And the whole state of the policies");
  show->callback([options] { Show(*options); });
  CLI::App* rules = ctl->add_subcommand("rules", "The rules in force, and whom they fit");
  rules->add_option("--for", options->pid, "Which fit this process, and why the others do not");
  rules->callback([options] { ShowRules(*options); });
  CLI::App* set = AddProcessCommand(*ctl, "set", "Set what counts for a process", options);
  set->add_option("CHANGES", options->changes, "priority=N, weight=N, latency_bound_us=N, least_share_percent=N")
      ->required();
  set->callback([options] { SetScheduling(*options); });
  CLI::App* policy = ctl->add_subcommand("policy", "Change the policy");
  policy->add_option("NAME", options->policy, "hpf, ffs, fifo, reorder or corun")->required();
  policy->callback([options] {
    Do(*options, {{"command", "policy"}, {"name", options->policy}});
  });
  AddProcessCommand(*ctl, "pause", "Take a process off the GPU", options)->callback([options] {
    Do(*options, {{"command", "set"}, {"pid", options->pid}, {"paused", true}});
  });
  AddProcessCommand(*ctl, "resume", "Let a paused process go on", options)->callback([options] {
    Do(*options, {{"command", "set"}, {"pid", options->pid}, {"paused", false}});
  });
  ctl->add_subcommand("reload", "Read the configuration again")->callback([options] {
    Do(*options, {{"command", "reload"}});
  });
}

}  // namespace cupola
