#include "sched/board/board_memory.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cupola::sched {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

void* MapShared(int fd) {
  void* memory = mmap(nullptr, kBoardBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

/// Moves the descriptor above the low numbers, which programs count on and close in bulk.
int MoveUp(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, 200);
  if (moved < 0) return fd;
  close(fd);
  return moved;
}

}  // namespace

BoardMemory& BoardMemory::operator=(BoardMemory&& other) noexcept {
  if (this == &other) return *this;
  Close();
  view_ = other.view_;
  fd_ = other.fd_;
  inode_ = other.inode_;
  other.view_ = BoardView();
  other.fd_ = -1;
  return *this;
}

BoardMemory BoardMemory::Create(const char* uuid) {
  BoardMemory board;
  int fd = memfd_create("cupola-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return board;
  struct stat facts {};
  if (ftruncate(fd, kBoardBytes) != 0 || fcntl(fd, F_ADD_SEALS, kSeals) != 0 ||
      fstat(fd, &facts) != 0) {
    close(fd);
    return board;
  }
  void* memory = MapShared(fd);
  if (memory == nullptr) {
    close(fd);
    return board;
  }
  board.fd_ = MoveUp(fd);
  board.inode_ = facts.st_ino;
  board.view_ = BoardView(memory);  // a new memfd is all zero: every slot is free
  BoardHeader& header = board.view_.header();
  std::strncpy(header.gpu_uuid, uuid, sizeof(header.gpu_uuid) - 1);
  header.version.store(kBoardVersion);
  header.slots.store(kBoardSlots);
  for (uint32_t i = 0; i < kBoardSlots; ++i) board.view_.slot(i).gate.store(1);
  header.magic.store(kBoardMagic);
  return board;
}

BoardMemory BoardMemory::Map(int fd, const char** why) {
  BoardMemory board;
  struct stat facts {};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW)) {
    *why = "not a board: its size is not sealed";
  } else if (fstat(fd, &facts) != 0 || facts.st_size != static_cast<off_t>(kBoardBytes)) {
    *why = "not a board of this version: its size differs";
  } else if (void* memory = MapShared(fd); memory == nullptr) {
    *why = "the board cannot be mapped";
  } else {
    const BoardHeader& header = BoardView(memory).header();
    if (header.magic.load() == kBoardMagic && header.version.load() == kBoardVersion &&
        header.slots.load() == kBoardSlots) {
      board.fd_ = MoveUp(fd);
      board.inode_ = facts.st_ino;
      board.view_ = BoardView(memory);
      return board;
    }
    munmap(memory, kBoardBytes);
    *why = "not a board of this version";
  }
  close(fd);
  return board;
}

int BoardMemory::fd() const {
  struct stat facts {};
  const bool is_ours = fd_ >= 0 && fstat(fd_, &facts) == 0 && facts.st_ino == inode_ &&
                       facts.st_size == static_cast<off_t>(kBoardBytes);
  return is_ours ? fd_ : -1;
}

void BoardMemory::Close() {
  if (view_) munmap(view_.memory(), kBoardBytes);
  view_ = BoardView();
  if (fd() >= 0) close(fd_);
  fd_ = -1;
}

}  // namespace cupola::sched
