// BoardMemory: the shared memory of one board, as a file descriptor and a mapping. Its size is sealed:
// no process can shrink it under another (SIGBUS) or grow it. libc only, no exceptions, no allocation
// of its own. Not thread-safe to create or destroy; the mapping is for all threads.
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

  /// Makes a new board for the GPU `uuid`; empty and errno set on failure (memfd_create(2), mmap(2)).
  static BoardMemory Create(const char* uuid);

  /// Maps the board behind `fd` and takes the descriptor over, also on failure. Accepts only a memfd
  /// of the right size that can neither shrink nor grow and has a board's head of this version; else
  /// empty, with `why` a phrase.
  static BoardMemory Map(int fd, const char** why);

  explicit operator bool() const { return static_cast<bool>(view_); }
  BoardView view() const { return view_; }
  /// The board's descriptor; -1 where the program has closed it, and its number may be another file's.
  int fd() const;
  /// The file's number, which tells boards apart.
  ino_t inode() const { return inode_; }

  /// Unmaps and closes. The descriptor is closed only if it still is the board's: programs that
  /// close descriptors they never opened are common.
  void Close();

 private:
  BoardView view_;
  int fd_ = -1;
  ino_t inode_ = 0;
};

}  // namespace cupola::sched
