// Free mode, in which the simulated device runs for programs: one host thread per SM, made at the
// first Submit, with all signals blocked. Each SM holds several resident blocks of any grids and
// runs their warps in turn, a few hundred instructions at a time. The free-mode Device owns one
// FreeRun; any thread may call Submit.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/sim/exec/residency.h"
#include "device/sim/exec/state.h"

namespace cupola::sim {

class FreeRun {
 public:
  FreeRun(const DeviceConfig& config, Machine machine) : config_(config), machine_(machine) {
    machine_.stale_shared = &stale_shared_;
  }
  ~FreeRun();  ///< waits until all submitted grids have ended

  /// Device::Submit.
  void Submit(Grid grid, bool cooperative, std::function<void(const Fault*)> done);

 private:
  struct Run {
    Grid grid;
    bool cooperative = false;
    std::function<void(const Fault*)> done;
    uint64_t total = 0;    ///< blocks
    uint64_t next = 0;     ///< number of the first block that has not started
    uint64_t running = 0;  ///< blocks that have started and not ended
    Residency needs;       ///< of one block
    std::atomic<bool> stopped{false};  ///< set after a fault: its blocks stop
    std::unique_ptr<Fault> fault;
  };
  struct Resident {
    std::shared_ptr<Run> run;
    std::unique_ptr<Block> block;
  };
  struct Sm {
    uint32_t index = 0;
    Residency used;
    std::vector<Resident> blocks;
    std::thread thread;
  };

  void Start();
  void Loop(Sm& sm);
  /// Takes the next block that fits on the SM; null when there is none. mutex_ is held.
  std::shared_ptr<Run> TakeBlock(Sm& sm, uint64_t* block);
  /// Makes one more block resident if there is one that fits; an SM without blocks waits for one.
  /// False when the SM's thread must end.
  bool Admit(Sm& sm, MemoryView* view);
  /// Gives every resident warp one turn; true if any of them did more than wait.
  bool Pass(Sm& sm);
  /// Removes blocks that have ended, and completes grids whose last block that was.
  void Retire(Sm& sm);

  const DeviceConfig config_;
  StaleShared stale_shared_;
  Machine machine_;
  std::mutex mutex_;
  /// Notified when there are blocks to start, or stop_ is set.
  std::condition_variable work_;
  std::condition_variable idle_;           ///< notified when active_ becomes 0
  std::list<std::shared_ptr<Run>> queue_;  ///< grids with blocks to start, in order of submission
  std::atomic<uint64_t> waiting_{0};       ///< number of blocks to start
  uint64_t active_ = 0;                    ///< number of grids submitted and not done
  bool stop_ = false;                      ///< the threads of SMs must end
  std::vector<std::unique_ptr<Sm>> sms_;
};

}  // namespace cupola::sim
