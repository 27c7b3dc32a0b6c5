#include "cli/commands.h"

#include <CLI/CLI.hpp>

#include <cstdio>

namespace cupola {

// fputs, as fmt::print throws where standard error is closed.
void Say(const std::string& text) { std::fputs(("cupola: " + text + "\n").c_str(), stderr); }

void PrintError(const Error& error) { Say(error.ToString()); }

void Fail(const Error& error, int code) {
  PrintError(error);
  throw CLI::RuntimeError(code);
}

}  // namespace cupola
