// What the board of the strict driver's process says of it. Any thread.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "sched/board/yield_protocol.h"

namespace strict {

/// This process's place on the board; null: there is none.
inline const cupola::sched::BoardSlot* Place() {
  static const cupola::sched::BoardSlot* const place = [] {
    const char* const path = std::getenv("CUPOLA_BOARD");
    const int fd = path != nullptr ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void* const memory =
        mmap(nullptr, cupola::sched::kBoardBytes, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return memory != MAP_FAILED ? &cupola::sched::BoardView(memory).slot(0) : nullptr;
  }();
  return place;
}

/// Whether nothing that it has launched stops.
inline bool GoesOn() { return Place() != nullptr && Place()->not_now.load() != 0; }

/// Whether it is asked.
inline bool IsAsked() { return Place() != nullptr && Place()->yield_requests.load() != 0; }

}  // namespace strict
