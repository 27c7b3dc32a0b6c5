#include "cli/prepare_run.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/settings/problems.h"
#include "base/settings/variables.h"
#include "cli/commands.h"
#include "cli/installation.h"
#include "cli/program.h"
#include "cli/run_command.h"

namespace cupola {
namespace {

/// CMD (the program to be run, as the usage calls it) and its arguments: a pointer into argv. TakeRunProgram sets it
/// before the command line is parsed; null = the command line names no program.
char** g_program = nullptr;

/// Says on standard error what keeps Cupola out of the program, or may keep the program off its device. Returns whether
/// the loader can preload a library into the program or into programs that it starts, so that it is worth setting the
/// environment for it. Ends the command where the program cannot run on the device.
bool SayLimits(const ProgramFacts& facts, const DeviceChoice& device) {
  if (facts.secure) {
    Say(fmt::format(
        "{} runs with other rights than yours, so the loader preloads nothing into it: it "
        "runs without Cupola (start cupola with those rights instead)",
        facts.file));
    return false;
  }
  if (facts.foreign) {
    Say(fmt::format("{} is not a program for x86-64: it runs without Cupola", facts.file));
    return false;
  }
  if (facts.is_musl) {
    Say(fmt::format("{} is a program of the C library musl, which CUDA's driver does not know: it runs without "
                    "Cupola (programs that it starts do not)", facts.file));
    return true;
  }
  if (facts.is_static) {
    Say(fmt::format("{} is statically linked, so nothing can be preloaded into it: it runs without "
                    "Cupola (programs that it starts do not)", facts.file));
    return true;
  }
  if (device.simulated && facts.has_static_cudart) {
    Fail(MakeError(ErrorCode::kUnsupported,
                   fmt::format("{} has the CUDA runtime linked in, which cannot run on the simulated device: build it "
                               "with nvcc -cudart shared, or run it on a GPU",
                               facts.file)),
         kExitCupolaFailed);
  }
  if (device.simulated && !facts.cudart.empty() && facts.cudart != "libcudart.so.13") {
    Say(fmt::format("{} needs {}; the simulated device has libcudart.so.13: build it with CUDA 13",
                    facts.file, facts.cudart));
  }
  return true;
}

/// Ends the command if the file of the library is cut short or is no shared object for x86-64. A library that is cut
/// short would end the program by a signal when the loader maps it.
void RequireWhole(const std::string& library) {
  if (IsWholeObject(library)) return;
  Fail(MakeError(ErrorCode::kDamaged, "is not a whole shared object: install or build Cupola again",
                 Location{.file = library}),
       kExitCupolaFailed);
}

/// Names the variables that are no settings. The library names values that are not allowed, in the program.
void SayUnknownVariables() {
  settings::ForEachProblem(environ, 0, [](settings::Problem, const char* line) { Say(line); });
}

}  // namespace

PreparedRun PrepareRun(const char* program, const std::string& device_name, const char* command) {
  if (program == nullptr) {
    Fail(MakeError(ErrorCode::kInvalidArgument,
                   fmt::format("no program given; try: cupola {} -- ./app", command)),
         kExitUsage);
  }
  const auto path = FindProgram(program);
  if (!path) Fail(path.error(), ExecFailureCode(path.error()));
  SayUnknownVariables();
  const char* home = settings::Text("CUPOLA_HOME");
  const auto installation = FindInstallation(home != nullptr ? home : "");
  if (!installation) Fail(installation.error(), kExitCupolaFailed);
  RequireWhole(installation->preload);
  RequireWhole(installation->front_folder + "/libcuda.so.1");
  const auto device = ChooseDevice(device_name, DefaultDriverPlaces(), *installation);
  if (!device) Fail(device.error(), kExitCupolaFailed);
  // ld.so(8): spaces or colons separate the words of LD_PRELOAD, colons or semicolons those of LD_LIBRARY_PATH, and
  // there is no escape for them. A dollar sign begins a part that the loader replaces.
  if (installation->preload.find_first_of(" :;$") != std::string::npos) {
    Fail(MakeError(
             ErrorCode::kInvalidArgument,
             fmt::format("{}: a path with a space, colon, semicolon or dollar sign cannot be preloaded; move Cupola to "
                         "another folder",
                         installation->preload)),
         kExitCupolaFailed);
  }
  if (device->simulated) {  // the driver and the CUDA runtime are Cupola's own then; the runtime may be missing
    RequireWhole(device->driver);
    const std::string runtime = installation->sim_folder + "/libcudart.so.13";
    if (access(runtime.c_str(), F_OK) == 0) RequireWhole(runtime);
  }
  if (std::string why = WhyNotUsed("CUPOLA_STORE"); !why.empty()) {
    Say(why + ": it is not used, variants are looked for in the usual place");
  }
  PreparedRun run{*path, {}, device->simulated};
  RunEnvironment& additions = run.environment;
  if (SayLimits(LookAtProgram(*path), *device)) {
    additions.preload = installation->preload;
    additions.driver = device->driver;
    // The folder comes first in LD_LIBRARY_PATH, so a program that is linked with the driver finds Cupola's
    // libcuda.so.1 there (docs/interception.md).
    additions.front_folder = installation->front_folder;
    if (device->simulated) additions.library_folder = installation->sim_folder;
  }
  return run;
}

char** RunProgram() { return g_program; }

int ExecFailureCode(const Error& error) {
  return error.code == ErrorCode::kNotFound ? kExitNotFound : kExitCannotExecute;
}

int TakeRunProgram(const CLI::App& app, int argc, char** argv) {
  if (argc < 2) return argc;
  // Only a subcommand that is the first word is recognised, because `cupola` itself has no options that go before one.
  const std::string_view command = argv[1];
  if (command != "run" && command != "profile" && command != "tune") return argc;
  const CLI::App* run = app.get_subcommand(argv[1]);
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") {
      g_program = argv + i + 1;
      return i;
    }
    if (command != "run") continue;  // the others take words of their own before the "--", which begins CMD
    if (word.size() < 2 || word[0] != '-') {
      g_program = argv + i;
      return i;
    }
    const CLI::Option* option = run->get_option_no_throw(std::string(word));
    const bool takes_word = option != nullptr && option->get_items_expected_max() > 0;
    // If the option's value is missing, the parser refuses the option later.
    if (takes_word && i + 1 < argc && std::string_view(argv[i + 1]) != "--") ++i;
  }
  return argc;
}

}  // namespace cupola
