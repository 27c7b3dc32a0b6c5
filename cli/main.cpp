// The command `cupola`: reads the command line and hands over to a subcommand.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "cli/build_command.h"
#include "cli/commands.h"
#include "cli/ctl_command.h"
#include "cli/inspect_command.h"
#include "cli/profile_command.h"
#include "cli/ptx_command.h"
#include "cli/ptx_run.h"
#include "cli/run_command.h"
#include "cli/serve_command.h"
#include "cli/train_command.h"
#include "cli/tune_command.h"
#include "cli/top_command.h"

namespace {

constexpr char kFooter[] =
    "\nExamples:\n"
    "  cupola run -- ./app                     run a CUDA program, every launch passing through\n"
    "  cupola run --trace out.json -- ./app    the same, and write a trace for ui.perfetto.dev\n"
    "  cupola run --device sim -- ./app        the same, without a GPU\n"
    "  cupola inspect ./app                    its device images and kernels\n"
    "  cupola build ./app                      variants of its kernels, ahead of time\n"
    "  cupola profile -- ./app                 measure its kernels; then: cupola train\n"
    "\n"
    "Exit codes:\n"
    "  of `cupola run`: that of the program; 125 when cupola itself failed, 126 when the program\n"
    "  cannot be executed, 127 when it was not found. A signal that ends the program ends cupola.\n"
    "  of the others: 0 done, 1 bad input, 2 wrong usage.\n"
    "\n"
    "`cupola SUBCOMMAND --help` says more about each.";

/// Registers every subcommand. The place to add one: include its header, add its line.
void AddCommands(CLI::App& app) {
  cupola::AddPtxCommand(app);
  cupola::AddPtxRunCommand(*app.get_subcommand("ptx"));
  cupola::AddRunCommand(app);
  cupola::AddInspectCommand(app);
  cupola::AddServeCommand(app);
  cupola::AddBuildCommand(app);
  cupola::AddStoreCommand(app);
  cupola::AddProfileCommand(app);
  cupola::AddTrainCommand(app);
  cupola::AddTuneCommand(app);
  cupola::AddCtlCommand(app);
  cupola::AddTopCommand(app);
}

/// Fills the places of standard streams that the caller closed, so that no file of ours gets their
/// numbers. Close-on-exec: a program that cupola becomes or starts finds them closed, as plain.
void GuardStandardStreams() {
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  GuardStandardStreams();
  cupola::InitLog();
  CLI::App app("Cupola runs unmodified CUDA programs and sees every kernel launch that they make.",
               "cupola");
  app.set_version_flag("--version", "cupola " CUPOLA_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  AddCommands(app);
  const int own_args = cupola::TakeRunProgram(app, argc, argv);
  try {
    app.parse(own_args, argv);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? cupola::kExitOk : cupola::kExitUsage;
  }
  return cupola::kExitOk;
}
