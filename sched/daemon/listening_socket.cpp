#include "sched/daemon/listening_socket.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>

#include "sched/board/socket_path.h"

namespace cupola::sched {
namespace {

constexpr char kLockSuffix[] = ".lock";

Error Io(const std::string& path, const char* what) {
  return MakeError(ErrorCode::kIo, fmt::format("{}: {}", what, std::strerror(errno)),
                   Location{.file = path});
}

/// Makes the folder, or checks that it is safe: it belongs to this user or root, and either nobody but its owner may
/// put files there or it is a sticky folder like /tmp.
Status PrepareFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) return Io(folder, "cannot make the folder of the socket");
  struct stat facts {};
  if (lstat(folder.c_str(), &facts) != 0) return Io(folder, "cannot look at the socket's folder");
  if (!S_ISDIR(facts.st_mode)) {
    return MakeError(ErrorCode::kInvalidArgument, "is no folder", Location{.file = folder});
  }
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the folder of the socket belongs to another user", Location{.file = folder});
  }
  if ((facts.st_mode & 0022) != 0 && (facts.st_mode & S_ISVTX) == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "other users may write to the folder of the socket; take that right away "
                     "(chmod go-w) or choose another folder with --socket",
                     Location{.file = folder});
  }
  return {};
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  return address;
}

/// Removes the socket that a dead daemon left at `path`. An error where something else is there or a process answers.
Status RemoveStale(const std::string& path) {
  struct stat facts {};
  if (lstat(path.c_str(), &facts) != 0) {
    if (errno == ENOENT) return {};
    return Io(path, "cannot look at the socket's place");
  }
  if (!S_ISSOCK(facts.st_mode)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "something that is no socket is in its place; remove it or choose another "
                     "path with --socket",
                     Location{.file = path});
  }
  const int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un address = AddressOf(path);
  const int failed = connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int reason = failed != 0 ? errno : 0;
  close(probe);
  if (reason == ECONNREFUSED) {
    if (unlink(path.c_str()) == 0 || errno == ENOENT) return {};
    return Io(path, "cannot remove the socket that a dead daemon left");
  }
  return MakeError(ErrorCode::kExhausted, "another daemon answers here",
                   Location{.file = path});
}

/// Locks the lock file beside the socket. The daemon holds the lock as long as it lives, so that two daemons that start
/// together cannot both take a stale socket away.
Result<int> TakeLock(const std::string& path) {
  const std::string file = path + kLockSuffix;
  for (;;) {
    const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) return Io(file, "cannot open the lock file");
    struct stat taken {};
    struct stat there {};
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      const bool is_there = fstat(fd, &taken) == 0 && lstat(file.c_str(), &there) == 0 &&
                            taken.st_dev == there.st_dev && taken.st_ino == there.st_ino;
      if (!is_there) {  // the file was removed before it was locked
        close(fd);
        continue;
      }
      const std::string pid = std::to_string(getpid()) + "\n";
      if (ftruncate(fd, 0) == 0) (void)!pwrite(fd, pid.data(), pid.size(), 0);
      return fd;
    }
    char owner[32] = {};
    const ssize_t size = pread(fd, owner, sizeof(owner) - 1, 0);
    close(fd);
    const long pid = size > 0 ? std::strtol(owner, nullptr, 10) : 0;
    return MakeError(ErrorCode::kExhausted,
                     fmt::format("another cupola serve{} is in charge here; stop it first, or choose "
                                 "another socket with --socket",
                                 pid > 0 ? fmt::format(" (process {})", pid) : ""),
                     Location{.file = path});
  }
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return path.substr(0, slash == 0 ? 1 : slash);
}

bool IsFolder(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

/// Whether a daemon of this user or root answers at `path`.
bool Answers(const char* path) {
  const int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un address = AddressOf(path);
  const bool answers =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && IsTrustedPeer(probe);
  close(probe);
  return answers;
}

/// The first place whose folder can be made. The last place is taken without a check.
const char* PlaceToTake(const ArbiterPlaces& places) {
  for (uint32_t i = 0; i + 1 < places.count; ++i) {
    if (IsFolder(FolderOf(FolderOf(places.paths[i])))) return places.paths[i];
  }
  return places.paths[places.count - 1];
}

}  // namespace

Result<ListeningSocket> ListeningSocket::OpenAt(const std::string& path, bool admit_others, int lock) {
  if (Status stale = RemoveStale(path); !stale) return stale.error();
  ListeningSocket made;
  made.fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un address = AddressOf(path);
  if (made.fd_ < 0 || bind(made.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Io(path, "cannot listen");
  }
  made.path_ = path;
  made.id_ = IdOf(path);
  made.admits_others_ = admit_others;
  // Nobody can connect before listen(2), so the mode is right before the first peer can connect.
  if (made.id_ == FileId() || chmod(path.c_str(), admit_others ? 0666 : 0600) != 0 || listen(made.fd_, 512) != 0) {
    return Io(path, "cannot listen");
  }
  made.lock_ = lock;
  return made;
}

Result<ListeningSocket> ListeningSocket::Open(const ArbiterPlaces& places, bool admit_others) {
  const std::string path = PlaceToTake(places);
  for (uint32_t i = 0; i < places.count; ++i) {
    if (path == places.paths[i] || !Answers(places.paths[i])) continue;
    return MakeError(ErrorCode::kExhausted,
                     "another cupola serve is in charge here; stop it first, or choose another socket with --socket",
                     Location{.file = places.paths[i]});
  }
  if (const Status folder = PrepareFolder(FolderOf(path)); !folder) return folder.error();
  Result<int> lock = TakeLock(path);
  if (!lock) return std::move(lock).error();
  Result<ListeningSocket> made = OpenAt(path, admit_others, *lock);
  if (!made) {
    close(*lock);
  } else {
    made->places_ = places;
  }
  return made;
}

Result<ListeningSocket> ListeningSocket::OpenAgain() {
  if (!HasLockInPlace()) {
    Remove();  // otherwise Open would find this daemon's own socket there
    return Open(places_, admits_others_);
  }
  Result<ListeningSocket> made = OpenAt(path_, admits_others_, lock_);
  if (!made) return made;
  made->places_ = places_;
  lock_ = -1;
  return made;
}

ListeningSocket::FileId ListeningSocket::IdOf(const std::string& path) {
  struct stat facts {};
  return lstat(path.c_str(), &facts) == 0 ? FileId{facts.st_dev, facts.st_ino} : FileId{};
}

bool ListeningSocket::HasSocketInPlace() const {
  return fd_ >= 0 && id_ != FileId() && IdOf(path_) == id_;
}

bool ListeningSocket::HasLockInPlace() const {
  struct stat facts {};
  return fstat(lock_, &facts) == 0 && IdOf(path_ + kLockSuffix) == FileId{facts.st_dev, facts.st_ino};
}

bool ListeningSocket::IsInPlace() const { return HasSocketInPlace() && HasLockInPlace(); }

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept { *this = std::move(other); }

ListeningSocket& ListeningSocket::operator=(ListeningSocket&& other) noexcept {
  if (this == &other) return *this;
  Close();
  places_ = other.places_;
  path_ = std::move(other.path_);
  fd_ = std::exchange(other.fd_, -1);
  lock_ = std::exchange(other.lock_, -1);
  admits_others_ = other.admits_others_;
  id_ = other.id_;
  return *this;
}

void ListeningSocket::Close() {
  Remove();
  if (fd_ >= 0) close(fd_);
  if (lock_ >= 0) close(lock_);  // the lock file stays, since a process that has it open may be about to lock it
  fd_ = lock_ = -1;
}

void ListeningSocket::Remove() const {
  if (HasSocketInPlace()) unlink(path_.c_str());
}

void ListeningSocket::AdmitOthers(bool admit) {
  admits_others_ = admit;
  if (HasSocketInPlace()) chmod(path_.c_str(), admit ? 0666 : 0600);
}

}  // namespace cupola::sched
