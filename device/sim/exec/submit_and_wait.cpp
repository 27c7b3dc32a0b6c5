#include "device/sim/exec/submit_and_wait.h"

#include <condition_variable>
#include <mutex>

namespace cupola::sim {

std::optional<Fault> SubmitAndWait(Device& device, GridLaunch launch) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::optional<Fault> fault;
  device.Submit(std::move(launch), [&](const Fault* bad) {
    std::lock_guard lock(mutex);
    if (bad != nullptr) fault = *bad;
    done = true;
    changed.notify_all();
  });
  const bool ends = device.Drive();
  std::unique_lock lock(mutex);
  if (!ends && !done) return Fault{FaultKind::kTrap, "the kernel waits for ever"};
  changed.wait(lock, [&] { return done; });
  return fault;
}

}  // namespace cupola::sim
