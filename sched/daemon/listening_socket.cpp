#include "sched/daemon/listening_socket.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

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

Error Io(const std::string& path, const char* what) {
  return MakeError(ErrorCode::kIo, fmt::format("{}: {}", what, std::strerror(errno)),
                   Location{.file = path});
}

/// Makes the folder, or looks whether it is safe: nobody but its owner, who is this user or root, may
/// put files there, or it is a sticky folder like /tmp.
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

/// Removes what a dead daemon left at `path`. An error when something else is there or answers.
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

/// The lock file beside the socket, held as long as the daemon lives. Two daemons that start together
/// cannot both take a stale socket away.
Result<int> TakeLock(const std::string& path) {
  const std::string file = path + ".lock";
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0) return Io(file, "cannot open the lock file");
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
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

}  // namespace

Result<ListeningSocket> ListeningSocket::Open(const std::string& path, bool admit_others) {
  if (path.empty() || path[0] != '/' || path.size() >= kSocketPathBytes) {
    return MakeError(ErrorCode::kInvalidArgument,
                     fmt::format("the path of the socket must be absolute and shorter than {} "
                                 "bytes",
                                 kSocketPathBytes),
                     Location{.file = path});
  }
  const size_t slash = path.rfind('/');
  if (const Status folder = PrepareFolder(path.substr(0, slash == 0 ? 1 : slash)); !folder) {
    return folder.error();
  }
  Result<int> lock = TakeLock(path);
  if (!lock) return std::move(lock).error();
  if (Status stale = RemoveStale(path); !stale) {
    close(*lock);
    return stale.error();
  }
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un address = AddressOf(path);
  // Nobody connects before listen(2), so the mode is right when the first one may.
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(path.c_str(), admit_others ? 0666 : 0600) != 0 || listen(fd, 512) != 0) {
    Error error = Io(path, "cannot listen");
    if (fd >= 0) close(fd);
    close(*lock);
    return error;
  }
  return ListeningSocket(fd, *lock, path);
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : fd_(other.fd_), lock_(other.lock_), path_(std::move(other.path_)) {
  other.fd_ = -1;
  other.lock_ = -1;
}

ListeningSocket::~ListeningSocket() {
  if (fd_ < 0) return;
  close(fd_);
  Remove();
  close(lock_);  // the file stays: who has it open may be about to lock it
}

void ListeningSocket::Remove() const { unlink(path_.c_str()); }

void ListeningSocket::AdmitOthers(bool admit) { chmod(path_.c_str(), admit ? 0666 : 0600); }

}  // namespace cupola::sched
