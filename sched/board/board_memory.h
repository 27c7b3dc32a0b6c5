// BoardMemory: the shared memory of one board, as a file descriptor and a mapping. The daemon creates it; clients, and
// a daemon that takes a board over, map it. Its size is sealed, so that no process can shrink it under another (SIGBUS)
// or grow it. It uses only libc, no exceptions and no allocation of its own. Creating and destroying it is not
// thread-safe; any thread may use the mapping.
#pragma once

#include <sys/types.h>

#include "sched/board/yield_protocol.h"

namespace cupola::sched {

class BoardMemory {
 public:
  BoardMemory() = default;
  BoardMemory(BoardMemory&& other) noexcept { *this = static_cast<BoardMemory&&>(other); }
  BoardMemory& operator=(BoardMemory&& other) noexcept;
  ~BoardMemory() { Close(); }

  /// Makes a new board for the GPU `uuid`. On failure the result is empty and errno is set (memfd_create(2), mmap(2)).
  static BoardMemory Create(const char* uuid);

  /// Maps the board behind `fd` and takes over the descriptor, on failure too. Accepts only a memfd of the right size
  /// that can neither shrink nor grow and whose board header has this version. Else the result is empty, and `why` is a
  /// phrase that says why.
  static BoardMemory Map(int fd, const char** why);

  explicit operator bool() const { return static_cast<bool>(view_); }
  BoardView view() const { return view_; }
  /// The board's descriptor; -1 where the program has closed it, since its number may now be another file's.
  int fd() const;
  /// The file's inode number, which tells boards apart.
  ino_t inode() const { return inode_; }

  /// Unmaps and closes. The descriptor is closed only if it still is the board's, because programs often close
  /// descriptors that they never opened.
  void Close();

 private:
  BoardView view_;
  int fd_ = -1;
  ino_t inode_ = 0;
};

}  // namespace cupola::sched
