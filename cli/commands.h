// The rules for subcommands of `cupola`, and what they share. A subcommand is a pair of files
// cli/<name>_command.{h,cpp} with one function `void Add<Name>Command(CLI::App& app)`. main.cpp calls the
// function on the main thread, and CMakeLists.txt lists the files.
//
// A subcommand adds itself with app.add_subcommand(name, one line that says what it does), gives examples in its
// footer, and keeps its options in a shared_ptr that its callback captures. Where the exit code is not 0, it ends
// the command with Fail, or prints one line by PrintError and throws CLI::RuntimeError(code). Results go to
// standard output, everything else to standard error. A stage of `cupola ptx` gets the App of `ptx` and adds
// itself below that.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cupola {

/// The exit codes of `cupola`, where it does not return that of a program that it ran.
enum ExitCode : int {
  kExitOk = 0,
  kExitBadInput = 1,       ///< the input is damaged, unsupported or missing
  kExitUsage = 2,          ///< the command line is wrong
  kExitCupolaFailed = 125, ///< `cupola run` could not do its own part; the program was not started
  kExitCannotExecute = 126,///< the program exists and cannot be executed, as env(1) says
  kExitNotFound = 127,     ///< the program does not exist, as env(1) says
};

/// `text` for a terminal. Control characters but newline and tab, C1 control characters, characters that change the
/// direction of writing, and bytes that are not UTF-8 become \xNN, because names of files and kernels may contain any
/// of them.
std::string Printable(std::string_view text);

/// Prints "cupola: " and the text, made Printable, to standard error.
void Say(const std::string& text);

/// Says `error`, with its file, line or offset.
void PrintError(const Error& error);

/// Says `error` and ends the command by throwing CLI::RuntimeError(code).
[[noreturn]] void Fail(const Error& error, int code = kExitBadInput);

/// Ends the command where an environment variable that names a folder is set to a path that is not absolute. Cupola
/// ignores such a value, so the command would use another folder without saying so.
void RequireAbsolute(const char* variable);
/// The sentence with which RequireAbsolute would end the command; "" if it would not.
std::string WhyNotUsed(const char* variable);

}  // namespace cupola
