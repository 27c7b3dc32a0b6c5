#include "cli/ctl_rules.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cupola {
namespace {

using nlohmann::json;

std::string Pairs(const json& object, const char* format) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : object.items()) {
    texts.push_back(fmt::format(fmt::runtime(format), key, value.get<std::string>()));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string ProcessText(const json& process) {
  std::string text = fmt::format("process {} of {} ({})\n", process["pid"].get<int64_t>(),
                                 process["user"].get<std::string>(), process["uid"].get<int64_t>());
  for (const char* name : {"executable", "started_as", "script", "label", "cgroup", "container", "kernel"}) {
    const std::string value = process[name];
    if (!value.empty()) text += fmt::format("  {:<11} {}\n", name, value);
  }
  return text;
}

}  // namespace

std::string RulesText(const json& answer) {
  const bool is_of_one = answer.contains("process");
  const std::string file = answer["config"];
  std::string text = is_of_one ? ProcessText(answer["process"]) : "";
  if (answer["rules"].empty()) {
    text += file.empty() ? "there are no rules: the daemon was started without --config\n"
                         : fmt::format("there are no rules in {}\n", file);
  }
  int number = 0;
  for (const json& rule : answer["rules"]) {
    const std::string conditions = Pairs(rule["conditions"], "{} = \"{}\"");
    const std::string fits = is_of_one ? rule["why_not"].empty() ? "fits" : "does not fit"
                                       : fmt::format("fits {} now", rule["fits"].get<int64_t>());
    text += fmt::format("rule {} ({}:{}) {}: {} sets {}\n", ++number, file, rule["line"].get<int64_t>(), fits,
                        conditions.empty() ? "everybody" : conditions, Pairs(rule["settings"], "{} = {}"));
    if (!is_of_one) continue;
    for (const json& why : rule["why_not"]) text += fmt::format("  {}\n", why.get<std::string>());
  }
  for (const json& warning : answer["warnings"]) text += fmt::format("warning: {}\n", warning.get<std::string>());
  if (is_of_one) {
    const json& process = answer["process"];
    text += fmt::format("in force, what ctl set included: priority {}, weight {}, latency_bound_us {}, "
                        "least_share_percent {}{}\n",
                        process["priority"].get<int64_t>(), process["weight"].get<int64_t>(),
                        process["latency_bound_us"].get<int64_t>(), process["least_share_percent"].get<int64_t>(),
                        process["paused"].get<bool>() ? ", paused" : "");
  }
  return text;
}

}  // namespace cupola
