#include "cli/ptx_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "device/sim/exec/kernel_spec.h"

namespace cupola {
namespace {

struct PtxRunOptions {
  std::string file;
  std::string kernel;
  std::string grid = "1";
  std::string block = "1";
  std::vector<std::string> args;
  std::vector<std::string> dumps;
  uint32_t shared_bytes = 0;
  bool cooperative = false;
  bool check = false;
};

template <typename T>
T Need(Result<T> result) {
  if (!result) Fail(result.error(), kExitUsage);
  return std::move(result.value());
}

std::string ReadKernels(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    Fail(MakeError(ErrorCode::kNotFound, "cannot read the file", {path, 0, 0, {}}));
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Lists the instructions that the simulated device lacks; those that are used most come first.
void Check(const PtxRunOptions& options) {
  auto device = sim::Device::Create({});
  auto module = device->LoadPtx(ReadKernels(options.file), options.file);
  if (!module) Fail(module.error());
  auto forms = (*module)->Lacks();
  std::stable_sort(forms.begin(), forms.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  for (const sim::LackedForm& form : forms) {
    fmt::print("{}\t{} time{}, first at line {}\n", form.form, form.count,
               form.count == 1 ? "" : "s", form.line);
  }
  if (!forms.empty()) throw CLI::RuntimeError(kExitBadInput);
}

void RunPtx(const PtxRunOptions& options) {
  if (options.check) return Check(options);
  sim::KernelSpec spec;
  spec.kernel = options.kernel;
  spec.grid = Need(sim::ParseDim3(options.grid));
  spec.block = Need(sim::ParseDim3(options.block));
  spec.dynamic_shared_bytes = options.shared_bytes;
  spec.cooperative = options.cooperative;
  for (const std::string& arg : options.args) spec.args.push_back(Need(sim::ParseArg(arg)));
  std::vector<sim::DumpSpec> dumps;
  for (const std::string& dump : options.dumps) {
    dumps.push_back(Need(sim::ParseDump(dump)));
    const sim::DumpSpec& last = dumps.back();
    if (last.arg >= spec.args.size() || !spec.args[last.arg].is_buffer ||
        last.count * sim::TypeBytes(last.type) > spec.args[last.arg].bytes.size()) {
      Fail(MakeError(ErrorCode::kInvalidArgument,
                     fmt::format("--dump {}: argument {} is no buffer of that size", dump,
                                 last.arg)),
           kExitUsage);
    }
  }
  const std::string text = ReadKernels(options.file);
  auto device = sim::Device::Create({});
  if (const Status status = sim::RunKernel(*device, text, options.file, &spec); !status) {
    Fail(status.error());
  }
  for (const sim::DumpSpec& dump : dumps) {
    const std::string values =
        sim::FormatValues(dump.type, spec.args[dump.arg].bytes.data(), dump.count);
    std::fputs((values + "\n").c_str(), stdout);
  }
}

}  // namespace

void AddPtxRunCommand(CLI::App& ptx_app) {
  auto options = std::make_shared<PtxRunOptions>();
  CLI::App* command =
      ptx_app.add_subcommand("run", "Run one kernel of a PTX file on the simulated device");
  command->add_option("FILE", options->file, "PTX text")->required();
  command->add_option("--kernel", options->kernel,
                      "Name of the kernel; may be left out if there is only one");
  command->add_option("--grid", options->grid, "Blocks, X[,Y[,Z]]");
  command->add_option("--block", options->block, "Threads of a block, X[,Y[,Z]]");
  command->add_option(
      "--arg", options->args,
      "An argument, in order: TYPE:VALUE (u32:5, f32:1.5) or a buffer, buf:TYPE:COUNT[=VALUES] "
      "(buf:u32:64 holds zeros, =7 sevens, =1;2;3 these in turn, =iota 0, 1, 2...)");
  command->add_option("--shared", options->shared_bytes, "Dynamic shared memory, bytes");
  command->add_flag("--cooperative", options->cooperative, "Launch so that grid.sync() works");
  command->add_option(
      "--dump", options->dumps,
      "Print a buffer afterwards: ARG:TYPE:COUNT, ARG counted from 0; one line each");
  command->add_flag("--check", options->check,
                    "Run nothing: list the instructions that the simulated device lacks");
  command->footer(
      "Example:\n  cupola ptx run add.ptx --grid 4 --block 256 --arg buf:f32:1000=iota --arg "
      "buf:f32:1000=0.5 \\\n"
      "      --arg buf:f32:1000 --arg u32:1000 --dump 2:f32:8\n"
      "Exit code: 0, 1 when the file or the kernel is at fault, 2 for a bad command line.");
  command->callback([options] { RunPtx(*options); });
}

}  // namespace cupola
