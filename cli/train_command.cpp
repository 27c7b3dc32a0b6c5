#include "cli/train_command.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/profile_print.h"
#include "models/plan_file.h"
#include "models/train/train_profile.h"
#include "profiles/profile_file.h"

namespace cupola {
namespace {

namespace fs = std::filesystem;

struct TrainOptions {
  std::vector<std::string> files;
  std::string out;
  bool json = false;
  bool terms = false;
  uint64_t seed = 1;
};

constexpr char kTrainFooter[] =
    "\nFor each kernel: ridge regression on grid size, block size, shared memory, input size and\n"
    "integer arguments, with terms that cross-validation keeps, against the history of exact\n"
    "configurations; the better one is chosen. `error` and `worst` are of launches held out. L\n"
    "with a ? was not tuned: cupola tune. The plan is what programs under Cupola use.\n"
    "\nExamples:\n"
    "  cupola train                         all profiles of the profiles' folder\n"
    "  cupola train app.json --out app.plan --terms\n"
    "\nExit codes: 0 done, 1 bad input, 2 wrong usage.\n";

std::vector<std::string> AllProfiles() {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(models::ProfilesFolder(), ignored)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void TrainAndWrite(const profiles::Profile& profile, const std::string& out,
                   const TrainOptions& options) {
  models::TrainOptions how;
  how.seed = options.seed;
  const size_t slash = out.find_last_of('/');
  if (Status writable = profiles::CheckFolder(slash == std::string::npos ? "." : out.substr(0, slash + 1)); !writable) {
    Error error = writable.error();
    error.where.file = out;
    Fail(error);
  }
  if (fs::is_directory(out)) Fail(MakeError(ErrorCode::kIo, "is a folder", {.file = out}));
  const std::string gpu = models::GpuFileName(profile.gpu.name);
  const models::TrainedPlan trained = models::TrainProfile(profile, gpu, how);
  if (Status written = profiles::WriteFileWhole(out, trained.bytes); !written) {
    Fail(written.error());
  }
  std::fputs(options.json ? TrainJson(trained.kernels).c_str()
                          : Printable(TrainTable(trained.kernels, options.terms)).c_str(),
             stdout);
  Say(fmt::format("{} kernels, written to {}", trained.kernels.size(), out));
}

void RunTrain(const TrainOptions& options) {
  std::vector<std::string> files = options.files;
  if (files.empty()) RequireAbsolute("CUPOLA_PROFILES");
  const bool all = files.empty();
  if (all) files = AllProfiles();
  if (files.empty()) {
    Fail(MakeError(ErrorCode::kNotFound,
                   "no profiles to train from; first: cupola profile -- ./app",
                   {.file = models::ProfilesFolder()}));
  }
  profiles::Profile merged;
  for (const std::string& file : files) {
    const auto profile = profiles::ReadProfile(file);
    if (!profile) Fail(profile.error());
    // Without names on the command line, each profile is that of one GPU and gets its own plan.
    if (all && options.out.empty()) {
      TrainAndWrite(*profile, fs::path(file).replace_extension(".plan"), options);
      continue;
    }
    if (Status status = profiles::Merge(*profile, &merged); !status) Fail(status.error());
  }
  if (all && options.out.empty()) return;
  TrainAndWrite(merged,
                options.out.empty() ? fs::path(files[0]).replace_extension(".plan").string()
                                    : options.out,
                options);
}

}  // namespace

void AddTrainCommand(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* train = app.add_subcommand("train", "Train duration models from profiles");
  train->add_option("FILES", options->files,
                    "Profiles, merged; none = each of the profiles' folder by itself");
  train->add_option("-o,--out", options->out, "The plan (default: beside the first profile)");
  train->add_flag("--json", options->json, "Print JSON");
  train->add_flag("--terms", options->terms, "Print the formula of each regression");
  train->add_option("--seed", options->seed, "Of the folds of cross-validation")
      ->capture_default_str();
  train->footer(kTrainFooter);
  train->callback([options] { RunTrain(*options); });
}

}  // namespace cupola
