#include "device/compiler/build/compiler.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/private_folder.h"
#include "device/compiler/build/process.h"

namespace cupola::build {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kVersionLimit = 30s;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsExecutable(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// A compiler's output, cut to its first complaint: "ptxas /tmp/x.ptx, line 5; error : ..." or
// "ptxas fatal : ..." without the words before it.
std::string FirstComplaint(const std::string& output) {
  size_t at = 0;
  std::string first;
  while (at < output.size()) {
    const size_t end = std::min(output.find('\n', at), output.size());
    const std::string line = output.substr(at, end - at);
    if (first.empty()) first = line;
    for (const char* mark : {"error   : ", "fatal   : ", "error: "}) {
      const size_t found = line.find(mark);
      if (found != std::string::npos) return line.substr(found + std::strlen(mark));
    }
    at = end + 1;
  }
  return first;
}

// The files of one compilation: PTX in, cubin out.
struct CompileFiles {
  PrivateFolder folder;
  std::string ptx, cubin;

  static Result<CompileFiles> Make(std::string_view text) {
    Result<PrivateFolder> folder = PrivateFolder::Make(PrivateFolder::First::kTemporary);
    if (!folder) return folder.error();
    CompileFiles files{*std::move(folder), {}, {}};
    files.ptx = files.folder.path() + "/module.ptx";
    files.cubin = files.folder.path() + "/module.cubin";
    std::ofstream out(files.ptx, std::ios::binary);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.close();
    if (!out) return MakeError(ErrorCode::kIo, "cannot be written", Location{.file = files.ptx});
    return files;
  }

  Result<std::vector<uint8_t>> ReadCubin() const {
    std::ifstream in(cubin, std::ios::binary);
    std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
    if (bytes.empty()) {
      return MakeError(ErrorCode::kInternal, "the compiler wrote nothing", Location{.file = cubin});
    }
    return bytes;
  }
};

std::string ArchText(const CompileInput& input) {
  std::string text = fmt::format("sm_{}", input.arch);
  if (input.arch_suffix != 0) text += input.arch_suffix;
  return text;
}

Status Complaint(std::string_view name, const Result<ProcessEnd>& end) {
  if (!end) {
    return MakeError(end.error().code, fmt::format("{} {}", name, end.error().message));
  }
  if (end->signal != 0) {
    return MakeError(ErrorCode::kInternal,
                     fmt::format("{} was ended by signal {}", name, end->signal));
  }
  if (end->exit_code == 0) return {};
  return MakeError(ErrorCode::kUnsupported,
                   fmt::format("{}: {}", name, FirstComplaint(end->output)));
}

class Ptxas final : public Compiler {
 public:
  Ptxas(std::string path, std::string version)
      : path_(std::move(path)), version_("ptxas " + std::move(version)) {}

  const std::string& version() const override { return version_; }

  Result<std::vector<uint8_t>> Compile(const CompileInput& input) const override {
    Result<CompileFiles> files = CompileFiles::Make(input.ptx);
    if (!files) return files.error();
    std::vector<std::string> arguments = {path_, "-arch=" + ArchText(input), files->ptx, "-o",
                                          files->cubin};
    arguments.insert(arguments.end(), input.options.begin(), input.options.end());
    if (Status done = Complaint("ptxas", RunProcess(arguments, input.limit)); !done) {
      return done.error();
    }
    return files->ReadCubin();
  }

 private:
  std::string path_, version_;
};

class JitLink final : public Compiler {
 public:
  JitLink(std::string worker, std::string library, std::string version)
      : worker_(std::move(worker)),
        library_(std::move(library)),
        version_("nvJitLink " + std::move(version)) {}

  const std::string& version() const override { return version_; }

  Result<std::vector<uint8_t>> Compile(const CompileInput& input) const override {
    Result<CompileFiles> files = CompileFiles::Make(input.ptx);
    if (!files) return files.error();
    std::vector<std::string> arguments = {worker_,
                                          "build-worker",
                                          "--",
                                          library_,
                                          files->ptx,
                                          files->cubin,
                                          "-arch=" + ArchText(input)};
    for (const std::string& option : input.options) arguments.push_back("-Xptxas=" + option);
    const Result<ProcessEnd> end = RunProcess(arguments, input.limit);
    if (end && end->signal == 0 && end->exit_code == kWorkerFailed) {
      return MakeError(ErrorCode::kIo, "nvJitLink: " + FirstComplaint(end->output));
    }
    if (Status done = Complaint("nvJitLink", end); !done) return done.error();
    return files->ReadCubin();
  }

 private:
  std::string worker_, library_, version_;
};

// The last line of --version is "Build cuda_13.0.r13.0/compiler.36424714_0".
Result<std::unique_ptr<Compiler>> MakePtxas(const std::string& path) {
  const Result<ProcessEnd> end = RunProcess({path, "--version"}, kVersionLimit);
  if (Status done = Complaint("ptxas", end); !done) return done.error();
  const size_t at = end->output.rfind("cuda_");
  if (at == std::string::npos) {
    return MakeError(ErrorCode::kUnsupported, "does not say its version", Location{.file = path});
  }
  std::string version = end->output.substr(at);
  version.resize(version.find_last_not_of(" \n") + 1);
  return std::unique_ptr<Compiler>(std::make_unique<Ptxas>(path, version));
}

std::vector<std::string> ToolkitFolders(const CompilerPlaces& places) {
  std::vector<std::string> folders;
  if (!places.cuda_home.empty()) folders.push_back(places.cuda_home);
  folders.push_back("/usr/local/cuda");
  return folders;
}

std::string FindPtxas(const CompilerPlaces& places) {
  std::vector<std::string> candidates;
  if (!places.cuda_home.empty()) candidates.push_back(places.cuda_home + "/bin/ptxas");
  for (size_t at = 0; at < places.path.size();) {
    const size_t end = std::min(places.path.find(':', at), places.path.size());
    if (end > at) candidates.push_back(places.path.substr(at, end - at) + "/ptxas");
    at = end + 1;
  }
  candidates.push_back("/usr/local/cuda/bin/ptxas");
  for (const std::string& candidate : candidates) {
    if (IsExecutable(candidate)) return candidate;
  }
  return {};
}

}  // namespace

CompilerPlaces DefaultCompilerPlaces() {
  std::error_code error;
  return {.cuda_home = Environment("CUDA_HOME"),
          .path = Environment("PATH"),
          .worker = fs::read_symlink("/proc/self/exe", error).string()};
}

Result<std::unique_ptr<Compiler>> FindCompiler(const CompilerPlaces& places) {
  const std::string ptxas = places.ptxas.empty() ? FindPtxas(places) : places.ptxas;
  if (!ptxas.empty()) return MakePtxas(ptxas);
  Result<std::unique_ptr<Compiler>> linker = FindJitLink(places, "");
  if (linker) return linker;
  return MakeError(ErrorCode::kNotFound,
                   "no compiler for PTX: neither ptxas (CUDA_HOME, PATH, /usr/local/cuda) nor "
                   "libnvJitLink.so was found; set CUDA_HOME to a CUDA toolkit");
}

Result<std::unique_ptr<Compiler>> FindJitLink(const CompilerPlaces& places,
                                              const std::string& library) {
  std::vector<std::string> candidates;
  if (!library.empty()) {
    candidates.push_back(library);
  } else {
    for (const std::string& folder : ToolkitFolders(places)) {
      for (const char* name : {"/lib64/libnvJitLink.so.13", "/lib64/libnvJitLink.so.12"}) {
        if (access((folder + name).c_str(), R_OK) == 0) candidates.push_back(folder + name);
      }
    }
    candidates.insert(candidates.end(), {"libnvJitLink.so.13", "libnvJitLink.so.12"});
  }
  Error last = MakeError(ErrorCode::kNotFound, "no program to run nvJitLink in");
  for (const std::string& candidate : candidates) {
    if (places.worker.empty()) break;
    const Result<ProcessEnd> end =
        RunProcess({places.worker, "build-worker", "--", candidate}, kVersionLimit);
    if (Status done = Complaint("nvJitLink", end); !done) {
      last = done.error();
      continue;
    }
    std::string version = end->output;
    version.resize(version.find_last_not_of(" \n") + 1);
    return std::unique_ptr<Compiler>(
        std::make_unique<JitLink>(places.worker, candidate, std::move(version)));
  }
  return last;
}

std::vector<std::string> KnownOptions(std::string_view options) {
  // Whole words that are allowed, and beginnings that end with '=' (or -O), behind which a word of
  // letters, digits and '_' is allowed.
  static constexpr std::string_view kWords[] = {"-g",
                                                "--device-debug",
                                                "-lineinfo",
                                                "--generate-line-info",
                                                "--dont-merge-basicblocks",
                                                "--return-at-end",
                                                "--disable-optimizer-constants",
                                                "--suppress-double-demote-warning",
                                                "--suppress-stack-size-warning",
                                                "-suppress-debug-info",
                                                "--position-independent-code"};
  static constexpr std::string_view kStarts[] = {"-O",
                                                 "--opt-level=",
                                                 "-maxrregcount=",
                                                 "--maxrregcount=",
                                                 "-fmad=",
                                                 "--fmad=",
                                                 "-dlcm=",
                                                 "--def-load-cache=",
                                                 "-dscm=",
                                                 "--def-store-cache=",
                                                 "--allow-expensive-optimizations=",
                                                 "--disable-warnings="};
  std::vector<std::string> known;
  size_t at = 0;
  while ((at = options.find_first_not_of(" \t", at)) != std::string_view::npos) {
    const std::string_view word = options.substr(at, options.find_first_of(" \t", at) - at);
    at += word.size();
    bool take = false;
    for (const std::string_view own : kWords) take = take || word == own;
    for (const std::string_view own : kStarts) {
      if (!word.starts_with(own)) continue;
      const std::string_view value = word.substr(own.size());
      take = take ||
             (!value.empty() && value.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") ==
                                    std::string_view::npos);
    }
    if (take) known.emplace_back(word);
  }
  return known;
}

}  // namespace cupola::build
