// Free mode, in which the simulated device runs for programs: one host thread per SM, made at the
// first Submit, with all signals blocked. Each SM holds several resident blocks of any grids and
// runs their warps in turn, a few hundred instructions at a time. The free-mode Device owns one
// FreeRun; any thread may call Submit.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
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
  /// What the warps of an SM did in one turn of each.
  enum class Pass : uint8_t {
    kBusy,    ///< some did more than wait
    kRested,  ///< all seem only to wait (Warp::rested)
    kWaited,  ///< all ended their turns early because they wait (Warp::waits), or cannot go on
  };
  struct Sm {
    uint32_t index = 0;
    uint64_t waits_since_ns = 0;  ///< all its warps have only waited since then; 0: they do not
    uint64_t slept_at_ns = 0;     ///< end of its thread's last sleep
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
  /// Gives every resident warp one turn.
  Pass RunWarps(Sm& sm);
  /// What an SM's thread does behind such a turn, for others that need a processor.
  void Rest(Sm& sm, Pass pass);
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
