#include "cli/profile_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/settings/variables.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/prepare_run.h"
#include "cli/profile_print.h"
#include "cli/profile_run.h"
#include "profiles/profile_file.h"

namespace cupola {
namespace {

struct ProfileOptions {
  std::string device = "auto";
  std::string with = "auto";
  std::string out;
  bool table = false;
  std::vector<std::string> files;
};

constexpr char kProfileFooter[] =
    "\nCMD runs unchanged and to its end. Each kernel launch that can be timed is added to the\n"
    "profile of the GPU: grid, block, shared memory, arguments, sizes of the allocations that\n"
    "pointers lie in, duration. Run it with inputs of many sizes: a hundred launches of a kernel\n"
    "make a good model. Then: cupola train, cupola tune -- CMD.\n"
    "\nHow durations are measured (--with):\n"
    "  cupti   by CUPTI's activity records; Cupola is not in front of the driver then\n"
    "  events  by events around each launch, exact to a few microseconds; on the simulated device by its clock\n"
    "  auto    CUPTI on a GPU, events where the program uses CUPTI itself or there is none\n"
    "\nExamples:\n"
    "  cupola profile -- ./app --size 1000\n"
    "  cupola profile --out app.json -- sh -c 'for n in 1 2 4 8; do ./app $n; done'\n"
    "  cupola profile merge one.json two.json --out both.json\n"
    "  cupola profile show ~/.local/share/cupola/profiles/nvidia-h200.json\n"
    "\nExit codes: that of CMD; 125 cupola itself failed; of merge and show 1 for bad input.\n"
    "\nEnvironment (`cupola settings` prints all variables):\n"
    "  CUPOLA_PROFILES  folder of profiles (default: $XDG_DATA_HOME/cupola/profiles, else ~/.local/share/cupola/profiles)\n";

MeasureWith WithOf(const std::string& word) {
  if (word == "cupti") return MeasureWith::kCupti;
  return word == "events" ? MeasureWith::kEvents : MeasureWith::kAuto;
}

void ReportProfile(const MeasuredRun& run, const std::string& path) {
  if (!run.remark.empty()) {
    Say(fmt::format("{}{}", run.remark, run.timed != 0 ? "; measured by events" : ""));
  }
  Say(fmt::format("{} launches of {} kernels, measured with {}, added to {}", run.timed,
                  run.profile.kernels.size(), run.by_cupti ? "CUPTI" : "events", path));
  if (run.launches > run.timed) {
    Say(fmt::format("{} launches have no duration", run.launches - run.timed));
  }
  if (run.unseen != 0) {
    Say(fmt::format("{} kernels in graphs, or faster than could be read, are not in it",
                    run.unseen));
  }
}

[[noreturn]] void Measure(const ProfileOptions& options) {
  const PreparedRun prepared =
      PrepareRun(RunProgram() != nullptr ? *RunProgram() : nullptr, options.device, "profile");
  if (prepared.environment.preload.empty()) throw CLI::RuntimeError(kExitCupolaFailed);
  RequireWritable(options.out);
  // Even where an arbiter is running, the program's own kernels must be measured and not preemptible variants.
  const auto run = MeasureRun(prepared, WithOf(options.with), {{settings::Name("CUPOLA_PREEMPT"), "off"}});
  if (!run) {
    Fail(run.error(), run.error().code == ErrorCode::kNotFound && options.with == "cupti"
                          ? kExitCupolaFailed
                          : ExecFailureCode(run.error()));
  }
  if (run->timed == 0) {
    Say(run->remark.empty() ? "no kernel launch was measured"
                            : "no kernel launch was measured: " + run->remark +
                                  (run->by_cupti ? "; try --with events" : ""));
    throw CLI::RuntimeError(EndLike(run->status));
  }
  const auto path = ProfilePath(options.out, run->profile);
  if (!path) Fail(path.error(), kExitCupolaFailed);
  const auto all = profiles::MergeIntoFile(run->profile, *path);
  if (!all) Fail(all.error(), kExitCupolaFailed);
  ReportProfile(*run, *path);
  if (options.table) std::fputs(Printable(ProfileTable(*all)).c_str(), stderr);
  throw CLI::RuntimeError(EndLike(run->status));
}

profiles::Profile ReadProfiles(const std::vector<std::string>& files) {
  profiles::Profile all;
  for (const std::string& file : files) {
    const auto one = profiles::ReadProfile(file);
    if (!one) Fail(one.error(), kExitBadInput);
    if (Status merged = profiles::Merge(*one, &all); !merged) {
      Error error = merged.error();
      error.where.file = file;
      Fail(error, kExitBadInput);
    }
  }
  return all;
}

void AddFileCommands(CLI::App& profile, const std::shared_ptr<ProfileOptions>& options) {
  CLI::App* merge = profile.add_subcommand("merge", "Merge profiles of one kind of GPU");
  merge->add_option("FILES", options->files, "Profiles")->required();
  merge->add_option("-o,--out", options->out, "Where the result goes (default: standard output)");
  merge->callback([options] {
    const std::string text = profiles::ToJson(ReadProfiles(options->files));
    if (options->out.empty()) {
      std::fputs(text.c_str(), stdout);
    } else if (Status written = profiles::WriteFileWhole(options->out, text); !written) {
      Fail(written.error(), kExitBadInput);
    }
  });
  CLI::App* show = profile.add_subcommand("show", "Print what a profile holds, a line a kernel");
  show->add_option("FILES", options->files, "Profiles")->required();
  show->callback(
      [options] { std::fputs(Printable(ProfileTable(ReadProfiles(options->files))).c_str(), stdout); });
}

}  // namespace

void AddProfileCommand(CLI::App& app) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App* profile = app.add_subcommand("profile",
                                         "Measure the kernels of a program:\n"
                                         "  cupola profile [OPTIONS] -- CMD [ARG...]");
  profile->add_option("--device", options->device, "Where kernels run: auto, gpu or sim")
      ->check(CLI::IsMember({"auto", "gpu", "sim"}))
      ->capture_default_str();
  profile->add_option("--with", options->with, "How kernels are timed: auto, cupti or events")
      ->check(CLI::IsMember({"auto", "cupti", "events"}))
      ->capture_default_str();
  profile->add_option("-o,--out", options->out, "The profile to add to (default: the GPU's)");
  profile->add_flag("--table", options->table,
                    "Print what the profile then holds to standard error");
  profile->footer(kProfileFooter);
  AddFileCommands(*profile, options);
  profile->require_subcommand(0, 1);
  profile->callback([profile, options] {
    if (profile->get_subcommands().empty()) Measure(*options);
  });
}

}  // namespace cupola
