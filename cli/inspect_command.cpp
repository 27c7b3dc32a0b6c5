#include "cli/inspect_command.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/inspect.h"
#include "cli/inspect_print.h"

namespace cupola {
namespace {

/// The options on the command line of `cupola inspect`.
struct InspectCommandOptions {
  std::string file;
  InspectOptions inspect;
  InspectPrintOptions print;
  bool json = false;
  std::string extract;  ///< the file to which an image is written; "-": standard output; "": none
};

constexpr char kInspectFooter[] =
    "\nFILE is a program, a shared library, an object file, a fatbin, a cubin or PTX text.\n"
    "REGS, LOCAL are per thread and SHARED per block (static; dynamic comes with the launch), in\n"
    "bytes, of the code marked with * where there is code for several architectures.\n"
    "\nExamples:\n"
    "  cupola inspect ./app                          images and kernels of a program\n"
    "  cupola inspect libcublas.so.13 --kernels gemv only kernels whose name contains gemv\n"
    "  cupola inspect ./app --json                   the same facts for a program to read\n"
    "  cupola inspect ./app --image 1 --extract a.ptx   write image 1, decompressed, to a file\n"
    "\nExit codes: 0 done (also when there are no images), 1 the file is damaged or unreadable;\n"
    "what could be read of it is still printed.\n";

Status WriteOut(const std::string& path, std::string_view text) {
  std::FILE* out = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  if (out == nullptr) {
    return MakeError(ErrorCode::kIo, std::strerror(errno), Location{.file = path});
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const bool flushed = (out == stdout ? std::fflush(out) : std::fclose(out)) == 0;
  if (written && flushed) return {};
  return MakeError(ErrorCode::kIo, std::strerror(errno), Location{.file = path});
}

void Extract(const InspectCommandOptions& options) {
  const Result<fatbin::ImageFile> file = fatbin::OpenImageFile(options.file);
  if (!file) Fail(file.error());
  const Result<fatbin::ImageBytes> contents = ReadImage(*file, *options.inspect.image);
  if (!contents) Fail(contents.error());
  if (const Status status = WriteOut(options.extract, contents->text()); !status) {
    Fail(status.error());
  }
}

void RunInspect(const InspectCommandOptions& options) {
  if (!options.extract.empty()) {
    Extract(options);
    return;
  }
  const Result<Inspection> inspection = Inspect(options.file, options.inspect);
  if (!inspection) Fail(inspection.error());
  const std::string text =
      options.json ? InspectionJson(*inspection)
                   : Printable(InspectionText(*inspection, options.print));
  if (const Status status = WriteOut("-", text); !status) Fail(status.error());
  for (const Error& damage : inspection->damages) PrintError(damage);
  if (!inspection->damages.empty()) throw CLI::RuntimeError(kExitBadInput);
}

}  // namespace

void AddInspectCommand(CLI::App& app) {
  auto options = std::make_shared<InspectCommandOptions>();
  CLI::App* inspect =
      app.add_subcommand("inspect", "Show the device images and kernels of a program or library");
  inspect->add_option("FILE", options->file, "What to look into")->required();
  inspect->add_flag("--json", options->json, "Print one JSON object instead of tables");
  inspect->add_option("--kernels", options->inspect.kernels,
                      "Only kernels whose name (mangled or not) contains this text");
  inspect->add_flag("--mangled", options->print.mangled, "Print mangled names");
  inspect->add_flag("--images", options->print.all_images,
                    "A row for each image even where there are many");
  CLI::Option* image = inspect->add_option("--image", options->inspect.image,
                                           "Only the image of this number (the first is 0)");
  inspect
      ->add_option("--extract", options->extract,
                   "Write the contents of --image to this file (- for standard output)")
      ->needs(image);
  inspect->footer(kInspectFooter);
  inspect->callback([options] { RunInspect(*options); });
}

}  // namespace cupola
