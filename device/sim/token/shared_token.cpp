#include "device/sim/token/shared_token.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

namespace cupola::sim {
namespace {

constexpr int kLockTries = 5000;  // tries to lock the file, one each millisecond

/// A file descriptor that closes itself. It first unlocks the file, because a mapping would keep
/// the lock.
struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value < 0) return;
    flock(value, LOCK_UN);
    close(value);
  }
};

Error Failure(ErrorCode code, const std::string& path, const std::string& what) {
  return MakeError(code, what, {.file = path});
}
Error SystemFailure(const std::string& path, const char* what) {
  return Failure(ErrorCode::kIo, path, std::string(what) + ": " + std::strerror(errno));
}

/// Reads the id of the machine's start. If it cannot be read, the id begins with '-'.
void ReadBootId(char (&id)[40]) {
  std::memset(id, 0, sizeof(id));
  const Descriptor file{open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)};
  if (file.value < 0 || read(file.value, id, 36) != 36) std::memset(id, '-', 1);
}

/// Makes a mutex that threads of all processes may lock, and that a thread's death frees (robust).
void InitMutex(pthread_mutex_t* mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

/// Fills a file that nobody uses yet. The magic is written last, so a process that is killed before
/// that leaves a file that the next process fills again.
void Fill(SharedToken* shared, const SharedToken::Header& header) {
  reinterpret_cast<std::atomic<uint64_t>*>(&shared->header.magic)->store(0);
  std::memset(static_cast<void*>(shared), 0, sizeof(*shared));
  InitMutex(&shared->lock);
  for (pthread_mutex_t& turn : shared->turns) InitMutex(&turn);
  for (auto& waits : shared->waits_for) waits = SharedToken::kNone;
  shared->next_ticket = 1;
  SharedToken::Header last = header;
  last.magic = 0;
  shared->header = last;
  reinterpret_cast<std::atomic<uint64_t>*>(&shared->header.magic)->store(header.magic);
}

Status CheckOwner(const std::string& path, const struct stat& about) {
  if (!S_ISREG(about.st_mode)) return Failure(ErrorCode::kDamaged, path, "is not a regular file");
  if (about.st_uid != geteuid()) {
    return Failure(ErrorCode::kIo, path, "belongs to another user");
  }
  return {};
}

/// True when the mapped file can be used as it is, false when it must be filled first; an error
/// when it must not be used.
Result<bool> Check(const std::string& path, const SharedToken& shared,
                   const SharedToken::Header& mine) {
  const SharedToken::Header& header = shared.header;
  if (header.magic == 0) return false;
  if (header.magic != mine.magic) {
    return Failure(ErrorCode::kDamaged, path, "is not a token of the simulated device");
  }
  if (header.version != mine.version || header.bytes != mine.bytes) {
    return Failure(ErrorCode::kUnsupported, path,
                   "is a token of version " + std::to_string(header.version) + " and " +
                       std::to_string(header.bytes) + " bytes, not " +
                       std::to_string(mine.version) + " and " + std::to_string(mine.bytes));
  }
  // The locks of an earlier start of the machine, or of the file of which this one is a copy,
  // belong to nobody. So such a file is filled anew.
  return std::memcmp(header.boot_id, mine.boot_id, sizeof(mine.boot_id)) == 0 &&
         header.inode == mine.inode;
}

}  // namespace

Result<TokenMapping> TokenMapping::Open(const std::string& path) {
  // The name may be that of anything. With O_NONBLOCK the call returns also for a FIFO, which
  // CheckOwner then refuses.
  const Descriptor file{
      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)};
  if (file.value < 0) return SystemFailure(path, "cannot be opened");
  // Only one process at a time makes or checks the file. The lock of a process that dies here is
  // freed.
  const timespec pause{0, 1'000'000};
  for (int tries = 0; flock(file.value, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || tries == kLockTries) {
      return SystemFailure(path, "cannot be locked");
    }
    nanosleep(&pause, nullptr);
  }
  struct stat about{};
  if (fstat(file.value, &about) != 0) return SystemFailure(path, "cannot be read");
  if (Status owner = CheckOwner(path, about); !owner) return owner.error();
  constexpr off_t kBytes = sizeof(SharedToken);
  if (about.st_size != 0 && about.st_size < static_cast<off_t>(sizeof(SharedToken::Header))) {
    return Failure(ErrorCode::kDamaged, path, "is too short for a token of the simulated device");
  }
  if (about.st_size == 0) {
    errno = posix_fallocate(file.value, 0, kBytes);  // it returns the error and does not set errno
    if (errno != 0) return SystemFailure(path, "cannot be made");
  }
  SharedToken::Header mine{SharedToken::kMagic, SharedToken::kVersion, kBytes, {}, about.st_ino};
  ReadBootId(mine.boot_id);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.value, 0);
  if (memory == MAP_FAILED) return SystemFailure(path, "cannot be mapped");
  TokenMapping mapping(static_cast<SharedToken*>(memory));
  // Of a file that is too short, only the header may be read; the rest of the mapping has no
  // memory.
  Result<bool> is_usable = Check(path, *mapping, mine);
  if (!is_usable) return is_usable.error();
  if (about.st_size != 0 && about.st_size != kBytes) {
    return Failure(ErrorCode::kDamaged, path, "is cut short or too long");
  }
  if (!is_usable.value()) Fill(mapping.get(), mine);
  return mapping;
}

TokenMapping::~TokenMapping() {
  if (shared_ != nullptr) munmap(shared_, sizeof(*shared_));
}

Result<TokenCounters> ReadTokenTotals(const std::string& path) {
  auto mapping = TokenMapping::Open(path);
  if (!mapping) return mapping.error();
  const SharedToken::Totals& totals = mapping.value()->totals;
  return TokenCounters{totals.slices,     totals.handovers, totals.waited_ns, totals.held_ns,
                       totals.recoveries, totals.evictions, totals.unshared};
}

std::string DefaultTokenPath() {
  const char* folder = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
  return std::string(folder) + "/cupola-sim-token-v" + std::to_string(SharedToken::kVersion) + "-" +
         std::to_string(geteuid());
}

}  // namespace cupola::sim
