// Stands in for ptxas while the tests run, most of which have the same PTX compiled as in the run before. What ptxas
// makes depends on the text, the options and ptxas itself: a cubin is kept in a folder under the digest of these, and
// copied from there the next time. Not kept is what calls make that fail, or say something about their files, or are of
// another form than "ptxas OPTIONS FILE.ptx -o CUBIN". Several builds may use one folder at once. Where it cannot be
// written, nothing is kept.
//
// Set by CMakeLists.txt: CUPOLA_REAL_PTXAS; CUPOLA_REAL_PTXAS_DIGEST, the SHA-256 of that file, and
// CUPOLA_REAL_PTXAS_SIZE and _TIME (seconds), by which a ptxas that was replaced since then is known; CUPOLA_KEPT_CUBINS,
// the folder.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "device/compiler/store/sha256.h"

namespace cupola {
namespace {

constexpr char kPtxas[] = CUPOLA_REAL_PTXAS;
constexpr char kFolder[] = CUPOLA_KEPT_CUBINS;
constexpr uintmax_t kMostBytes = 512 << 20;
constexpr std::chrono::hours kUnused{14 * 24};  // after which a file is removed

struct Call {
  std::string ptx, cubin;  // paths
  std::string digest;      // of all that decides what the cubin is
};

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>(in), {}};
}

// The call, if it is of the form whose cubin can be kept.
std::optional<Call> Understand(int count, char** words) {
  Call call;
  store::Sha256 digest;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "-g" || word == "--device-debug") return std::nullopt;  // the cubin names the file with the text
    if (word.starts_with("-optf") || word.starts_with("--options-file")) return std::nullopt;  // options of a file
    if (word == "-o" && i + 1 < count && call.cubin.empty()) {
      call.cubin = words[++i];
    } else if (word.starts_with("-") && word.size() > 1) {
      // The value of an option that is a word of its own ends the search below.
      digest.Add(word);
      digest.Add(std::string_view("", 1));
    } else if (word.ends_with(".ptx") && call.ptx.empty()) {
      call.ptx = word;
    } else {
      return std::nullopt;
    }
  }
  struct stat ptxas;
  if (call.ptx.empty() || call.cubin.empty() || stat(kPtxas, &ptxas) != 0) return std::nullopt;
  if (ptxas.st_size != CUPOLA_REAL_PTXAS_SIZE || ptxas.st_mtim.tv_sec != CUPOLA_REAL_PTXAS_TIME) return std::nullopt;
  const std::optional<std::string> text = ReadFile(call.ptx);
  if (!text) return std::nullopt;
  digest.Add(CUPOLA_REAL_PTXAS_DIGEST);
  digest.Add(*text);
  call.digest = store::HexOf(digest.Finish());
  return call;
}

bool WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  return out.good();
}

std::string KeptPath(const Call& call) { return std::string(kFolder) + "/" + call.digest; }

// What ptxas says to its standard output and standard error, and what it makes. A kept file has the lengths of the
// first two, and then all three.
struct Outcome {
  std::string said[2], cubin;
};

void Say(const Outcome& outcome) {
  std::fwrite(outcome.said[0].data(), 1, outcome.said[0].size(), stdout);
  std::fwrite(outcome.said[1].data(), 1, outcome.said[1].size(), stderr);
}

// True if there is a kept cubin, which is now where the caller wants it.
bool TakeKept(const Call& call) {
  const std::string path = KeptPath(call);
  const std::optional<std::string> kept = ReadFile(path);
  uint64_t lengths[2];
  if (!kept || kept->size() < sizeof lengths) return false;
  std::memcpy(lengths, kept->data(), sizeof lengths);
  if (lengths[0] + lengths[1] >= kept->size() - sizeof lengths) return false;
  Outcome outcome;
  size_t at = sizeof lengths;
  for (size_t i = 0; i < 2; at += lengths[i++]) outcome.said[i] = kept->substr(at, lengths[i]);
  if (!WriteFile(call.cubin, kept->substr(at))) return false;
  Say(outcome);
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // for Trim
  return true;
}

// Removes what nobody has used for long, and what was used least lately where all of it takes too much room. Others may
// do the same at once, so that a file which is gone is no failure.
void Trim() {
  namespace fs = std::filesystem;
  struct Kept {
    fs::file_time_type used;
    uintmax_t bytes;
    fs::path path;
  };
  std::vector<Kept> all;
  std::error_code error;
  for (fs::directory_iterator at(kFolder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const fs::file_time_type used = at->last_write_time(gone);
    const uintmax_t bytes = gone ? 0 : at->file_size(gone);
    if (!gone) all.push_back({used, bytes, at->path()});
  }
  std::ranges::sort(all, std::greater{}, &Kept::used);
  const auto oldest = fs::file_time_type::clock::now() - kUnused;
  uintmax_t bytes = 0;
  for (const Kept& kept : all) {
    bytes += kept.bytes;
    if (kept.used < oldest || bytes > kMostBytes) fs::remove(kept.path, error);
  }
}

void Keep(const Call& call, const Outcome& outcome) {
  if (outcome.cubin.empty()) return;
  const uint64_t lengths[] = {outcome.said[0].size(), outcome.said[1].size()};
  std::string kept(sizeof lengths, 0);
  std::memcpy(kept.data(), lengths, sizeof lengths);
  for (const std::string& said : outcome.said) {
    if (said.find(call.ptx) != std::string::npos || said.find(call.cubin) != std::string::npos) return;
    kept += said;
  }
  // Another container that uses the folder may have a process of the same number.
  std::error_code error;
  std::filesystem::create_directories(kFolder, error);
  const std::string path = KeptPath(call);
  std::string fresh = path + ".XXXXXX";
  const int file = mkostemp(fresh.data(), O_CLOEXEC);
  if (file < 0) return;
  fchmod(file, 0644);
  close(file);
  if (!WriteFile(fresh, kept + outcome.cubin) || rename(fresh.c_str(), path.c_str()) != 0) unlink(fresh.c_str());
  if (call.digest.starts_with("0")) Trim();  // one time in sixteen
}

[[noreturn]] void Become(char** words) {
  words[0] = const_cast<char*>(kPtxas);
  execv(kPtxas, words);
  std::perror(kPtxas);
  _exit(127);
}

// Runs ptxas, which ends with this process, passes on what it says and keeps what it makes. Returns its exit code.
int Compile(const Call& call, char** words) {
  const int said[2] = {memfd_create("output", MFD_CLOEXEC), memfd_create("errors", MFD_CLOEXEC)};
  if (said[0] < 0 || said[1] < 0) Become(words);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) Become(words);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(said[0], STDOUT_FILENO);
    dup2(said[1], STDERR_FILENO);
    Become(words);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Outcome outcome;
  for (size_t i = 0; i < 2; ++i) outcome.said[i] = ReadFile("/proc/self/fd/" + std::to_string(said[i])).value_or("");
  Say(outcome);
  if (WIFSIGNALED(status)) {
    std::fflush(stdout);
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
  outcome.cubin = ReadFile(call.cubin).value_or("");
  Keep(call, outcome);
  return 0;
}

}  // namespace
}  // namespace cupola

int main(int count, char** words) {
  const auto call = cupola::Understand(count, words);
  if (!call) cupola::Become(words);
  if (cupola::TakeKept(*call)) return 0;
  return cupola::Compile(*call, words);
}
