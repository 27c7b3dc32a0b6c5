#include "cli/installation.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include <elf.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/settings/variables.h"

namespace cupola {
namespace {

namespace fs = std::filesystem;

constexpr char kDriverName[] = "libcuda.so.1";

std::string OrEmpty(const char* value) { return value != nullptr ? value : ""; }

bool IsFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool SameFile(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored) && !ignored;
}

/// Whether `path` is a shared object that a program on this machine can load.
bool IsLoadable(const fs::path& path) { return IsFile(path) && IsWholeObject(path.string()); }

std::vector<std::string> SplitPath(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = text.find_first_of(":;");
    if (end != 0) parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

/// Whether `path` may be the real driver.
bool IsDriver(const fs::path& path, const Installation& installation) {
  if (!IsLoadable(path)) return false;
  if (path.parent_path().filename() == "stubs") return false;  // the toolkit's stub, for linking only
  return !SameFile(path, installation.preload) &&
         !SameFile(path, fs::path(installation.front_folder) / kDriverName) &&
         !SameFile(path, fs::path(installation.sim_folder) / kDriverName);
}

bool HasDeviceFile() {
  // The device files: NVIDIA's control device; that of WSL 2; those of Tegra.
  for (const char* file : {"/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu"}) {
    if (access(file, F_OK) == 0) return true;
  }
  return false;
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

bool IsWholeObject(const std::string& path) {
  std::error_code failure;
  const uint64_t size = fs::file_size(path, failure);
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (failure || !file.read(reinterpret_cast<char*>(&header), sizeof(header))) return false;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != EM_X86_64) {
    return false;
  }
  const auto holds = [size](uint64_t at, uint64_t bytes) { return at <= size && bytes <= size - at; };
  if (header.e_shnum != 0 && !holds(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize)) {
    return false;
  }
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof(segment))) return false;
    if (segment.p_type == PT_LOAD && !holds(segment.p_offset, segment.p_filesz)) return false;
  }
  return true;
}

Result<Installation> FindInstallation(const std::string& home) {
  std::error_code failure;
  fs::path prefix;
  if (!home.empty()) {
    prefix = fs::absolute(home, failure);
  } else {
    prefix = fs::read_symlink("/proc/self/exe", failure).parent_path().parent_path();
  }
  for (const char* folder : {"lib", "lib/cupola"}) {
    const fs::path preload = prefix / folder / "libcupola.so";
    if (!IsFile(preload)) continue;
    const fs::path front = prefix / folder / "libcupola";
    if (!IsFile(front / kDriverName)) {
      return MakeError(ErrorCode::kNotFound,
                       fmt::format("there is no libcupola/{} beside {}: build it (cmake --build), or copy both",
                                   kDriverName, preload.string()));
    }
    Installation found{.preload = preload.lexically_normal().string(),
                       .front_folder = front.lexically_normal().string(), .sim_folder = ""};
    const fs::path sim = prefix / folder / "sim";
    if (IsFile(sim / kDriverName)) found.sim_folder = sim.lexically_normal().string();
    return found;
  }
  return MakeError(ErrorCode::kNotFound,
                   fmt::format("libcupola.so is neither in {0}/lib nor in {0}/lib/cupola: build it "
                               "(cmake --build), or set CUPOLA_HOME to where lib/libcupola.so is",
                               prefix.string()));
}

DriverPlaces DefaultDriverPlaces() {
  return {.named = OrEmpty(settings::Text("CUPOLA_DRIVER")),
          .library_path = OrEmpty(std::getenv("LD_LIBRARY_PATH")),
          .cache_file = "/etc/ld.so.cache",
          .folders = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib",
                      "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib",
                      "/run/opengl-driver/lib"}};
}

std::vector<std::string> LoaderCacheEntries(const std::string& cache, const std::string& soname) {
  struct Header {
    char magic[17];
    char version[3];
    uint32_t count;
    uint32_t string_bytes;
    uint32_t rest[5];
  };
  struct Entry {
    int32_t flags;
    uint32_t key;    // offset of the soname from the start of the header
    uint32_t value;  // offset of the path from there
    uint32_t os_version;
    uint64_t hwcap;
  };
  static_assert(sizeof(Header) == 48 && sizeof(Entry) == 24);
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
  std::vector<std::string> paths;
  // A table of an older format may come first. Offsets count from the header of this table.
  const size_t start = cache.find(kMagic);
  if (start == std::string::npos) return paths;
  const std::string_view table = std::string_view(cache).substr(start);
  Header header{};
  if (table.size() < sizeof(header)) return paths;
  std::memcpy(&header, table.data(), sizeof(header));
  if (header.count > (table.size() - sizeof(header)) / sizeof(Entry)) return paths;
  const auto text = [&](uint32_t offset) -> std::string_view {
    if (offset >= table.size()) return {};
    const std::string_view rest = table.substr(offset);
    return rest.substr(0, rest.find('\0'));
  };
  for (uint32_t i = 0; i < header.count; ++i) {
    Entry entry{};
    std::memcpy(&entry, table.data() + sizeof(header) + i * sizeof(entry), sizeof(entry));
    if (text(entry.key) == soname) paths.emplace_back(text(entry.value));
  }
  return paths;
}

Result<std::string> FindDriver(const DriverPlaces& places, const Installation& installation) {
  if (!places.named.empty()) {
    if (!IsLoadable(places.named)) {
      return MakeError(ErrorCode::kNotFound,
                       fmt::format("CUPOLA_DRIVER={} is not a shared object of this machine: name "
                                   "a libcuda.so.1, or unset it", places.named));
    }
    if (!SameFile(places.named, fs::path(installation.sim_folder) / kDriverName)) {
      return fs::absolute(places.named).lexically_normal().string();
    }
  }
  std::vector<std::string> candidates;
  for (const std::string& folder : SplitPath(places.library_path)) {
    candidates.push_back(folder + "/" + kDriverName);
  }
  for (std::string& path : LoaderCacheEntries(ReadWholeFile(places.cache_file), kDriverName)) {
    candidates.push_back(std::move(path));
  }
  for (const std::string& folder : places.folders) candidates.push_back(folder + "/" + kDriverName);
  for (const std::string& path : candidates) {
    if (IsDriver(path, installation)) return fs::absolute(path).lexically_normal().string();
  }
  return MakeError(ErrorCode::kNotFound,
                   "no CUDA driver found (libcuda.so.1: not in LD_LIBRARY_PATH, ld.so.cache or the "
                   "usual folders)");
}

Result<DeviceChoice> ChooseDevice(const std::string& device, const DriverPlaces& places,
                                  const Installation& installation) {
  const bool has_sim = !installation.sim_folder.empty();
  const std::string sim_driver = installation.sim_folder + "/" + kDriverName;
  if (device == "sim") {
    if (has_sim) return DeviceChoice{.driver = sim_driver, .simulated = true};
    return MakeError(ErrorCode::kNotFound,
                     fmt::format("no simulated device: there is no sim/{} beside {}; build it "
                                 "(cmake --build), or use --device gpu", kDriverName,
                                 installation.preload));
  }
  // In a program that `cupola run` started on the simulated device, "auto" means the simulated device too.
  const bool named_sim = has_sim && SameFile(places.named, sim_driver);
  if (device == "auto" && named_sim) return DeviceChoice{.driver = sim_driver, .simulated = true};
  Result<std::string> driver = FindDriver(places, installation);
  const bool named = !places.named.empty();
  if (device == "gpu") {
    if (driver) return DeviceChoice{.driver = *driver, .simulated = false};
    return MakeError(
        ErrorCode::kNotFound,
        driver.error().message + (named && !named_sim
                                      ? ""
                                      : "; install NVIDIA's driver, set CUPOLA_DRIVER to its "
                                        "path, or use --device sim"));
  }
  if (named && !driver) return std::move(driver).error();
  if (driver && (named || HasDeviceFile())) return DeviceChoice{*driver, false};
  if (has_sim) return DeviceChoice{.driver = sim_driver, .simulated = true};
  return MakeError(
      ErrorCode::kNotFound,
      fmt::format("nothing to run CUDA on: {}, and there is no simulated device beside "
                  "{}; install NVIDIA's driver, or build the simulated device (cmake "
                  "--build)",
                  driver ? "there is a CUDA driver but no NVIDIA device"
                         : "no CUDA driver (libcuda.so.1) was found",
                  installation.preload));
}

}  // namespace cupola
