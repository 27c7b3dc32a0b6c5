#include "cli/build_print.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/inspect.h"
#include "device/compiler/store/bundle.h"

namespace cupola {
namespace {

using build::BuildReport;
using build::ImageReport;
using build::ImageState;
using build::KernelReport;
using Json = nlohmann::ordered_json;

bool Has(const KernelReport& kernel, store::VariantFlag flag) { return (kernel.flags & flag) != 0; }

std::string FileName(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::string CountOf(size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string VariantsMade(const KernelReport& kernel) {
  std::string text;
  if (Has(kernel, store::kPreemptible)) text = "preemptible";
  if (Has(kernel, store::kSliced)) text += text.empty() ? "sliced" : " sliced";
  if (Has(kernel, store::kTask)) text += text.empty() ? "task" : " task";
  return text.empty() ? "none" : text;
}

struct Form {
  const char* name;
  store::VariantFlag made, inexact;
};
constexpr Form kForms[] = {{"preemptible", store::kPreemptible, store::kNotBitExact},
                           {"sliced", store::kSliced, store::kSlicedNotBitExact},
                           {"task", store::kTask, store::kTaskNotBitExact}};

// Whether the kernel's variants compute bit-exact results: "yes", "no", or the names of those that do.
std::string ExactnessOf(const KernelReport& kernel) {
  std::string exact;
  bool any = false, all = true;
  for (const Form& form : kForms) {
    if (!Has(kernel, form.made)) continue;
    any = true;
    if (Has(kernel, form.inexact)) {
      all = false;
    } else {
      exact += (exact.empty() ? "" : " ") + std::string(form.name);
    }
  }
  if (!any) return "-";
  return all ? "yes" : exact.empty() ? "no" : exact;
}

std::string Change(const std::string& before, const std::string& after) {
  return before == after ? before : before + " -> " + after;
}

std::string RegistersOf(const KernelReport& kernel) {
  if (kernel.registers == 0) return "-";
  const uint32_t after =
      kernel.variant_registers != 0 ? kernel.variant_registers : kernel.sliced_registers;
  if (after == 0) return fmt::format("{}", kernel.registers);
  return fmt::format("{} -> {}", kernel.registers, after);
}

std::string OccupancyText(const KernelReport& kernel) {
  if (kernel.registers == 0) return "-";
  const auto percent = [](const build::Occupancy& occupancy) {
    return fmt::format("{:.0f}%", occupancy.fraction() * 100);
  };
  if (!Has(kernel, store::kPreemptible)) return percent(kernel.before);
  return Change(percent(kernel.before), percent(kernel.after));
}

std::string NotesOf(const KernelReport& kernel) {
  std::string text = kernel.refusal;
  const auto add = [&text](const std::string& note) { text += (text.empty() ? "" : "; ") + note; };
  const bool inexact = Has(kernel, store::kNotBitExact) || Has(kernel, store::kSlicedNotBitExact);
  if (inexact) add("not bit-exact: " + kernel.differences);
  if (kernel.variant_local_bytes > kernel.local_bytes) {
    add(fmt::format("local memory {} -> {} bytes", kernel.local_bytes, kernel.variant_local_bytes));
  }
  if (Has(kernel, store::kMayWaitOnBlocks)) add("blocks may wait on earlier ones: one at a time");
  if (Has(kernel, store::kOneDimensionalBlocks)) add("for blocks of one dimension");
  if (!kernel.task_refusal.empty() && kernel.task_refusal != kernel.refusal) {
    add("task: " + kernel.task_refusal);
  }
  return text;
}

struct Totals {
  size_t kernels = 0, with_ptx = 0, preemptible = 0, exact = 0, sliced = 0, sliced_exact = 0;
  size_t tasks = 0, tasks_exact = 0;
  size_t images[4] = {};
};

bool HasPtx(const ImageReport& image) {
  return image.state == ImageState::kBuilt || image.state == ImageState::kInStore;
}

Totals CountTotals(const BuildReport& report) {
  Totals totals;
  for (const ImageReport& image : report.images) {
    ++totals.images[static_cast<int>(image.state)];
    for (const KernelReport& kernel : image.kernels) {
      ++totals.kernels;
      totals.with_ptx += HasPtx(image);
      const bool preemptible = Has(kernel, store::kPreemptible);
      const bool sliced = Has(kernel, store::kSliced);
      totals.preemptible += preemptible;
      totals.exact += preemptible && !Has(kernel, store::kNotBitExact);
      totals.sliced += sliced;
      totals.sliced_exact += sliced && !Has(kernel, store::kSlicedNotBitExact);
      const bool task = Has(kernel, store::kTask);
      totals.tasks += task;
      totals.tasks_exact += task && !Has(kernel, store::kTaskNotBitExact);
    }
  }
  return totals;
}

std::string Rows(const BuildReport& report, const BuildPrintOptions& options) {
  std::string out;
  std::string file;
  for (const ImageReport& image : report.images) {
    if (!HasPtx(image)) continue;
    if (file != image.file) {
      out += fmt::format("{}{}\n{:<23} {:>10} {:>12}  {:<11} {}\n", out.empty() ? "" : "\n",
                         image.file, "VARIANTS", "REGISTERS", "OCCUPANCY", "BIT-EXACT", "KERNEL");
      file = image.file;
    }
    for (const KernelReport& kernel : image.kernels) {
      out += fmt::format("{:<23} {:>10} {:>12}  {:<11} {}\n", VariantsMade(kernel),
                         RegistersOf(kernel), OccupancyText(kernel), ExactnessOf(kernel),
                         options.mangled ? kernel.name : Demangle(kernel.name));
      const std::string notes = NotesOf(kernel);
      if (!notes.empty()) out += fmt::format("{:>24}{}\n", "", notes);
    }
  }
  return out;
}

// The images from which no variants were made, by file and reason.
std::string Remarks(const BuildReport& report) {
  struct Group {
    size_t images = 0, kernels = 0;
  };
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const ImageReport& image : report.images) {
    if (HasPtx(image)) continue;
    const std::string words = image.state == ImageState::kFailed ? "failed: " : "";
    Group& group = groups[{image.file, words + image.reason}];
    ++group.images;
    group.kernels += image.kernels.size();
  }
  std::string out;
  for (const auto& [key, group] : groups) {
    const std::string kernels =
        group.kernels == 0 ? "" : fmt::format(", {}", CountOf(group.kernels, "kernel"));
    out += fmt::format("{}: {}{}: {}\n", key.first, CountOf(group.images, "image"), kernels,
                       key.second);
  }
  return out;
}

Json OccupancyJson(const build::Occupancy& occupancy) {
  return {
      {"blocks", occupancy.blocks}, {"warps", occupancy.warps}, {"max_warps", occupancy.max_warps}};
}

Json KernelReportJson(const KernelReport& kernel) {
  Json json = {{"name", kernel.name},
               {"demangled", Demangle(kernel.name)},
               {"preemptible", Has(kernel, store::kPreemptible)},
               {"sliced", Has(kernel, store::kSliced)},
               {"task", Has(kernel, store::kTask)},
               {"refusal", kernel.refusal},
               {"task_refusal", kernel.task_refusal}};
  if (kernel.registers == 0) return json;
  json.update(
      {{"preemptible_bit_exact",
        Has(kernel, store::kPreemptible) && !Has(kernel, store::kNotBitExact)},
       {"sliced_bit_exact", Has(kernel, store::kSliced) && !Has(kernel, store::kSlicedNotBitExact)},
       {"task_bit_exact", Has(kernel, store::kTask) && !Has(kernel, store::kTaskNotBitExact)},
       {"differences", kernel.differences},
       {"may_wait_on_blocks", Has(kernel, store::kMayWaitOnBlocks)},
       {"one_dimensional_blocks", Has(kernel, store::kOneDimensionalBlocks)},
       {"registers", kernel.registers},
       {"preemptible_registers", kernel.variant_registers},
       {"sliced_registers", kernel.sliced_registers},
       {"static_shared", kernel.static_shared},
       {"preemptible_static_shared", kernel.variant_static_shared},
       {"local_bytes", kernel.local_bytes},
       {"preemptible_local_bytes", kernel.variant_local_bytes},
       {"block_threads", kernel.threads},
       {"occupancy", OccupancyJson(kernel.before)}});
  if (kernel.variant_registers != 0) {
    json["preemptible_occupancy"] = OccupancyJson(kernel.after);
  }
  return json;
}

}  // namespace

std::string BuildProgressLine(const ImageReport& image) {
  std::string line =
      fmt::format("{} {}+{:#x}: ", ToString(image.state), FileName(image.file), image.offset);
  if (!image.reason.empty()) return line + image.reason;
  return line + fmt::format("{}, {:.1f} s", CountOf(image.kernels.size(), "kernel"), image.seconds);
}

std::string BuildText(const BuildReport& report, const BuildFacts& facts,
                      const BuildPrintOptions& options) {
  std::string out = Rows(report, options);
  const std::string remarks = Remarks(report);
  if (!remarks.empty()) out += (out.empty() ? "" : "\n") + remarks;
  for (const std::string& name : facts.missing) {
    out += fmt::format("{}: not found by the loader, left out\n", name);
  }
  const Totals totals = CountTotals(report);
  if (totals.kernels == 0 && report.images.empty()) {
    return out +
           "No kernels: nothing to build. Kernels of libraries that the program opens while "
           "it runs are\nbuilt with --with LIBRARY.\n";
  }
  out += fmt::format(
      "\n{}, {} with PTX: {} preemptible ({} bit-exact), {} sliced ({} bit-exact), "
      "{} as tasks ({} bit-exact)\n",
      CountOf(totals.kernels, "kernel"), totals.with_ptx, totals.preemptible, totals.exact,
      totals.sliced, totals.sliced_exact, totals.tasks, totals.tasks_exact);
  out += fmt::format("{} built, {} in store, {} failed; {:.1f} s; sm_{} by {}\n", totals.images[0],
                     totals.images[1], totals.images[3], facts.seconds, facts.arch, facts.compiler);
  out += fmt::format("store {}\n", facts.store);
  if (facts.arch != store::kLoadedArch) {
    out += fmt::format("bundles for sm_{} are not used: `cupola run` uses those for sm_{}\n", facts.arch,
                       store::kLoadedArch);
  }
  if (report.evicted.bundles != 0) {
    out += fmt::format("{} evicted, {} bytes\n", CountOf(report.evicted.bundles, "old bundle"),
                       report.evicted.bytes);
  }
  return out;
}

std::string ListJson(const std::vector<build::ListedKernel>& kernels) {
  Json all = Json::array();
  for (const build::ListedKernel& kernel : kernels) {
    all.push_back({{"file", kernel.file},
                   {"name", kernel.name},
                   {"demangled", Demangle(kernel.name)},
                   {"refusal", kernel.refusal}});
  }
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string BuildJson(const BuildReport& report, const BuildFacts& facts) {
  Json images = Json::array();
  for (const ImageReport& image : report.images) {
    Json kernels = Json::array();
    for (const KernelReport& kernel : image.kernels) kernels.push_back(KernelReportJson(kernel));
    images.push_back({{"file", image.file},
                      {"offset", image.offset},
                      {"section", image.section},
                      {"state", ToString(image.state)},
                      {"reason", image.reason},
                      {"compilations", image.compilations},
                      {"seconds", image.seconds},
                      {"bundle_bytes", image.bundle_bytes},
                      {"kernels", kernels}});
  }
  Json problems = Json::array();
  for (const Error& problem : report.problems) problems.push_back(problem.ToString());
  const Totals totals = CountTotals(report);
  const Json json = {{"store", facts.store},
                     {"arch", fmt::format("sm_{}", facts.arch)},
                     {"is_used", facts.arch == store::kLoadedArch},
                     {"compiler", facts.compiler},
                     {"seconds", facts.seconds},
                     {"kernels", totals.kernels},
                     {"preemptible", totals.preemptible},
                     {"preemptible_bit_exact", totals.exact},
                     {"sliced", totals.sliced},
                     {"sliced_bit_exact", totals.sliced_exact},
                     {"tasks", totals.tasks},
                     {"tasks_bit_exact", totals.tasks_exact},
                     {"evicted_bundles", report.evicted.bundles},
                     {"missing_libraries", facts.missing},
                     {"problems", problems},
                     {"images", images}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cupola
