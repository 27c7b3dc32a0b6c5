#include "cli/build_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/build_print.h"
#include "cli/build_watch.h"
#include "cli/commands.h"
#include "cli/inspect.h"
#include "device/compiler/build/build.h"
#include "device/compiler/build/image_choice.h"
#include "device/compiler/build/loaded_objects.h"

namespace cupola {
namespace {

/// The options on the command line of `cupola build`.
struct BuildCommandOptions {
  std::vector<std::string> files;
  std::vector<std::string> with;  ///< further objects, which the program opens while it runs
  bool alone = false;             ///< build only the files, not the libraries that they load
  std::string arch = "sm_90";
  std::string compiler;  ///< "", "ptxas", "nvjitlink", or the path of a ptxas
  std::string store;
  uint32_t timeout_s = 120;
  build::BuildOptions build;
  BuildPrintOptions print;
  bool json = false;
  bool list = false;
  bool quiet = false;
  bool watch = false;
};

constexpr char kBuildFooter[] =
    "\nBINARY is a program, a shared library, a fatbin or PTX text. The libraries that it loads "
    "at\n"
    "its start are built too; those that it opens later are named with --with. Of a folder the\n"
    "cubins are built that have their PTX beside them: the caches of Triton and torch.compile.\n"
    "\nWith --watch it builds what is compiled while programs run, until it is interrupted: in the\n"
    "folders that are named, by default the caches of Triton and torch.compile, and what programs\n"
    "under Cupola compile by NVRTC and nvJitLink or load as PTX. Those programs use it from their next\n"
    "launch on.\n"
    "\nREGISTERS are per thread, OCCUPANCY is of the warps of an SM, at the block size that the\n"
    "kernel says it needs, else 256 threads, without dynamic shared memory: before and after.\n"
    "BIT-EXACT: the variant does the same floating-point operations as the code that the program\n"
    "ships; others are not used unless CUPOLA_INEXACT=1 is set.\n"
    "\nExamples:\n"
    "  cupola build ./app                       all kernels of ./app and its libraries\n"
    "  cupola build ./app --with libplugin.so   and of a library that it opens itself\n"
    "  cupola build ./app --kernel 'gemm|conv'  only kernels whose name matches\n"
    "  cupola build ~/.triton/cache             what Triton has compiled so far\n"
    "  cupola build --watch &                   what programs compile while they run\n"
    "  cupola build ./app --list                what would be looked at, without building\n"
    "\nExit codes: 0 done, also where kernels are refused; 1 an image failed, a file cannot be "
    "read\n"
    "or the store cannot be written; 2 wrong usage.\n";

/// The files to build, and the libraries that the loader does not find.
struct Objects {
  std::vector<std::string> files;
  std::vector<std::string> missing;
};

// The canonical path of a file. Files are compared by it, so that none is built twice under two names.
std::string Canonical(const std::string& path) {
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::canonical(path, error);
  return error ? path : canonical.string();
}

Objects FindObjects(const BuildCommandOptions& options, bool& failed) {
  Objects objects;
  std::set<std::string> seen, missing;
  const auto add = [&](const std::string& path) {
    if (seen.insert(Canonical(path)).second) objects.files.push_back(Canonical(path));
  };
  std::vector<std::string> roots = options.files;
  roots.insert(roots.end(), options.with.begin(), options.with.end());
  std::error_code ignored;
  const auto is_folder = [&](const std::string& root) { return std::filesystem::is_directory(root, ignored); };
  for (const std::string& root : roots) {
    if (!is_folder(root)) {
      add(root);
      continue;
    }
    const std::vector<std::string> cubins = CubinsBelow(root);
    for (const std::string& cubin : cubins) add(cubin);
    if (!cubins.empty()) continue;
    failed = true;
    PrintError(MakeError(ErrorCode::kNotFound, root + ": no .cubin with its .ptx beside it is below this folder"));
  }
  if (options.alone) return objects;
  for (const std::string& root : roots) {
    if (is_folder(root)) continue;
    const Result<build::LoadedObjects> loaded = build::FindLoadedObjects(root);
    if (!loaded) {
      failed = true;  // the build itself reports a file that cannot be opened
      if (loaded.error().code != ErrorCode::kNotFound) PrintError(loaded.error());
      continue;
    }
    for (const std::string& file : loaded->files) add(file);
    missing.insert(loaded->missing.begin(), loaded->missing.end());
  }
  missing.erase("libcuda.so.1");  // the driver has no kernels of the program
  objects.missing.assign(missing.begin(), missing.end());
  return objects;
}

uint32_t ArchOf(const std::string& text) {
  const std::string digits = text.starts_with("sm_") ? text.substr(3) : text;
  if (digits.empty() || digits.size() > 3 ||
      digits.find_first_not_of("0123456789") != std::string::npos || std::stoul(digits) < 70) {
    Fail(MakeError(ErrorCode::kInvalidArgument,
                   "--arch: '" + text + "' is no architecture such as sm_90"),
         kExitUsage);
  }
  return static_cast<uint32_t>(std::stoul(digits));
}

std::unique_ptr<build::Compiler> MakeCompiler(const std::string& name) {
  build::CompilerPlaces places = build::DefaultCompilerPlaces();
  if (name.find('/') != std::string::npos) places.ptxas = name;
  Result<std::unique_ptr<build::Compiler>> compiler =
      name == "nvjitlink" ? build::FindJitLink(places, "") : build::FindCompiler(places);
  if (!compiler) Fail(compiler.error());
  return *std::move(compiler);
}

// Shows progress: on a terminal one line that is overwritten, elsewhere a line for each image.
class Progress {
 public:
  explicit Progress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (terminal_ && !quiet_) std::fputs("\r\033[K", stderr);
  }

  void Tell(const build::ImageReport& image, size_t done, size_t total) const {
    if (quiet_) return;
    const std::string line = Printable(BuildProgressLine(image));
    if (terminal_) {
      constexpr size_t kWidth = 78;
      const std::string text = fmt::format("[{}/{}] {}", done, total, line);
      fmt::print(stderr, "\r\033[K{}", text.substr(0, kWidth));
      std::fflush(stderr);
    } else if (image.state != build::ImageState::kRefused) {
      fmt::print(stderr, "[{}/{}] {}\n", done, total, line);
    }
  }

 private:
  bool quiet_, terminal_;
};

bool AnyFailed(const build::BuildReport& report) {
  return std::any_of(report.images.begin(), report.images.end(),
                     [](const auto& image) { return image.state == build::ImageState::kFailed; });
}

void PrintList(const Objects& objects, const BuildCommandOptions& options) {
  const Result<std::vector<build::ListedKernel>> kernels =
      build::ListKernels(objects.files, options.build);
  if (!kernels) Fail(kernels.error(), kExitUsage);
  if (options.json) {
    fmt::print("{}", ListJson(*kernels));
    return;
  }
  for (const build::ListedKernel& kernel : *kernels) {
    const std::string line =
        fmt::format("{}: {}{}\n", kernel.file, options.print.mangled ? kernel.name : Demangle(kernel.name),
                    kernel.refusal.empty() ? "" : " (" + kernel.refusal + ")");
    fmt::print("{}", Printable(line));
  }
}

// The lines of what was built, for `--watch`: one for each image.
void TellImages(const build::BuildReport& report) {
  for (const build::ImageReport& image : report.images) fmt::print("{}\n", Printable(BuildProgressLine(image)));
  for (const Error& problem : report.problems) PrintError(problem);
  std::fflush(stdout);
}

void RunWatch(const BuildCommandOptions& options, const build::Compiler& compiler, const store::StoreWriter& writer,
              const std::string& folder) {
  std::vector<std::string> folders = options.files;
  std::error_code ignored;
  for (const std::string& named : folders) {
    if (std::filesystem::is_directory(named, ignored) || !std::filesystem::exists(named, ignored)) continue;
    Fail(MakeError(ErrorCode::kInvalidArgument, "--watch: " + named + " is no folder"), kExitUsage);
  }
  if (folders.empty()) folders = CompileCaches();
  const Status ended = WatchFolders(folder, folders, [&](const std::vector<std::string>& files) {
    const Result<build::BuildReport> report = build::BuildFiles(files, options.build, compiler, writer);
    if (!report) Fail(report.error(), kExitUsage);
    TellImages(*report);
  });
  if (!ended) Fail(ended.error());
}

void RunBuild(BuildCommandOptions options) {
  options.build.arch = ArchOf(options.arch);
  options.build.limit = std::chrono::seconds(options.timeout_s);
  if (options.store.empty() && !options.list) RequireAbsolute("CUPOLA_STORE");
  bool failed = false;
  if (options.files.empty() && !options.watch) {
    Fail(MakeError(ErrorCode::kInvalidArgument, "BINARY is required: what is to be built?"), kExitUsage);
  }
  const Objects objects = options.watch ? Objects{} : FindObjects(options, failed);
  if (options.list) {
    PrintList(objects, options);
    if (failed) throw CLI::RuntimeError(kExitBadInput);
    return;
  }
  const std::unique_ptr<build::Compiler> compiler = MakeCompiler(options.compiler);
  const std::string folder =
      options.store.empty() ? store::VariantStore::DefaultFolder() : options.store;
  const Result<store::StoreWriter> writer = store::StoreWriter::Open(folder);
  if (!writer) Fail(writer.error());
  if (options.watch) return RunWatch(options, *compiler, *writer, folder);
  const auto start = std::chrono::steady_clock::now();
  Result<build::BuildReport> report = MakeError(ErrorCode::kInternal, "");
  {
    const Progress progress(options.quiet);
    report = build::BuildFiles(
        objects.files, options.build, *compiler, *writer,
        [&](const auto& image, size_t done, size_t total) { progress.Tell(image, done, total); });
  }
  if (!report) Fail(report.error(), kExitUsage);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const BuildFacts facts{folder, compiler->version(), options.build.arch, seconds, objects.missing};
  fmt::print("{}",
             options.json ? BuildJson(*report, facts)
                          : Printable(BuildText(*report, facts, options.print)));
  std::fflush(stdout);
  for (const Error& problem : report->problems) PrintError(problem);
  if (failed || !report->problems.empty() || AnyFailed(*report)) {
    throw CLI::RuntimeError(kExitBadInput);
  }
}

}  // namespace

void AddBuildCommand(CLI::App& app) {
  auto options = std::make_shared<BuildCommandOptions>();
  CLI::App* build = app.add_subcommand("build", "Build the variants of a program's kernels");
  build->add_option("BINARY", options->files, "Programs and libraries");
  CLI::Option* const watch =
      build->add_flag("--watch", options->watch, "Go on: build what is compiled while programs run");
  build->add_option("--with", options->with, "A library that the program opens while it runs")
      ->allow_extra_args(false);
  build->add_flag("--no-libraries", options->alone, "Only what is named, not what it loads");
  build
      ->add_option("--kernel", options->build.kernels,
                   "Only kernels whose name, mangled or not, matches this regular expression")
      ->type_name("REGEX");
  build->add_flag("--list", options->list, "List the kernels and build nothing")->excludes(watch);
  build->add_option("--arch", options->arch, "The GPU's architecture")->capture_default_str();
  build->add_flag("--rebuild", options->build.rebuild, "Build what is in the store too");
  build->add_option("--jobs", options->build.jobs, "Compilers at a time (default: one per core)");
  build->add_option("--timeout", options->timeout_s, "Seconds for one compilation")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  build->add_option("--compiler", options->compiler,
                    "nvjitlink, or the path of a ptxas (default: ptxas where there is one)");
  build->add_option("--store", options->store,
                    "The store's folder (default: CUPOLA_STORE, else "
                    "~/.cache/cupola/variants)");
  build
      ->add_option("--store-limit", options->build.store_limit,
                   "Bytes that the store may have; the least recently used go (default: 4GiB)")
      ->transform(CLI::AsSizeValue(false));
  build->add_flag("--json", options->json, "Print one JSON object instead of a table")->excludes(watch);
  build->add_flag("--mangled", options->print.mangled, "Print mangled names");
  build->add_flag("--quiet", options->quiet, "No progress");
  build->footer(kBuildFooter);
  build->callback([options] { RunBuild(*options); });

  auto arguments = std::make_shared<std::vector<std::string>>();
  CLI::App* worker = app.add_subcommand("build-worker", "")->group("");
  worker->add_option("ARGUMENTS", *arguments);
  worker->callback([arguments] {
    if (const int code = build::RunJitLinkWorker(*arguments); code != 0) {
      throw CLI::RuntimeError(code);
    }
  });
}

}  // namespace cupola
