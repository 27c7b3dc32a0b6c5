#include "cli/run_command.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "cli/commands.h"

namespace cupola {
namespace {

/// What the command line of `cupola run` said.
struct RunOptions {
  std::string device = "auto";
  std::string trace_file;  ///< empty = no trace
  bool stats = false;
  std::string timing = "events";
};

/// CMD and its arguments, in argv's memory; set by TakeRunProgram.
char** g_program = nullptr;

constexpr char kRunFooter[] =
    "\nExamples:\n"
    "  cupola run -- ./vector_add 1000\n"
    "  cupola run --device sim --stats -- python3 train.py\n"
    "  cupola run --trace out.json -- sh -c './a; ./b'    open out.json in ui.perfetto.dev\n";

[[noreturn]] void Run(const RunOptions&) {
  if (g_program == nullptr || *g_program == nullptr) {
    PrintError(MakeError(ErrorCode::kInvalidArgument,
                         "run: no program given; try: cupola run -- ./app"));
    throw CLI::RuntimeError(kExitUsage);
  }
  execvp(g_program[0], g_program);
  const int code = errno == ENOENT ? kExitNotFound : kExitCannotExecute;
  PrintError(MakeError(ErrorCode::kNotFound,
                       fmt::format("run: {}: {}", g_program[0], std::strerror(errno))));
  throw CLI::RuntimeError(code);
}

}  // namespace

void AddRunCommand(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run", "Run a program with Cupola in front of its CUDA driver");
  run->add_option("--device", options->device, "Where kernels run: auto, gpu or sim")
      ->check(CLI::IsMember({"auto", "gpu", "sim"}))
      ->capture_default_str();
  run->add_option("--trace", options->trace_file, "Write a trace for Perfetto to this file");
  run->add_flag("--stats", options->stats, "Print a table of the launches to standard error");
  run->add_option("--timing", options->timing, "How kernels are timed: events or host")
      ->check(CLI::IsMember({"events", "host"}))
      ->capture_default_str();
  run->footer(kRunFooter);
  run->callback([options] { Run(*options); });
}

int TakeRunProgram(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "run") return argc;
  const CLI::App* run = app.get_subcommand("run");
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") {
      g_program = argv + i + 1;
      return i;
    }
    if (word.size() < 2 || word[0] != '-') {
      g_program = argv + i;
      return i;
    }
    const CLI::Option* option = run->get_option_no_throw(std::string(word));
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;
  }
  return argc;
}

}  // namespace cupola
