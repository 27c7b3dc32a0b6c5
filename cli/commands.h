// The rules for subcommands of `cupola`, and what they share. A subcommand is a pair of files
// cli/<name>_command.{h,cpp} with one function `void Add<Name>Command(CLI::App& app)`. main.cpp calls the
// function on the main thread, and CMakeLists.txt lists the files.
//
// A subcommand adds itself with app.add_subcommand(name, one line that says what it does), gives examples in its
// footer, and keeps its options in a shared_ptr that its callback captures. The callback runs on the main thread when
// the command line names the subcommand. Where the exit code is not 0, the callback ends the command with Fail, or says
// why and throws CLI::RuntimeError(code), which main.cpp turns into the exit code. Results go to standard output,
// everything else to standard error. A subcommand of `cupola ptx`, such as `cupola ptx run`, gets the App of `ptx` and
// adds itself below that.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/settings/variables.h"

namespace cupola {

/// The exit codes of `cupola`, where it does not return that of a program that it ran. The codes from 125 on are those
/// of the subcommands that run a program (`run`, `profile`, `tune`).
enum ExitCode : int {
  kExitOk = 0,
  kExitBadInput = 1,       ///< the input is damaged, unsupported or missing; or another failure, as of writing output
  kExitUsage = 2,          ///< the command line is wrong, or a variable of the environment
  kExitCupolaFailed = 125, ///< Cupola could not do its own part
  kExitCannotExecute = 126,///< the program exists and cannot be executed, as env(1) says
  kExitNotFound = 127,     ///< the program does not exist, as env(1) says
};

/// `text` for a terminal. Control characters but newline and tab, C1 control characters, characters that change the
/// direction of writing, and bytes that are not UTF-8 become \xNN, because names of files and kernels may contain any
/// of them.
std::string Printable(std::string_view text);

/// Prints "cupola: ", the text, made Printable, and a newline to standard error; where that is closed, nothing.
void Say(const std::string& text);

/// Says `error`, with its file, line or offset.
void PrintError(const Error& error);

/// Says `error` (PrintError) and ends the command by throwing CLI::RuntimeError(code).
[[noreturn]] void Fail(const Error& error, int code = kExitBadInput);

/// Ends the command with kExitUsage where the environment variable, which names a folder (CUPOLA_STORE,
/// CUPOLA_PROFILES), is set to a path that is not absolute. Cupola's libraries ignore such a value, so the command
/// would use another folder without saying so.
void RequireAbsolute(settings::TextSetting variable);
/// Why the libraries ignore the value of that environment variable; "" if they do not. For a command that goes on all
/// the same.
std::string WhyNotUsed(settings::TextSetting variable);

}  // namespace cupola
