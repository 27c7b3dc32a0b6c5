// ListeningSocket: the arbiter's Unix socket and its place. Owned by the server; one thread.
#pragma once

#include <string>

#include "base/result.h"

namespace cupola::sched {

class ListeningSocket {
 public:
  /// Listens at `path`. Makes the last folder of the path where it does not exist (0700), and takes
  /// a default place only if that folder is this user's alone. A socket that nobody answers at is
  /// removed. `admit_others`: users besides this one may connect (0666, else 0600).
  /// kExhausted: another daemon is there; kInvalidArgument, kIo: one sentence says what is wrong.
  static Result<ListeningSocket> Open(const std::string& path, bool admit_others);

  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  /// Closes and removes the socket.
  ~ListeningSocket();

  /// Removes it from its place, for a daemon that ends without its destructors. Any thread.
  void Remove() const;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

  /// Lets users besides this one connect, or not.
  void AdmitOthers(bool admit);

 private:
  ListeningSocket(int fd, int lock, std::string path)
      : fd_(fd), lock_(lock), path_(std::move(path)) {}

  int fd_;
  int lock_;
  std::string path_;
};

}  // namespace cupola::sched
