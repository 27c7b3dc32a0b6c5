// The simulated device in stepped mode, which has no threads and no clock. A test steps it. At each
// step a Chooser decides which of the possible next events happens: the next visible instruction of
// a warp (or of one thread) with the local instructions behind it, the start of a block, or a host
// thread's next action. Time is virtual. The device finds data races, deadlocks and faults on the
// way. Equal answers of the chooser give equal runs (trace_hash). The test owns the device and uses
// it from one thread; no call blocks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/sim/exec/device.h"
#include "device/sim/stepped/chooser.h"
#include "device/sim/stepped/host_thread.h"
#include "device/sim/stepped/memory_model.h"
#include "device/sim/stepped/step.h"

namespace cupola::sim {

/// Which threads make a step together.
enum class Granularity : uint8_t {
  kWarp,    ///< the lanes of a warp that are at one instruction; they converge as in free mode
  kThread,  ///< one thread alone; this finds code that assumes that a warp runs in lockstep
};

struct SteppedConfig {
  DeviceConfig device;
  Granularity granularity = Granularity::kWarp;
  MemoryModelConfig memory;
  bool choose_blocks = false;     ///< blocks start in any order on any SM; else in the usual order
  uint64_t step_ns = 100;         ///< virtual time of a step; %clock runs at 1 GHz
  uint64_t max_steps = 1u << 22;  ///< Run gives up after this number of steps
};

enum class RunEnd : uint8_t {
  kIdle,      ///< all grids and host threads are done
  kDeadlock,  ///< something waits for ever; SteppedDevice::stuck() says what
  kLimit,     ///< it made max_steps steps
};

class SteppedDevice : public Device {
 public:
  /// nullptr when the operating system gives no address space. `chooser` must outlive the device.
  static std::unique_ptr<SteppedDevice> Create(const SteppedConfig& config, Chooser* chooser);

  // The methods of Device differ in this: Submit only queues, Step calls `done`, NowNs is virtual
  // time, and all calls must come from one thread.

  /// Makes one step. False when nothing can run, now or later.
  virtual bool Step() = 0;
  /// Steps until nothing can run or the limit is reached.
  virtual RunEnd Run() = 0;

  /// Adds a host thread whose actions are steps of their own. The device owns it. To be called
  /// before Run, or by an action of another host thread.
  virtual HostThread& AddHostThread(std::string name) = 0;

  /// The step that the last call of Step made.
  virtual const sim::Step& last_step() const = 0;
  virtual uint64_t steps() const = 0;
  /// A hash of all steps so far: which actor, where, what it touched. It is equal in equal runs,
  /// also across processes.
  virtual uint64_t trace_hash() const = 0;
  /// The actors that could have made the last step, in the order in which the chooser got them.
  virtual const std::vector<ActorId>& enabled() const = 0;

  virtual const std::vector<Race>& races() const = 0;
  /// The first fault of any grid.
  virtual const std::optional<Fault>& fault() const = 0;
  /// After kDeadlock: says which actors wait, and where.
  virtual std::string stuck() const = 0;

  /// Text such as "block (1,0,0) thread (3,0,0) at st.global.u32 at line 12".
  virtual std::string Describe(const sim::Step& step) const = 0;
  virtual std::string Describe(const Race& race) const = 0;
};

}  // namespace cupola::sim
