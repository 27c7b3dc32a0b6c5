// How the subcommands of `cupola` plug in. A subcommand is a pair of files
// cli/<name>_command.{h,cpp} with one function `void Add<Name>Command(CLI::App& app)`; main.cpp
// calls it, CMakeLists.txt lists it.
//
// Rules for a subcommand: it adds itself with app.add_subcommand(name, one line that says what it
// does), gives examples in its footer, keeps its options in a shared_ptr captured by its callback,
// and ends the command with Fail, or throw CLI::RuntimeError(code) after it printed one line by
// PrintError, where the exit code is not 0. Results go to standard output, everything else to
// standard error. A stage of `cupola ptx` is given the App of `ptx` and adds itself below that.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cupola {

/// What `cupola` exits with when it is not the program of `cupola run` that decides.
enum ExitCode : int {
  kExitOk = 0,
  kExitBadInput = 1,       ///< a tool's input is damaged, unsupported or missing
  kExitUsage = 2,          ///< the command line makes no sense
  kExitCupolaFailed = 125, ///< `cupola run` could not do its own part; the program was not started
  kExitCannotExecute = 126,///< the program exists and cannot be executed, as env(1)
  kExitNotFound = 127,     ///< the program does not exist, as env(1)
};

/// `text` for a terminal: control characters (all but newline and tab), C1 ones and those that change the direction of
/// writing too, and bytes that are not UTF-8 become \xNN. Names of files and kernels may hold any of them.
std::string Printable(std::string_view text);

/// Prints "cupola: " and a sentence to standard error, as Printable.
void Say(const std::string& text);

/// Says `error` (with its file, line or offset).
void PrintError(const Error& error);

/// Says `error` and ends the command.
[[noreturn]] void Fail(const Error& error, int code = kExitBadInput);

/// Ends the command where a variable of the environment that names a folder is set and not absolute: it would not be
/// used, and what is done would go elsewhere without a word.
void RequireAbsolute(const char* variable);
/// The same as a sentence; "" = there is nothing to say.
std::string WhyNotUsed(const char* variable);

}  // namespace cupola
