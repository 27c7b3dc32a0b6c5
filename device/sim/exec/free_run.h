// Free mode: one host thread per SM, made at the first Submit, with all signals blocked. Each holds
// several resident blocks of any grids and runs their warps round robin, a few hundred instructions
// at a time. Thread-safe.
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
  ~FreeRun();  ///< waits for the grids that run

  void Submit(Grid grid, bool cooperative, std::function<void(const Fault*)> done);

 private:
  struct Run {
    Grid grid;
    bool cooperative = false;
    std::function<void(const Fault*)> done;
    uint64_t total = 0;
    uint64_t next = 0;  ///< first block that has not started
    uint64_t running = 0;
    Residency needs;  ///< of a block
    std::atomic<bool> stopped{false};
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
  std::shared_ptr<Run> TakeBlock(Sm& sm, uint64_t* block);
  bool Admit(Sm& sm, MemoryView* view);
  /// Runs every resident warp once; true if any of them did more than wait.
  bool Pass(Sm& sm);
  void Retire(Sm& sm);

  const DeviceConfig config_;
  StaleShared stale_shared_;
  Machine machine_;
  std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::list<std::shared_ptr<Run>> queue_;  ///< grids with blocks to start, in order of submission
  std::atomic<uint64_t> waiting_{0};       ///< blocks to start
  uint64_t active_ = 0;                    ///< grids submitted and not done
  bool stop_ = false;
  std::vector<std::unique_ptr<Sm>> sms_;
};

}  // namespace cupola::sim
