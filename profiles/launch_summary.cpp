#include "profiles/launch_summary.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "profiles/kernel_name.h"

namespace cupola {
namespace {

std::string Dims(uint32_t x, uint32_t y, uint32_t z) {
  if (z != 1) return fmt::format("{}x{}x{}", x, y, z);
  return y != 1 ? fmt::format("{}x{}", x, y) : fmt::format("{}", x);
}

}  // namespace

void LaunchSummary::Add(const Launch& launch) {
  if (launch.flags & kFlagFailed) {
    ++failed_;
    return;
  }
  if (launch.kind != RecordKind::kKernel) return;
  auto entry = kernels_.find(launch.name);
  if (entry == kernels_.end()) entry = kernels_.emplace(std::string(launch.name), Kernel{}).first;
  Kernel& kernel = entry->second;
  ++kernel.launches;
  ++kernel.shapes[Shape(launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0],
                        launch.block[1], launch.block[2])];
  if ((launch.flags & kFlagDeviceTimed) && launch.device_end_ns >= launch.device_start_ns) {
    ++kernel.timed;
    kernel.device_ns += launch.device_end_ns - launch.device_start_ns;
  }
}

std::string LaunchSummary::ToString(const LaunchTotals& totals) const {
  std::vector<std::pair<std::string, const Kernel*>> rows;
  for (const auto& [symbol, kernel] : kernels_) {
    rows.emplace_back(KernelDisplayName(symbol), &kernel);
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::tie(b.second->device_ns, b.second->launches, a.first) <
           std::tie(a.second->device_ns, a.second->launches, b.first);
  });
  std::string text = fmt::format("{:>10} {:>12} {:>12} {:>16} {:>12}  {}\n", "launches", "total ms",
                                 "mean us", "grid", "block", "kernel");
  for (const auto& [name, kernel] : rows) {
    const auto& [shape, uses] =
        *std::max_element(kernel->shapes.begin(), kernel->shapes.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto& [gx, gy, gz, bx, by, bz] = shape;
    const std::string more = kernel->shapes.size() > 1 ? "*" : "";
    const double total_ns = static_cast<double>(kernel->device_ns);
    text += fmt::format(
        "{:>10} {:>12} {:>12} {:>16} {:>12}  {}\n", kernel->launches,
        kernel->timed ? fmt::format("{:.3f}", total_ns / 1e6) : "-",
        kernel->timed ? fmt::format("{:.2f}", total_ns / 1e3 / static_cast<double>(kernel->timed))
                      : "-",
        Dims(gx, gy, gz) + more, Dims(bx, by, bz), name);
  }
  const bool varied = std::any_of(rows.begin(), rows.end(),
                                  [](const auto& row) { return row.second->shapes.size() > 1; });
  if (varied) text += "* the most common of several shapes\n";
  text += fmt::format("{} kernel launches\n", totals.launches);
  if (totals.graph_launches != 0) {
    text += fmt::format("{} graph launches with {} kernel nodes\n", totals.graph_launches,
                        totals.graph_kernel_nodes);
  }
  if (totals.captured != 0)
    text += fmt::format("{} launches captured into graphs\n", totals.captured);
  if (failed_ != 0) text += fmt::format("{} launches refused by the driver\n", failed_);
  if (totals.dropped != 0) {
    text += fmt::format("{} records dropped because the program was faster than the reader: the "
                        "lines above miss them\n", totals.dropped);
  }
  return text;
}

}  // namespace cupola
