// The simulated device in stepped mode: no threads, no clock. A test steps it; at each step a
// Chooser says which of all that could happen next happens: a warp's (or one thread's) next visible
// instruction with the local ones behind it, the start of a block, a host thread's next action.
// Time is virtual. Data races, deadlocks and faults are found on the way, and equal answers of the
// chooser give equal runs (trace_hash). One thread; nothing here blocks.
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

/// What steps as one.
enum class Granularity : uint8_t {
  kWarp,    ///< the lanes of a warp that are at one instruction, converging as in free mode
  kThread,  ///< one thread; code that assumes warps in lockstep is found out
};

struct SteppedConfig {
  DeviceConfig device;
  Granularity granularity = Granularity::kWarp;
  MemoryModelConfig memory;
  bool choose_blocks = false;     ///< blocks start in any order, on any SM; else in the usual one
  uint64_t step_ns = 100;         ///< virtual time of a step; %clock runs at 1 GHz
  uint64_t max_steps = 1u << 22;  ///< Run gives up after so many
};

enum class RunEnd : uint8_t {
  kIdle,      ///< all grids and host threads are done
  kDeadlock,  ///< something waits for ever; SteppedDevice::stuck() says what
  kLimit,     ///< max_steps
};

class SteppedDevice : public Device {
 public:
  /// nullptr when the operating system gives no address space. `chooser` outlives the device.
  static std::unique_ptr<SteppedDevice> Create(const SteppedConfig& config, Chooser* chooser);

  // Of Device, besides what is said there: Submit only queues, `done` is called by Step;
  // NowNs is virtual; one thread.

  /// Makes one step. False: nothing can run, now or later.
  virtual bool Step() = 0;
  /// Steps until nothing can run or the limit is reached.
  virtual RunEnd Run() = 0;

  /// A host thread whose actions are steps of their own. Owned by the device; made before Run or by
  /// an action of another.
  virtual HostThread& AddHostThread(std::string name) = 0;

  /// Of the step that Step made.
  virtual const sim::Step& last_step() const = 0;
  virtual uint64_t steps() const = 0;
  /// Of all steps so far: who, where, what was touched. Equal in equal runs, also across processes.
  virtual uint64_t trace_hash() const = 0;
  /// Who could have made the last step, in the order in which the chooser was asked.
  virtual const std::vector<ActorId>& enabled() const = 0;

  virtual const std::vector<Race>& races() const = 0;
  /// The first fault of any grid.
  virtual const std::optional<Fault>& fault() const = 0;
  /// After kDeadlock: who waits, where.
  virtual std::string stuck() const = 0;

  /// "block (1,0,0) thread (3,0,0) at st.global.u32 at line 12"
  virtual std::string Describe(const sim::Step& step) const = 0;
  virtual std::string Describe(const Race& race) const = 0;
};

}  // namespace cupola::sim
