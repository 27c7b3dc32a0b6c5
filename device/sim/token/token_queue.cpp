#include "device/sim/token/token_queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// token_queue.h says how the queue works, and what a node, its ticket, its turn and the head are. Except for Ring(),
// all code here runs in the token's thread.
namespace cupola::sim {
namespace {

constexpr uint32_t kNodes = SharedToken::kNodes;
constexpr uint32_t kNone = SharedToken::kNone;
constexpr uint64_t kLookNs = 20'000'000;      // time between looks at whether a predecessor is stopped
// From this look on at a predecessor that has the device, its threads are looked at too. That is not done earlier,
// because it makes the system create an entry in /proc for each thread, and a process that ends must wait until nobody
// reads such entries.
constexpr int kPatientLooks = 10;
constexpr int kStillLooks = 3;                // looks in a row at which no thread has run since the last look
constexpr uint64_t kStuckNs = 2'000'000'000;  // the lock is stuck after this time; it is held for microseconds

/// The time of CLOCK_MONOTONIC in `ns` nanoseconds.
timespec FromNow(uint64_t ns) {
  timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  ns += static_cast<uint64_t>(at.tv_nsec);
  at.tv_sec += static_cast<time_t>(ns / 1'000'000'000);
  at.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  return at;
}

/// Whether a call that locks a mutex and returned `error` has locked it. If the owner of the mutex had died, makes it
/// consistent.
bool Acquired(pthread_mutex_t* mutex, int error) {
  if (error == EOWNERDEAD) {
    pthread_mutex_consistent(mutex);
    return true;
  }
  return error == 0;
}

/// Whether a process does not run: it is stopped by a signal or a debugger, or does not exist (a damaged
/// file may name such a process; normally a death frees the locks). A wrong answer only lets two
/// processes execute at once.
bool IsStopped(int32_t pid) {
  char path[32], text[256];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return kill(pid, 0) != 0 && errno == ESRCH;
  const ssize_t bytes = read(file, text, sizeof(text) - 1);
  close(file);
  if (bytes <= 0) return false;
  text[bytes] = '\0';
  const char* name_end = std::strrchr(text, ')');  // the last one, as the name may contain any character
  return name_end != nullptr && (name_end[2] == 'T' || name_end[2] == 't');
}

/// Reads from /proc the sum of the context switches of a process's threads, and whether one of them runs or is ready
/// to run. False when nothing is known.
bool LookAtThreads(int32_t pid, uint64_t* switches, bool* is_runnable) {
  char folder[32], path[300], text[4096];
  std::snprintf(folder, sizeof(folder), "/proc/%d/task", pid);
  DIR* const threads = opendir(folder);
  if (threads == nullptr) return false;
  *switches = 0;
  *is_runnable = false;
  bool is_known = false;
  while (const dirent* const thread = readdir(threads)) {
    if (thread->d_name[0] == '.') continue;
    std::snprintf(path, sizeof(path), "%s/%s/status", folder, thread->d_name);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = file >= 0 ? read(file, text, sizeof(text) - 1) : -1;
    if (file >= 0) close(file);
    if (bytes <= 0) continue;  // the thread has ended
    text[bytes] = '\0';
    const char* const state = std::strstr(text, "\nState:\t");
    const char* const waits = std::strstr(text, "\nvoluntary_ctxt_switches:\t");
    const char* const others = std::strstr(text, "\nnonvoluntary_ctxt_switches:\t");
    if (state == nullptr || waits == nullptr || others == nullptr) continue;
    is_known = true;
    *is_runnable |= state[8] == 'R';
    *switches += std::strtoull(waits + 26, nullptr, 10) + std::strtoull(others + 29, nullptr, 10);
  }
  closedir(threads);
  return is_known;
}

}  // namespace

/// Each kind of control-group freezer leaves a process in another state, and no state is only for that.
/// But no thread of a frozen process runs although its bell was rung, and a live process has a thread
/// that wakes on the bell.
bool TokenQueue::Stillness::SeemsFrozen(int32_t pid) {
  if (++calls_ < kPatientLooks) return false;
  uint64_t switches = 0;
  bool is_runnable = false;
  if (!LookAtThreads(pid, &switches, &is_runnable) || is_runnable || switches != switches_) {
    switches_ = switches;
    looks_ = 0;
    return false;
  }
  return ++looks_ >= kStillLooks;
}

/// Holds the lock over tickets and waits_for.
class TokenQueue::Guard {
 public:
  explicit Guard(SharedToken& shared) : mutex_(&shared.lock) {
    const timespec deadline = FromNow(kStuckNs);
    is_held_ = Acquired(mutex_, pthread_mutex_clocklock(mutex_, CLOCK_MONOTONIC, &deadline));
  }
  ~Guard() {
    if (is_held_) pthread_mutex_unlock(mutex_);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  bool is_held() const { return is_held_; }

 private:
  pthread_mutex_t* mutex_;
  bool is_held_ = false;
};

/// The node of the entry just before that with `ticket`; kNone: that entry is the head.
uint32_t TokenQueue::Predecessor(uint64_t ticket) const {
  uint32_t best = kNone;
  uint64_t largest = 0;
  for (uint32_t node = 0; node < kNodes; ++node) {
    const uint64_t other = shared_.tickets[node].load(std::memory_order_relaxed);
    if (other > largest && other < ticket) {
      largest = other;
      best = node;
    }
  }
  return best;
}

/// Whether the node has no ticket and no entry waits for it (rule 5 of the header). The caller holds the lock.
bool TokenQueue::IsFree(uint32_t node) const {
  if (shared_.tickets[node].load(std::memory_order_relaxed) != 0) return false;
  for (uint32_t other = 0; other < kNodes; ++other) {
    if (shared_.waits_for[other].load(std::memory_order_relaxed) == node &&
        shared_.tickets[other].load(std::memory_order_relaxed) != 0) {
      return false;
    }
  }
  return true;
}

uint32_t TokenQueue::Entries() const {
  uint32_t entries = 0;
  for (const auto& ticket : shared_.tickets) entries += ticket.load() != 0;
  return entries;
}

/// Clears the tickets of dead threads for which nobody waits; a thread that waits for one clears it
/// itself. If a node's turn can be locked while its ticket is set, its thread is dead. The caller holds
/// the lock.
void TokenQueue::ClearDead() {
  for (uint32_t node = 0; node < kNodes; ++node) {
    pthread_mutex_t* turn = &shared_.turns[node];
    if (shared_.tickets[node] == 0 || !Acquired(turn, pthread_mutex_trylock(turn))) continue;
    shared_.tickets[node] = 0;
    ++recoveries_;
    shared_.totals.recoveries.fetch_add(1);
    pthread_mutex_unlock(turn);
  }
}

TokenQueue::Outcome TokenQueue::Join() {
  Guard guard(shared_);
  if (!guard.is_held()) return Outcome::kUnusable;
  if (Entries() >= kMostEntries) ClearDead();
  if (Entries() >= kMostEntries) return Outcome::kFull;
  for (uint32_t node = 0; node < kNodes; ++node) {
    if (!IsFree(node)) continue;
    pthread_mutex_t* turn = &shared_.turns[node];
    if (!Acquired(turn, pthread_mutex_trylock(turn))) continue;
    shared_.pids[node] = getpid();
    shared_.waits_for[node] = kNone;
    ticket_ = shared_.next_ticket.fetch_add(1);
    shared_.tickets[node] = ticket_;
    node_ = node;
    return Outcome::kDone;
  }
  return Outcome::kFull;
}

TokenQueue::Outcome TokenQueue::Wait() {
  const uint32_t mine = node_;
  while (true) {
    uint32_t before = kNone;
    uint64_t ticket = 0;
    {
      Guard guard(shared_);
      if (!guard.is_held()) return Outcome::kUnusable;
      if (is_evicted()) break;
      before = Predecessor(ticket_);
      shared_.waits_for[mine] = before;
      if (before == kNone) return Outcome::kDone;
      ticket = shared_.tickets[before];
      if (Predecessor(ticket) == kNone) RingNode(before);  // tells the process that has the device that others wait
    }
    const Outcome outcome = WaitForTurn(before, ticket);
    if (outcome != Outcome::kDone) {
      if (outcome == Outcome::kLeft) break;
      return outcome;
    }
  }
  if (Leave() == Outcome::kUnusable) return Outcome::kUnusable;  // frees the node also after an eviction
  return Outcome::kLeft;
}

/// Blocks until the entry that has `ticket` and `node` has left the queue, is dead, or was removed.
TokenQueue::Outcome TokenQueue::WaitForTurn(uint32_t node, uint64_t ticket) {
  pthread_mutex_t* turn = &shared_.turns[node];
  Stillness stillness;
  while (true) {
    const timespec look = FromNow(kLookNs);
    int error = pthread_mutex_clocklock(turn, CLOCK_MONOTONIC, &look);
    if (error == ETIMEDOUT) error = pthread_mutex_trylock(turn);  // it may have become free since
    if (error == EBUSY) {
      if (stop_ || is_evicted()) return Outcome::kLeft;
      if (EvictIfStopped(node, ticket, stillness)) return Outcome::kDone;
      continue;
    }
    if (!Acquired(turn, error)) return Outcome::kUnusable;
    bool is_held = true;
    {
      Guard guard(shared_);
      is_held = guard.is_held();
      if (is_held && shared_.tickets[node] == ticket) {
        shared_.tickets[node] = 0;
        ++recoveries_;
        shared_.totals.recoveries.fetch_add(1);
      }
    }
    pthread_mutex_unlock(turn);
    return is_held ? Outcome::kDone : Outcome::kUnusable;
  }
}

// Only an entry at the head is removed. A stopped process that waits itself is removed when it has come to the head:
// to look into /proc for each of many waiting processes would cost more than what they wait for.
bool TokenQueue::EvictIfStopped(uint32_t node, uint64_t ticket, Stillness& stillness) {
  if (Predecessor(ticket) != kNone) return false;
  const int32_t pid = shared_.pids[node];
  if (!IsStopped(pid) && !stillness.SeemsFrozen(pid)) {
    RingNode(node);  // a process that is not frozen will have run by the next look
    return false;
  }
  Guard guard(shared_);
  if (!guard.is_held() || shared_.tickets[node] != ticket) return false;
  shared_.tickets[node] = 0;
  RingNode(node);  // the process sees it when it runs again
  ++evictions_;
  shared_.totals.evictions.fetch_add(1);
  return true;
}

TokenQueue::Outcome TokenQueue::Leave() {
  const uint32_t mine = node_;
  {
    Guard guard(shared_);
    if (!guard.is_held()) return Outcome::kUnusable;
    if (!is_evicted()) shared_.tickets[mine] = 0;
  }
  node_ = kNone;
  return pthread_mutex_unlock(&shared_.turns[mine]) == 0 ? Outcome::kDone : Outcome::kUnusable;
}

TokenQueue::Outcome TokenQueue::CheckWaiters(bool* has_waiters) {
  Guard guard(shared_);
  if (!guard.is_held()) return Outcome::kUnusable;
  *has_waiters = false;
  for (const auto& ticket : shared_.tickets) *has_waiters |= ticket.load() > ticket_;
  return Outcome::kDone;
}

// No other entry can get this node while we own its turn, so its ticket is ours or was cleared.
bool TokenQueue::is_evicted() const { return shared_.tickets[node_] != ticket_; }

uint32_t TokenQueue::bell() const { return shared_.bells[node_].load(); }

void TokenQueue::WaitForBell(uint32_t value, uint64_t deadline_ns) const {
  timespec deadline;
  deadline.tv_sec = static_cast<time_t>(deadline_ns / 1'000'000'000);
  deadline.tv_nsec = static_cast<long>(deadline_ns % 1'000'000'000);
  syscall(SYS_futex, &shared_.bells[node_], FUTEX_WAIT_BITSET, value,
          deadline_ns != 0 ? &deadline : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void TokenQueue::RingNode(uint32_t node) {
  shared_.bells[node].fetch_add(1);
  syscall(SYS_futex, &shared_.bells[node], FUTEX_WAKE, 1);
}

void TokenQueue::Ring() {
  const uint32_t node = node_;
  if (node != kNone) RingNode(node);
}

}  // namespace cupola::sim
