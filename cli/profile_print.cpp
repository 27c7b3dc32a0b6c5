#include "cli/profile_print.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "profiles/kernel_name.h"

namespace cupola {
namespace {

constexpr size_t kNameWidth = 44;

std::string ShortName(const std::string& symbol) {
  std::string name = KernelDisplayName(symbol);
  if (name.size() > kNameWidth) name = name.substr(0, kNameWidth - 3) + "...";
  return name;
}

size_t ConfigurationsOf(const profiles::KernelProfile& kernel) {
  std::set<std::tuple<uint64_t, uint64_t, uint64_t, uint32_t>> different;
  for (const auto& sample : kernel.launches) {
    different.insert({uint64_t{sample.grid[0]} << 32 | sample.grid[1],
                      uint64_t{sample.grid[2]} << 32 | sample.block[0],
                      uint64_t{sample.block[1]} << 32 | sample.block[2], sample.dynamic_shared});
  }
  return different.size();
}

}  // namespace

std::string ClaimText(uint32_t word) {
  const uint32_t eighths = profiles::EighthsOf(word);
  return fmt::format("{}{}{}{}", profiles::ClaimBatch(word),
                     profiles::IsInGridOrder(word) ? "g" : "",
                     profiles::HasOneWorkerLess(word) ? "w" : "",
                     eighths == profiles::kAllEighths ? "" : fmt::format("x{}", eighths));
}

std::string DurationText(uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1000) return fmt::format("{} ns", ns);
  if (ns < 1'000'000) return fmt::format("{:.1f} us", value / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.2f} ms", value / 1e6);
  return fmt::format("{:.2f} s", value / 1e9);
}

std::string ProfileTable(const profiles::Profile& profile) {
  std::string text = fmt::format("{}, sm_{}, {} SMs, driver {}\n", profile.gpu.name,
                                 profile.gpu.arch, profile.gpu.sms, profile.gpu.driver);
  text += fmt::format("{:<{}} {:>8} {:>7} {:>10} {:>10} {:>10} {:>9} {:>4}\n", "kernel",
                      kNameWidth, "launches", "shapes", "least", "median", "most", "preempted",
                      "L");
  for (const auto& [key, kernel] : profile.kernels) {
    std::vector<uint64_t> ns;
    for (const auto& sample : kernel.launches) ns.push_back(sample.ns);
    std::sort(ns.begin(), ns.end());
    const auto at = [&](size_t i) { return ns.empty() ? "-" : DurationText(ns[i]); };
    text += fmt::format("{:<{}} {:>8} {:>7} {:>10} {:>10} {:>10} {:>9} {:>4}\n",
                        ShortName(key.first), kNameWidth, ns.size(), ConfigurationsOf(kernel),
                        at(0), at(ns.size() / 2), at(ns.empty() ? 0 : ns.size() - 1),
                        profiles::MeanOfLatest(kernel.preemptions, UINT64_MAX).count,
                        kernel.tuned ? ClaimText(kernel.tuned->batch) : "-");
  }
  return text;
}

std::string TrainTable(const std::vector<models::KernelReport>& kernels, bool terms) {
  std::string text = fmt::format("{:<{}} {:>8} {:>7} {:<9} {:>7} {:>8} {:>10} {:>5} {:>10}\n",
                                 "kernel", kNameWidth, "launches", "shapes", "model", "error",
                                 "worst", "block", "L", "preempt");
  double sum = 0;
  size_t count = 0;
  for (const models::KernelReport& one : kernels) {
    const bool has_model = one.launches != 0;
    text += fmt::format(
        "{:<{}} {:>8} {:>7} {:<9} {:>7} {:>8} {:>10} {:>5} {:>10}\n", ShortName(one.name),
        kNameWidth, one.launches, one.configurations, has_model ? one.model : "none",
        has_model ? fmt::format("{:.1f} %", one.mean_error * 100) : "-",
        has_model ? fmt::format("{:.1f} %", one.worst_error * 100) : "-",
        one.block_ns != 0 ? DurationText(one.block_ns) : "-",
        ClaimText(one.batch) + (one.tuned ? "" : "?"),
        one.preemption_ns != 0 ? DurationText(one.preemption_ns) : "-");
    for (size_t i = 0; terms && i < one.terms.size(); ++i) {
      text += "    " + one.terms[i] + "\n";
    }
    if (!has_model) continue;
    sum += one.mean_error;
    ++count;
  }
  if (count != 0) {
    text += fmt::format("mean error {:.2f} % over {} kernels, every launch held out\n",
                        100 * sum / static_cast<double>(count), count);
  }
  return text;
}

std::string TrainJson(const std::vector<models::KernelReport>& kernels) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  double sum = 0;
  size_t count = 0;
  for (const models::KernelReport& one : kernels) {
    nlohmann::ordered_json arguments = nlohmann::ordered_json::array();
    for (const auto& argument : one.arguments) arguments.push_back(argument.index);
    nlohmann::ordered_json input_error;  // null where the input bytes are not known
    if (one.input_error >= 0) input_error = one.input_error * 100;
    list.push_back({{"name", one.name}, {"image", one.image}, {"launches", one.launches},
                    {"configurations", one.configurations}, {"model", one.model},
                    {"mean_error_percent", one.mean_error * 100},
                    {"worst_error_percent", one.worst_error * 100},
                    {"ridge_error_percent", one.ridge_error * 100},
                    {"input_error_percent", std::move(input_error)},
                    {"history_error_percent", one.history_error * 100},
                    {"integer_arguments", std::move(arguments)}, {"terms", one.terms},
                    {"block_ns", one.block_ns}, {"batch", profiles::ClaimBatch(one.batch)},
                    {"in_grid_order", profiles::IsInGridOrder(one.batch)},
                    {"one_worker_less", profiles::HasOneWorkerLess(one.batch)},
                    {"worker_eighths", profiles::EighthsOf(one.batch)}, {"tuned", one.tuned},
                    {"preemption_ns", one.preemption_ns},
                    {"preemptions", one.preemptions}});
    if (one.launches == 0) continue;
    sum += one.mean_error;
    ++count;
  }
  const nlohmann::ordered_json all{
      {"mean_error_percent", count == 0 ? 0 : 100 * sum / static_cast<double>(count)},
      {"kernels", std::move(list)}};
  return all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace cupola
