// The implementation of SteppedDevice: grids, resident blocks, host threads, and the actors among
// them. Internal to the folder. SteppedDevice::Create makes it; only the thread that steps it uses
// it.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_set>

#include "device/sim/exec/device_base.h"
#include "device/sim/stepped/stepped_device.h"

namespace cupola::sim {

class SteppedRun final : public DeviceBase<SteppedDevice>, private Observer, private HostPort {
 public:
  SteppedRun(const SteppedConfig& config, Chooser* chooser);
  bool ok() const { return memory_->ok(); }

  void Submit(GridLaunch launch, std::function<void(const Fault* fault)> done) override;
  bool Free(uint64_t address) override;
  uint64_t NowNs() const override { return now_ns_; }

  bool Drive() override { return Run() == RunEnd::kIdle; }
  bool Step() override;
  RunEnd Run() override;
  HostThread& AddHostThread(std::string name) override;
  const sim::Step& last_step() const override { return step_; }
  uint64_t steps() const override { return steps_; }
  uint64_t trace_hash() const override { return hash_; }
  const std::vector<ActorId>& enabled() const override { return enabled_; }
  const std::vector<Race>& races() const override { return model_.races(); }
  const std::optional<Fault>& fault() const override { return fault_; }
  std::string stuck() const override;
  std::string Describe(const sim::Step& step) const override;
  std::string Describe(const Race& race) const override;

 private:
  /// One submitted grid.
  struct Launch {
    Grid grid;
    uint32_t number = 0;  ///< of the submission
    bool cooperative = false;
    std::function<void(const Fault*)> done;
    std::deque<uint32_t> waiting;  ///< numbers of the blocks that have not started
    uint32_t resident = 0;         ///< number of resident blocks
    Residency needs;               ///< of one block
    ThreadId thread = 0;     ///< starts the threads of its blocks, which join it when they end
    bool joins_test = true;  ///< the test's own thread is ordered behind the grid's end
    bool ended = false;
    std::unique_ptr<Fault> fault;
  };
  /// Makes steps: a warp or, with Granularity::kThread, one of its lanes.
  struct Actor {
    ActorId id;
    uint64_t wake_ns = 0;  ///< virtual time before which it does not step
    /// It came back to an earlier state without any effect, so it need not step until something
    /// that it read changes.
    bool stalled = false;
    bool read_stale = false;    ///< it read an older value since the circle began
    bool reads_latest = false;  ///< until its next effect it reads only the newest values
    std::unordered_set<uint64_t> states;   ///< hashes of its states since its last effect
    std::map<uint64_t, uint32_t> watched;  ///< what it has read since then: object -> bytes
    uint32_t widest = 0;                   ///< the most bytes of an object in `watched`
    /// Whether it has read some of what the touch is about.
    bool Watches(const Touch& touch) const {
      auto read = watched.lower_bound(touch.object - std::min<uint64_t>(touch.object, widest));
      for (; read != watched.end() && read->first < touch.object + touch.bytes; ++read) {
        if (touch.object < read->first + read->second) return true;
      }
      return false;
    }
    void BeginCircle() {
      stalled = false;
      states.clear();
      watched.clear();
    }
  };
  struct Resident {
    Launch* launch = nullptr;
    uint32_t number = 0;  ///< linear index in the grid
    uint32_t serial = 0;  ///< unique among all blocks of the run
    uint32_t sm = 0;
    ThreadId first_thread = 0;  ///< that of the block's first thread; those of the others follow
    std::unique_ptr<Block> block;
    std::vector<Actor> actors;  ///< one per warp, or one per thread
  };
  /// An actor that could make the next step.
  struct Candidate {
    ActorId id;
    Resident* resident = nullptr;  ///< for kThreads
    Actor* actor = nullptr;        ///< for kThreads
    uint32_t allowed = 0;          ///< for kThreads: mask of the lanes that may step
    Launch* launch = nullptr;      ///< for kBlockStart
  };

  // stepped_run.cpp
  Launch& Add(GridLaunch launch, std::function<void(const Fault*)> done, ThreadId parent);
  bool Collect();
  void CollectThreads(Resident& resident);
  uint32_t Allowed(const Warp& warp, uint32_t lane) const;
  bool AdvanceTime();
  void StartBlock(Launch& launch);
  void StepHost(uint32_t number);
  void StepThreads(const Candidate& candidate);
  void FollowCircle(Actor& actor, const Warp& warp);
  uint64_t StateHash(const Warp& warp, uint32_t lane) const;
  void WakeReaders(const Actor* self);
  void Retire(Resident& resident);
  void Forget(const Resident& resident);
  void End(Launch& launch);
  void Mix(uint64_t value);

  // observed.cpp
  void Read(Warp& warp, uint32_t lane, const Access& access, void* value) override;
  void Write(Warp& warp, uint32_t lane, const Access& access, const void* value) override;
  void Update(Warp& warp, uint32_t lane, const Access& access, const void* before,
              const void* after) override;
  void Fence(Warp& warp, uint32_t lanes, Order order, Scope scope) override;
  void ArriveAtBarrier(Warp& warp, uint32_t lane, uint32_t index, bool counted) override;
  void CompleteBarrier(Block& block, const Barrier& barrier) override;
  void CompleteWarpBarrier(Warp& warp, uint32_t lanes) override;
  void CommitCopies(Warp& warp, uint32_t lanes, bool bulk) override;
  void WaitForCopies(Warp& warp, uint32_t lanes, bool bulk, uint32_t pending) override;
  void Sleep(Warp& warp, uint32_t lane, uint32_t nanoseconds) override;
  void HostLoad(HostThread& thread, const Access& access, void* value) override;
  void HostStore(HostThread& thread, const Access& access, const void* value) override;
  uint64_t HostSubmit(HostThread& thread, GridLaunch launch,
                      std::function<void(const Fault*)> done) override;
  bool HostIsDone(uint64_t grid) const override;
  void HostJoin(HostThread& thread, uint64_t grid) override;
  ThreadId ThreadOf(const Warp& warp, uint32_t lane) const;
  ThreadId CopierOf(const Warp& warp, uint32_t lane, const Access& access);
  uint64_t Site() const;
  uint64_t Name(const Warp& warp, const uint8_t* at) const;
  void Note(uint64_t object, uint32_t bytes, bool write, const void* value);
  std::string DescribeThread(ThreadId thread) const;
  std::string DescribeSite(uint64_t site) const;

  const SteppedConfig stepped_;
  Chooser* chooser_;
  MemoryModel model_;
  const bool models_;  ///< whether the configuration needs the memory model at all
  StaleShared stale_shared_;
  Machine machine_;
  MemoryView view_;
  std::deque<std::unique_ptr<Launch>> launches_;
  std::vector<std::unique_ptr<Resident>> residents_;
  std::vector<Residency> sms_;         ///< what is in use on each SM
  std::deque<HostThread> hosts_;
  std::vector<Candidate> candidates_;  ///< for the next step
  std::vector<ActorId> enabled_;       ///< the candidates of the last step
  /// By ThreadId: the number of the launch and the thread's in it, or kHostBlock and the host
  /// thread's id.
  std::vector<std::pair<uint32_t, uint32_t>> places_;
  sim::Step step_;               ///< the step that is being made, or was made last
  Resident* current_ = nullptr;  ///< the block whose threads step
  bool effect_ = false;    ///< the step changed something that others may see
  bool stale_ = false;     ///< the step read an older value
  bool latest_ = false;    ///< the actor that steps reads only the newest values
  uint64_t sleep_ns_ = 0;  ///< for how long the step's nanosleep sleeps
  uint64_t now_ns_ = 0;    ///< virtual time
  uint64_t steps_ = 0;
  uint64_t hash_ = 0xCBF29CE484222325ull;
  uint32_t next_serial_ = 0;
  std::optional<Fault> fault_;
};

}  // namespace cupola::sim
