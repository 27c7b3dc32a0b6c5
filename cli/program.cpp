#include "cli/program.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fmt/format.h>

namespace cupola {
namespace {

// The same limit as in the operating system's kernel (BINPRM_MAX_RECURSION).
constexpr int kMaxInterpreters = 5;

/// The interpreter that the "#!" line of `path` names; "" if it is no script.
std::string InterpreterOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char mark[2] = {};
  if (!file.read(mark, 2) || mark[0] != '#' || mark[1] != '!') return "";
  std::string line;
  std::getline(file, line);
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
}

/// Whether execve() of `path` by this process sets AT_SECURE, so that the loader ignores LD_PRELOAD
/// (ld.so(8), "Secure-execution mode"; capabilities(7), "Set-user-ID-root programs").
bool IsSecure(const std::string& path) {
  struct stat info {};
  struct statvfs mount {};
  if (stat(path.c_str(), &info) != 0) return false;
  const bool may_gain = statvfs(path.c_str(), &mount) == 0 && !(mount.f_flag & ST_NOSUID) &&
                        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
  const bool set_uid = may_gain && (info.st_mode & S_ISUID) != 0;
  // Without the group's execute bit, the set-gid bit means mandatory locking.
  const bool set_gid = may_gain && (info.st_mode & S_ISGID) != 0 && (info.st_mode & S_IXGRP) != 0;
  if ((set_uid ? info.st_uid : geteuid()) != getuid()) return true;
  if ((set_gid ? info.st_gid : getegid()) != getgid()) return true;
  return may_gain && getuid() != 0 &&
         getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

/// Fills in the facts that the dynamic section gives.
void ReadDynamic(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, ProgramFacts& facts) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return;
  const auto count = static_cast<int>(header.sh_size / header.sh_entsize);
  for (int i = 0; i < count; ++i) {
    GElf_Dyn entry{};
    if (gelf_getdyn(data, i, &entry) == nullptr) return;
    if (entry.d_tag != DT_NEEDED) continue;
    const char* name = elf_strptr(elf, header.sh_link, entry.d_un.d_val);
    if (name != nullptr && std::string_view(name).starts_with("libcudart.so")) facts.cudart = name;
    facts.has_cupti |= name != nullptr && std::string_view(name).starts_with("libcupti.so");
  }
}

/// Whether the section contains a name for cudaGetErrorName, which only a statically linked CUDA runtime brings along.
bool HasRuntime(Elf_Scn* section) {
  constexpr std::string_view kName = "cudaErrorCudartUnloading";
  const Elf_Data* data = elf_rawdata(section, nullptr);
  return data != nullptr && data->d_buf != nullptr &&
         std::string_view(static_cast<const char*>(data->d_buf), data->d_size).find(kName) !=
             std::string_view::npos;
}

void ReadSections(Elf* elf, ProgramFacts& facts) {
  bool has_runtime = false;
  size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return;
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr;
       section = elf_nextscn(elf, section)) {
    GElf_Shdr header{};
    if (gelf_getshdr(section, &header) == nullptr) return;
    const char* name = elf_strptr(elf, names, header.sh_name);
    if (name != nullptr && std::string_view(name) == ".nv_fatbin") facts.has_kernels = true;
    if (name != nullptr && std::string_view(name) == ".rodata") has_runtime |= HasRuntime(section);
    if (header.sh_type == SHT_DYNAMIC) ReadDynamic(elf, section, header, facts);
  }
  facts.has_static_cudart = has_runtime && facts.has_kernels && facts.cudart.empty();
}

void ReadElf(const std::string& path, Elf* elf, ProgramFacts& facts) {
  GElf_Ehdr header{};
  if (gelf_getehdr(elf, &header) == nullptr) return;
  facts.foreign = header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64;
  size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) return;
  bool has_loader = false;
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr segment{};
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) return;
    if (segment.p_type != PT_INTERP) continue;
    has_loader = true;
    std::ifstream file(path, std::ios::binary);
    std::string loader(segment.p_filesz < 4096 ? segment.p_filesz : 0, '\0');
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    facts.is_musl = file.read(loader.data(), static_cast<std::streamsize>(loader.size())) &&
                    loader.find("ld-musl") != std::string::npos;
  }
  facts.is_static = !has_loader;
  ReadSections(elf, facts);
}

}  // namespace

Result<std::string> FindProgram(const std::string& name) {
  int failure = ENOENT;
  const auto can_execute = [&failure](const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) {
      if (errno != ENOENT && errno != ENOTDIR) failure = errno;
      return false;
    }
    if (S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0) return true;
    failure = S_ISDIR(info.st_mode) ? EISDIR : EACCES;
    return false;
  };
  if (name.find('/') != std::string::npos) {
    if (can_execute(name)) return name;
  } else if (!name.empty()) {
    const char* value = std::getenv("PATH");
    std::string_view path = value != nullptr ? value : "/bin:/usr/bin";
    for (bool more = true; more;) {
      const size_t end = path.find(':');
      std::string file(path.substr(0, end));
      file += file.empty() ? "./" : "/";
      file += name;
      if (can_execute(file)) return file;
      more = end != std::string_view::npos;
      if (more) path.remove_prefix(end + 1);
    }
    if (failure == EISDIR) failure = ENOENT;  // a folder of that name in PATH is no program
  }
  if (failure == ENOENT) {
    return MakeError(ErrorCode::kNotFound,
                     fmt::format("{}: {}", name,
                                 name.find('/') != std::string::npos
                                     ? "no such file"
                                     : "not found in PATH; a program in this folder "
                                       "is started as ./NAME"));
  }
  return MakeError(ErrorCode::kIo,
                   fmt::format("{}: cannot be executed: {}", name, std::strerror(failure)));
}

ProgramFacts LookAtProgram(const std::string& path) {
  ProgramFacts facts;
  facts.file = path;
  for (int i = 0; i < kMaxInterpreters; ++i) {
    const std::string interpreter = InterpreterOf(facts.file);
    if (interpreter.empty()) break;
    facts.file = interpreter;
  }
  facts.secure = IsSecure(facts.file);
  elf_version(EV_CURRENT);
  const int fd = open(facts.file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return facts;
  Elf* elf = elf_begin(fd, ELF_C_READ_MMAP, nullptr);
  if (elf != nullptr && elf_kind(elf) == ELF_K_ELF) ReadElf(facts.file, elf, facts);
  if (elf != nullptr) elf_end(elf);
  close(fd);
  return facts;
}

}  // namespace cupola
