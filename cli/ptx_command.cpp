#include "cli/ptx_command.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/ptx_input.h"
#include "cli/ptx_report.h"
#include "device/compiler/fatbin/elf_images.h"
#include "device/compiler/ptx/dump.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/same_tokens.h"
#include "device/compiler/ptx/validate.h"
#include "device/compiler/ptx/write.h"

namespace cupola {
namespace {

constexpr char kFileHelp[] = "PTX text; - reads standard input";

ptx::Module MustRead(const std::string& path) {
  Result<ptx::Module> module = ReadPtx(path);
  if (!module) Fail(module.error());
  return std::move(*module);
}

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void AddParse(CLI::App& ptx) {
  struct Options {
    std::string file;
    bool json = false;
    bool dump = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* parse = ptx.add_subcommand("parse", "Parse PTX and tell what is in it");
  parse->add_option("FILE", options->file, kFileHelp)->required();
  CLI::Option* json = parse->add_flag("--json", options->json,
                                      "one JSON object with functions, opcodes and diagnostics");
  parse->add_flag("--dump", options->dump, "the whole IR as an outline, one node a line")
      ->excludes(json);
  parse->footer("\nExamples:\n"
                "  cupola ptx parse kernel.ptx           version, functions, unknown instructions\n"
                "  cupola ptx parse --dump kernel.ptx    how every statement was understood\n"
                "  nvcc -ptx -o - k.cu | cupola ptx parse --json -"
      "\n\nExit codes: 0 done, 1 the input is damaged or cannot be read, 2 wrong usage.");
  parse->callback([options] {
    const ptx::Module module = MustRead(options->file);
    Print(options->json ? PtxJson(module)
                        : Printable(options->dump ? ptx::Dump(module) : PtxSummary(module)));
  });
}

void WriteFile(const std::string& path, const std::string& text) {
  FILE* file = std::fopen(path.c_str(), "wb");
  bool good = file != nullptr;
  if (good) {
    good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    good = std::fclose(file) == 0 && good;
  }
  if (!good) Fail(MakeError(ErrorCode::kIo, std::strerror(errno), {.file = path}));
}

/// Says what is wrong with the written form of a text; "" if nothing is.
std::string CheckWritten(const std::string& text, const ptx::Module& module,
                         const std::string& written) {
  const Result<ptx::Module> again = ptx::Parse(written, module.name);
  if (!again) return "the written text is refused: " + again.error().ToString();
  if (!(*again == module)) return "the written text is parsed as another module";
  const auto difference = ptx::FirstTokenDifference(text, written);
  if (!difference) return "";
  return "line " + std::to_string(difference->first_pos.line) + ": " + difference->first +
         " is written as " + difference->second + " in line " +
         std::to_string(difference->second_pos.line);
}

void AddWrite(CLI::App& ptx) {
  struct Options {
    std::string file;
    std::string output;
    bool check = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* write = ptx.add_subcommand("write", "Parse PTX and write it again in one fixed form");
  write->add_option("FILE", options->file, kFileHelp)->required();
  write->add_option("-o,--output", options->output, "file to write (default: standard output)");
  write->add_flag("--check", options->check,
                  "compare the result with FILE, token by token: exit code 1 and the first "
                  "difference where there is one; written to -o only");
  write->footer(
      "\nptxas makes the same machine code of the result. Comments are dropped, what is not\n"
      "understood is kept.\n"
      "\nExamples:\n"
      "  cupola ptx write kernel.ptx -o canonical.ptx\n"
      "  cupola ptx write --check kernel.ptx"
      "\n\nExit codes: 0 done, 1 the input is damaged or cannot be read, 2 wrong usage.");
  write->callback([options] {
    const Result<std::string> input = ReadPtxText(options->file);
    if (!input) Fail(input.error());
    const Result<ptx::Module> module = ptx::Parse(*input, ShownName(options->file));
    if (!module) Fail(module.error());
    const std::string text = ptx::Write(*module);
    if (options->check) {
      const std::string problem = CheckWritten(*input, *module, text);
      if (!options->output.empty()) WriteFile(options->output, text);
      if (problem.empty()) return;
      Fail(MakeError(ErrorCode::kDamaged, problem, {.file = ShownName(options->file)}));
    }
    if (options->output.empty() || options->output == "-") {
      Print(text);
    } else {
      WriteFile(options->output, text);
    }
  });
}

void AddValidate(CLI::App& ptx) {
  const auto file = std::make_shared<std::string>();
  CLI::App* validate = ptx.add_subcommand("validate", "Check PTX for mistakes");
  validate->add_option("FILE", *file, kFileHelp)->required();
  validate->footer(
      "\nPrints one line for each finding. The exit code is 1 where one is an error, 0 where\n"
      "there are warnings only or nothing.\n"
      "\nExample:\n"
      "  cupola ptx validate kernel.ptx");
  validate->callback([file] {
    const ptx::Module module = MustRead(*file);
    const std::vector<ptx::Diagnostic> diagnostics = ptx::Validate(module);
    for (const ptx::Diagnostic& diagnostic : diagnostics) {
      Print(Printable(diagnostic.ToString(module.name) + "\n"));
    }
    if (ptx::HasErrors(diagnostics)) throw CLI::RuntimeError(kExitBadInput);
  });
}

void AddImages(CLI::App& ptx) {
  const auto file = std::make_shared<std::string>();
  CLI::App* images = ptx.add_subcommand("images", "List the PTX images of a program or library");
  images->add_option("FILE", *file, "A program, library, object file or fatbin")->required();
  images->footer(
      "\nOne row for each, without decompressing any. The options are what its compiler must be\n"
      "told.\n"
      "\nExamples:\n"
      "  cupola ptx images libcublas.so.13\n"
      "  cupola inspect libcublas.so.13 --image 4 --extract 4.ptx   take one out"
      "\n\nExit codes: 0 done, 1 the input is damaged or cannot be read, 2 wrong usage.");
  images->callback([file] {
    const Result<fatbin::ImageFile> opened = fatbin::OpenImageFile(*file);
    if (!opened) Fail(opened.error());
    std::string text = "IMAGE       BYTES  ARCH          OPTIONS\n";
    const std::vector<fatbin::Image>& all = opened->images.images;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].kind != fatbin::ImageKind::kPtx) continue;
      text += fmt::format("{:5}  {:10}  {:12}  {}\n", i, all[i].uncompressed_size,
                          all[i].ArchName(), all[i].options);
    }
    Print(Printable(text));
  });
}

}  // namespace

void AddPtxCommand(CLI::App& app) {
  CLI::App* ptx = app.add_subcommand("ptx", "Parse, write, check and run PTX text");
  ptx->require_subcommand(1);
  ptx->footer("\nPTX comes from 'nvcc -ptx', or out of a program by 'cupola inspect --extract'."
              "\n\nExit codes: 0 done, 1 the input is damaged or cannot be read, 2 wrong usage.");
  AddParse(*ptx);
  AddWrite(*ptx);
  AddValidate(*ptx);
  AddImages(*ptx);
}

}  // namespace cupola
