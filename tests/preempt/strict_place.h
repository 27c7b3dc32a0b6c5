// What the strict driver reads on the board about its own process. Any thread.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "base/settings/variables.h"
#include "sched/board/yield_protocol.h"

namespace strict {

/// This process's board slot; null: there is no board.
inline const cupola::sched::BoardSlot* Place() {
  static const cupola::sched::BoardSlot* const place = [] {
    const char* const path = cupola::settings::Text("CUPOLA_BOARD");
    const int fd = path != nullptr ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void* const memory =
        mmap(nullptr, cupola::sched::kBoardBytes, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return memory != MAP_FAILED ? &cupola::sched::BoardView(memory).slot(0) : nullptr;
  }();
  return place;
}

/// Whether nobody may ask this process to yield (BeginNotNow), so that no launch of it stops.
inline bool GoesOn() { return Place() != nullptr && Place()->not_now.load() != 0; }

/// Whether this process is asked to yield.
inline bool IsAsked() { return Place() != nullptr && Place()->yield_requests.load() != 0; }

}  // namespace strict
