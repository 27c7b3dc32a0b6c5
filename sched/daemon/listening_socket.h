// ListeningSocket: the daemon's Unix socket, its place in the file system, and the lock file beside it. Others may
// remove the socket from its place: the end of a login empties /run/user/UID, and a cleaner empties /tmp. The Server
// owns it; one thread.
#pragma once

#include <string>

#include <sys/types.h>

#include "base/result.h"
#include "sched/board/socket_path.h"

namespace cupola::sched {

class ListeningSocket {
 public:
  /// Listens at the first of the places whose folder's parent folder exists. Makes the last folder of the path where it
  /// does not exist (mode 0700), and takes a place only if that folder is safe. Removes a socket at which no process
  /// answers. `admit_others`: users besides this one may connect (mode 0666, else 0600). Errors: kExhausted: another
  /// daemon is there, or answers at another of the places; kInvalidArgument and kIo: one sentence says what is wrong.
  static Result<ListeningSocket> Open(const ArbiterPlaces& places, bool admit_others);

  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;
  /// Closes the socket, and removes it from its place if the socket there is this one.
  ~ListeningSocket() { Close(); }

  /// Whether this socket and its lock file are still in their places.
  bool IsInPlace() const;
  /// Opens another socket at the same place or, where that place is gone for good, at another of the places. The lock
  /// is kept where its file is still in place. The caller then closes this socket, which removes nothing. Errors are
  /// those of Open: kExhausted says that another daemon has the place; the other errors may pass.
  Result<ListeningSocket> OpenAgain();

  /// Removes the socket from its place if the socket there is this one. For a daemon that ends without its destructors.
  /// Any thread.
  void Remove() const;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

  /// Lets users besides this one connect, or forbids it.
  void AdmitOthers(bool admit);

 private:
  struct FileId {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const FileId&) const = default;
  };

  ListeningSocket() = default;
  static Result<ListeningSocket> OpenAt(const std::string& path, bool admit_others, int lock);
  static FileId IdOf(const std::string& path);
  bool HasSocketInPlace() const;
  bool HasLockInPlace() const;
  void Close();

  ArbiterPlaces places_;
  std::string path_;
  int fd_ = -1;
  int lock_ = -1;
  bool admits_others_ = false;
  FileId id_;  ///< of the file at path_; no other file can have this identity while fd_ is open
};

}  // namespace cupola::sched
