// A meeting place of up to 64 processes in one file of shared memory: they begin every round
// together and launch in the order of their numbers. Lock-free counters that only grow; whoever
// waits longer than 30 seconds gives up and ends its process with exit code 3.
#pragma once

#include <atomic>
#include <string>

/// Nanoseconds of CLOCK_MONOTONIC: the same clock in all processes.
long NowNs();
/// Returns at `ns` or soon after: sleeps while it is far, spins at the end.
void WaitUntilNs(long ns);

class Rendezvous {
 public:
  /// `path` empty = alone: nothing is waited for.
  Rendezvous(const std::string& path, int party, int parties);
  /// Waits until every party has come to meeting `number` (1, 2, ...).
  void Meet(int number);
  /// Waits until party `before` has launched in this round; returns when that was. 0 when alone.
  long AwaitLaunch(int before, int round);
  /// Tells the others that we have launched.
  void Launched(int round);
  /// Nobody waits for us any more.
  void Leave();

 private:
  struct Page {
    std::atomic<int> arrived[64];
    std::atomic<int> launched[64];
    std::atomic<long> launched_ns[64];
  };
  void WaitFor(const std::atomic<int>& counter, int number, bool patient);
  Page* page_ = nullptr;
  int party_;
  int parties_;
};
