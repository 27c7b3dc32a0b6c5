#include "sched/daemon/surroundings.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "sched/board/yield_protocol.h"
#include "sched/daemon/process_facts.h"

namespace cupola::sched {

uint64_t Surroundings::NowNs() const { return BoardClockNs(); }

std::optional<uint64_t> Surroundings::StartOf(uint32_t pid) const { return ProcessStart(pid); }

bool Surroundings::HasEnded(uint32_t pid, uint64_t start) const { return sched::HasEnded(pid, start); }

std::optional<uint32_t> Surroundings::UserOf(uint32_t pid) const { return ProcessUser(pid); }

int Surroundings::OpenExit(uint32_t pid) const { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

const Surroundings& Surroundings::OfSystem() {
  static const Surroundings system;
  return system;
}

}  // namespace cupola::sched
