// The agent: one thread a board in use. It resumes preempted launches when nobody asks to yield any
// more, accounts for what is complete, and keeps this process's words on the board true. It never
// launches on a stream of the program, takes no mutex that others hold over a driver call, of
// another board's agent least of all, runs in relaxed capture mode and takes no signal.
#pragma once

#include <cstdint>

#include <pthread.h>

namespace cupola::intercept::preempt {

class GpuBoard;
struct PreemptContext;
struct LaunchSlot;

/// Starts the thread of a board; once.
void StartAgent(GpuBoard* gpu) noexcept;

/// While it lives, the agent of that board touches no context.
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
