// The agent: one thread for each board in use, started with the board's first context
// (ResidentGuarded::start_agent). It resumes preempted launches when nobody asks the process to
// yield any more, accounts for launches that are complete, and keeps what the board says of this
// process up to date. It never launches on a stream of the program, and takes no mutex that others
// hold over a driver call, least of all that of another board's agent. It runs in relaxed capture
// mode and takes no signals.
#pragma once

#include <cstdint>

#include <pthread.h>

namespace cupola::intercept {
class GpuBoard;
struct LaunchContext;
struct LaunchSlot;
}  // namespace cupola::intercept

namespace cupola::intercept::preempt {

/// Starts the thread of a board at the first call; later calls do nothing. If no thread can be
/// started this is logged, and launches of the board go out plain.
void StartAgent(GpuBoard* gpu) noexcept;

/// While it lives, the agent of that board touches no context. The constructor waits until the
/// agent has finished its look.
class AgentPause {
 public:
  explicit AgentPause(GpuBoard& gpu) noexcept;
  ~AgentPause();
  AgentPause(const AgentPause&) = delete;
  AgentPause& operator=(const AgentPause&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace cupola::intercept::preempt
