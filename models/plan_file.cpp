#include "models/plan_file.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/variables.h"

namespace cupola::models {
namespace {

constexpr size_t kMostBytes = size_t{256} << 20;

}  // namespace

std::string GpuFileName(std::string_view device_name) {
  std::string name;
  for (const char c : device_name) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (upper || plain) {
      name += upper ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "gpu" : name.substr(0, 63);
}

std::string ProfilesFolder() {
  struct Place {
    const char* folder;
    const char* below;
  };
  for (const auto& [folder, below] : {Place{settings::Text("CUPOLA_PROFILES"), ""},
                                      Place{getenv("XDG_DATA_HOME"), "/cupola/profiles"},
                                      Place{getenv("HOME"), "/.local/share/cupola/profiles"}}) {
    if (folder != nullptr && folder[0] == '/') return std::string(folder) + below;
  }
  return "";
}

std::string PlanPath(std::string_view gpu_file_name) {
  if (const char* named = settings::Text("CUPOLA_PLAN")) return named;
  const std::string folder = ProfilesFolder();
  return folder.empty() ? "" : folder + "/" + std::string(gpu_file_name) + ".plan";
}

Result<PlanFile> PlanFile::Open(const std::string& path) {
  const Location where{.file = path};
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return MakeError(errno == ENOENT || errno == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo,
                     std::string("cannot open the plan: ") + strerror(errno), where);
  }
  struct stat facts;
  if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) ||
      static_cast<uint64_t>(facts.st_size) > kMostBytes) {
    close(file);
    return MakeError(ErrorCode::kDamaged, "not a plan: no file of a plan's size", where);
  }
  const size_t bytes = static_cast<size_t>(facts.st_size);
  if (bytes < sizeof(PlanHeader)) {
    close(file);
    return MakeError(ErrorCode::kDamaged, "damaged plan: too short", where);
  }
  // Plans are replaced by rename and never written in place, so a mapping does not change.
  void* memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
  const int failure = errno;
  close(file);
  if (memory == MAP_FAILED) {
    return MakeError(ErrorCode::kIo, std::string("cannot map the plan: ") + strerror(failure),
                     where);
  }
  auto view = PlanView::Open({static_cast<const std::byte*>(memory), bytes});
  if (view && !view->ChecksumHolds()) {
    view = MakeError(ErrorCode::kDamaged, "damaged plan: the checksum does not hold");
  }
  if (!view) {
    munmap(memory, bytes);
    Error error = std::move(view).error();
    error.where = where;
    return error;
  }
  return PlanFile(memory, bytes, *view);
}

PlanFile::PlanFile(PlanFile&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_), view_(other.view_) {}

PlanFile& PlanFile::operator=(PlanFile&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(view_, other.view_);
  return *this;
}

PlanFile::~PlanFile() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

}  // namespace cupola::models
