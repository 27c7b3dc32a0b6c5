#include "device/compiler/build/loaded_objects.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <filesystem>

#include "device/compiler/build/process.h"
#include "device/compiler/fatbin/elf_file.h"
#include "device/compiler/fatbin/mapped_file.h"

namespace cupola::build {
namespace {

using namespace std::chrono_literals;

constexpr auto kListingLimit = 30s;
constexpr char kLoader[] = "/lib64/ld-linux-x86-64.so.2";

bool IsDynamic(const fatbin::ElfFile& elf) {
  for (const fatbin::ElfSection& section : elf.sections()) {
    if (section.header.sh_type == SHT_DYNAMIC) return true;
  }
  return false;
}

}  // namespace

LoadedObjects ParseListing(std::string_view listing) {
  LoadedObjects objects;
  while (!listing.empty()) {
    const size_t end = std::min(listing.find('\n'), listing.size());
    std::string_view line = listing.substr(0, end);
    listing.remove_prefix(std::min(end + 1, listing.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const size_t arrow = line.find(" => ");
    if (arrow == std::string_view::npos) {
      // An object that is needed by its path. Also the loader itself, and the vdso, which are
      // skipped.
      const std::string_view file = line.substr(0, line.rfind(" (0x"));
      if (file.starts_with('/') && file.find("/ld-linux-") == std::string_view::npos) {
        objects.files.emplace_back(file);
      }
      continue;
    }
    const std::string_view name = line.substr(0, arrow);
    std::string_view file = line.substr(arrow + 4);
    if (file.starts_with('/')) {
      objects.files.emplace_back(file.substr(0, file.rfind(" (0x")));
    } else {
      objects.missing.emplace_back(name);
    }
  }
  return objects;
}

Result<LoadedObjects> FindLoadedObjects(const std::string& path) {
  Result<fatbin::MappedFile> file = fatbin::MappedFile::Open(path);
  if (!file) return file.error();
  if (!fatbin::IsElf(file->bytes())) return LoadedObjects{};  // PTX text, a bare fatbin
  const Result<fatbin::ElfFile> elf = fatbin::ElfFile::Open(file->bytes());
  if (!elf) return elf.error();
  if (elf->header().e_machine != EM_X86_64 || !IsDynamic(*elf)) return LoadedObjects{};
  std::error_code error;
  const std::string named = std::filesystem::canonical(path, error).string();
  if (error) return MakeError(ErrorCode::kNotFound, error.message(), Location{.file = path});
  // This is what ldd(1) does, but always with the system's loader, whatever interpreter the file
  // names. Unlike --list, it lists missing libraries and goes on. LD_PRELOAD is removed, since it
  // is not the program's.
  const Result<ProcessEnd> end =
      RunProcess({"/usr/bin/env", "-u", "LD_PRELOAD", "LD_TRACE_LOADED_OBJECTS=1", kLoader, named},
                 kListingLimit);
  if (!end) return end.error();
  if (end->exit_code != 0 || end->signal != 0) {
    std::string why = end->output.substr(0, end->output.find('\n'));
    return MakeError(ErrorCode::kUnsupported, "the loader cannot load it: " + why,
                     Location{.file = path});
  }
  return ParseListing(end->output);
}

}  // namespace cupola::build
