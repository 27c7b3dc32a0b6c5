#include "cli/ptx_input.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "device/compiler/ptx/parse.h"

namespace cupola {
namespace {

/// Whether the bytes begin as an ELF file, a fatbin or the wrapper of a fatbin does.
bool IsBinary(const std::string& bytes) {
  for (const char* magic : {"\x7f" "ELF", "\x50\xed\x55\xba", "\xb1\x43\x62\x46"}) {
    if (bytes.compare(0, 4, magic, 4) == 0) return true;
  }
  return false;
}

}  // namespace

std::string ShownName(const std::string& path) { return path == "-" ? "standard input" : path; }

Result<std::string> ReadInput(const std::string& path) {
  using File = std::unique_ptr<FILE, int (*)(FILE*)>;
  const auto keep_open = [](FILE*) { return 0; };
  const File file = path == "-" ? File(stdin, keep_open) : File(std::fopen(path.c_str(), "rb"),
                                                                std::fclose);
  if (!file) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return MakeError(code, std::strerror(errno), {.file = path});
  }
  std::string bytes;
  char buffer[1 << 16];
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, file.get())) {
    bytes.append(buffer, got);
  }
  if (std::ferror(file.get()) != 0) {
    return MakeError(ErrorCode::kIo, std::strerror(errno), {.file = ShownName(path)});
  }
  return bytes;
}

Result<std::string> ReadPtxText(const std::string& path) {
  Result<std::string> bytes = ReadInput(path);
  if (bytes && IsBinary(*bytes)) {
    return MakeError(ErrorCode::kUnsupported,
                     "this is a binary, not PTX text: take its PTX out with "
                     "'cupola inspect --extract', then give the .ptx file",
                     {.file = ShownName(path)});
  }
  return bytes;
}

Result<ptx::Module> ReadPtx(const std::string& path) {
  const Result<std::string> text = ReadPtxText(path);
  if (!text) return text.error();
  return ptx::Parse(*text, ShownName(path));
}

}  // namespace cupola
