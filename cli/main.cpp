// The command `cupola`: reads the command line and runs a subcommand.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <system_error>

#include "base/log.h"
#include "cli/build_command.h"
#include "cli/commands.h"
#include "cli/ctl_command.h"
#include "cli/doctor_command.h"
#include "cli/help_formatter.h"
#include "cli/inspect_command.h"
#include "cli/profile_command.h"
#include "cli/ptx_command.h"
#include "cli/ptx_run.h"
#include "cli/report_command.h"
#include "cli/run_command.h"
#include "cli/serve_command.h"
#include "cli/settings_command.h"
#include "cli/train_command.h"
#include "cli/tune_command.h"
#include "cli/top_command.h"
#include "cli/why_command.h"

namespace {

constexpr char kFooter[] =
    "\nExamples:\n"
    "  cupola run -- ./app                     run a CUDA program, every launch passing through\n"
    "  cupola run --trace out.json -- ./app    the same, and write a trace for ui.perfetto.dev\n"
    "  cupola report out.json                  make a page of that trace, for a browser\n"
    "  cupola run --device sim -- ./app        the same, without a GPU\n"
    "  cupola run --report -- ./app            say at the end, by kernel, how launches went out\n"
    "  cupola inspect ./app                    its device images and kernels\n"
    "  cupola build ./app                      variants of its kernels, ahead of time\n"
    "  cupola profile -- ./app                 measure its kernels; then: cupola train\n"
    "\n"
    "Exit codes:\n"
    "  of `cupola run`: that of the program; 125 when cupola itself failed, 126 when the program "
    "cannot be executed, 127 when it was not found. A signal that ends the program ends cupola.\n"
    "  of the others: 0 done, 1 bad input, 2 wrong usage.\n"
    "\n"
    "`cupola SUBCOMMAND --help` says more about each.";

/// Registers every subcommand. To add one, include its header above and add its line here.
void AddCommands(CLI::App& app) {
  cupola::AddPtxCommand(app);
  cupola::AddPtxRunCommand(*app.get_subcommand("ptx"));
  cupola::AddRunCommand(app);
  cupola::AddWhyCommand(app);
  cupola::AddInspectCommand(app);
  cupola::AddDoctorCommand(app);
  cupola::AddServeCommand(app);
  cupola::AddBuildCommand(app);
  cupola::AddStoreCommand(app);
  cupola::AddProfileCommand(app);
  cupola::AddTrainCommand(app);
  cupola::AddTuneCommand(app);
  cupola::AddCtlCommand(app);
  cupola::AddTopCommand(app);
  cupola::AddReportCommand(app);
  cupola::AddSettingsCommand(app);
}

/// Opens /dev/null for each standard stream that our caller closed, so that no other file of ours gets its number. The
/// files are close-on-exec: a program that `cupola` becomes or starts finds those streams closed, as without Cupola.
void GuardStandardStreams() {
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

/// Why a word cannot be the value of an option; "" if it can. It cannot be empty, as the value of an unset variable is,
/// and it cannot be the "--" that ends the options.
std::string WhyNoWord(const std::string& word) {
  if (word.empty()) return "must not be empty";
  return word == "--" ? "its word is missing before -- (a file of that name is ./--)" : "";
}

void RefuseEmptyWords(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() <= 0) continue;
    option->check(CLI::Validator([](const std::string& word) { return WhyNoWord(word); }, ""));
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    RefuseEmptyWords(*command);
  }
}

/// The exit code: `code` if everything that was printed has been written. Else, as on a full disk, it is a failure.
int AfterOutput(int code) {
  errno = 0;
  const bool is_written = std::cout.flush().good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (is_written) return code;
  cupola::Say(std::string("standard output: ") + (errno != 0 ? std::strerror(errno) : "not all could be written"));
  return code == cupola::kExitOk ? static_cast<int>(cupola::kExitBadInput) : code;
}

int Run(CLI::App& app, int argc, char** argv) {
  const int own_args = cupola::TakeRunProgram(app, argc, argv);
  try {
    app.parse(own_args, argv);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? cupola::kExitOk : cupola::kExitUsage;
  } catch (const std::system_error& error) {  // thrown by fmt::print when it cannot write
    cupola::Say(error.what());
    return cupola::kExitBadInput;
  }
  return cupola::kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
  GuardStandardStreams();
  cupola::InitLog();
  CLI::App app("Cupola runs unmodified CUDA programs and sees every kernel launch that they make.",
               "cupola");
  app.formatter(std::make_shared<cupola::HelpFormatter>());
  app.set_version_flag("--version", "cupola " CUPOLA_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  AddCommands(app);
  RefuseEmptyWords(app);
  return AfterOutput(Run(app, argc, argv));
}
