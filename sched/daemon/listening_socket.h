// ListeningSocket: the arbiter's Unix socket and its place, which others may take away: the end of a login empties
// /run/user/UID, a cleaner /tmp. Owned by the server; one thread.
#pragma once

#include <string>

#include <sys/types.h>

#include "base/result.h"
#include "sched/board/socket_path.h"

namespace cupola::sched {

class ListeningSocket {
 public:
  /// Listens at the first of the places whose folder's parent is there. Makes the last folder of the path where it
  /// does not exist (0700), and takes a place only if that folder is safe. A socket that nobody answers at is
  /// removed. `admit_others`: users besides this one may connect (0666, else 0600).
  /// kExhausted: another daemon is there, or answers in another of the places; kInvalidArgument, kIo: one sentence
  /// says what is wrong.
  static Result<ListeningSocket> Open(const ArbiterPlaces& places, bool admit_others);

  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;
  /// Closes, and removes the socket if it is its own.
  ~ListeningSocket() { Close(); }

  /// Whether the socket in its place is this one, and the lock beside it.
  bool IsInPlace() const;
  /// Another socket at the place, or where that is gone for good at another of the places; the lock is kept where it
  /// is still in place. This one is to be closed afterwards; it removes nothing then. Errors as of Open: kExhausted
  /// says that another daemon has the place, the others may pass.
  Result<ListeningSocket> OpenAgain();

  /// Removes it from its place if it is its own, for a daemon that ends without its destructors. Any thread.
  void Remove() const;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

  /// Lets users besides this one connect, or not.
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
  FileId id_;  ///< of the file at path_. While fd_ is open no other can have it
};

}  // namespace cupola::sched
