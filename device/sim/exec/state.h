// The state of running blocks: plain data, owned and touched by one thread at a time (an SM's
// thread in free mode, the test's in stepped mode). No hidden threads, locks or clocks: StepWarp is
// the only motor.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "device/sim/exec/device.h"
#include "device/sim/exec/memory.h"
#include "device/sim/exec/observer.h"
#include "device/sim/exec/program.h"
#include "device/sim/exec/read_only_cache.h"
#include "device/sim/exec/stale_shared.h"
#include "device/sim/exec/zeroed_bytes.h"

namespace cupola::sim {

struct Block;
class PrintBuffer;

/// What blocks of all grids of a device share.
struct Machine {
  AddressSpace* memory = nullptr;
  PrintBuffer* printer = nullptr;
  uint64_t (*now_ns)(void* self) = nullptr;  ///< %globaltimer
  void* now_self = nullptr;
  uint32_t sm_count = 1;
  Observer* observer = nullptr;  ///< of stepped mode
  StaleShared* stale_shared = nullptr;
};

/// One launched grid, as its blocks see it.
struct Grid {
  std::shared_ptr<const Program> program;
  uint32_t function = 0;  ///< into program->functions
  Dim3 grid, block;
  uint32_t dynamic_shared_bytes = 0;
  uint64_t id = 0;
  uint64_t workspace = 0;  ///< of grid.sync(), %envreg1:%envreg2; 0 unless cooperative
  std::vector<std::byte> params;
};

enum class LaneStatus : uint8_t {
  kReady,
  kBarrier,   ///< at a barrier of the block; the pc is that of the barrier
  kWarpSync,  ///< at an instruction that waits for the lanes of a mask; the pc is that instruction
  kExited,
};

/// A return address and what a return restores.
struct CallFrame {
  uint32_t pc, frame, local, site;
  uint32_t function;
  uint32_t alloca_top;
};

/// What a lane brought to an instruction that waits for other lanes of its warp.
struct SyncArrival {
  uint32_t mask = 0;
  uint32_t a = 0, b = 0, c = 0;
  uint64_t wide = 0;
};

/// A warp. The *group* is the set of lanes that run now, with one pc and one frame; lanes outside
/// keep their own in `pc` and `frame`. Lanes of the group have stale entries there until Park().
struct Warp {
  static constexpr uint32_t kPatience = 256;
  /// Local addresses from here on are those of alloca, below are the frames of functions.
  static constexpr uint32_t kAllocaBase = 8u << 20;

  Block* block = nullptr;
  uint32_t index = 0;   ///< in the block
  uint32_t exists = 0;  ///< lanes that have a thread
  uint32_t live = 0;    ///< exists and has not exited

  // The group. `group` == 0: none chosen yet.
  uint32_t group = 0;
  uint32_t group_pc = 0;
  uint32_t group_frame = 0;
  uint32_t group_local = 0;
  uint32_t merge_pc = 0;          ///< choose again when the group gets here or beyond
  bool choose = true;             ///< the group must be chosen again before the next instruction
  bool split = false;             ///< other lanes are ready too
  uint32_t patience = kPatience;  ///< backward branches left before another group gets its turn
  uint32_t favoured = 0;          ///< lanes whose turn it is; 0: lowest pc first
  uint32_t allowed = kFullMask;   ///< lanes that may be chosen (stepped mode)

  uint8_t* bases[2] = {nullptr, nullptr};  ///< frame of the group, pool of constants
  const Insn* code = nullptr;
  MemoryView* view = nullptr;
  Observer* observer = nullptr;
  Windows windows;

  std::array<uint32_t, kLanes> pc{};
  std::array<uint32_t, kLanes> frame{};     ///< byte offset of the frame in `registers`
  std::array<uint32_t, kLanes> local{};     ///< byte offset of the local frame in the lane's memory
  std::array<uint32_t, kLanes> function{};  ///< index of the function that runs
  std::array<uint64_t, kLanes> ran_at{};    ///< value of `turn` when last in a group
  std::array<LaneStatus, kLanes> status{};
  std::array<std::vector<CallFrame>, kLanes> calls;
  std::array<SyncArrival, kLanes> sync{};
  uint64_t turn = 0;

  ZeroedBytes register_store;
  uint8_t* registers = nullptr;  ///< 64-byte aligned
  uint32_t register_bytes = 0;
  uint32_t used_register_bytes = 0;  ///< to the end of the frames that were entered; zeros beyond
  struct CalleeFrame {
    uint32_t caller, function, at;
  };
  std::vector<CalleeFrame> callee_frames;  ///< given out by FrameOf
  uint32_t frames_end = 0;                 ///< bytes given out
  std::vector<uint8_t> local_memory;       ///< lane-major: lane * local_stride
  uint32_t local_stride = 0;
  std::array<std::vector<uint8_t>, kLanes> alloca_memory;  ///< each from local address kAllocaBase
  std::array<uint32_t, kLanes> alloca_top{};               ///< bytes in use

  uint32_t carry = 0;         ///< CC.CF, a bit per lane [9.7.2]
  uint64_t instructions = 0;  ///< warp instructions executed
  uint64_t lane_instructions = 0;
  bool rested = false;  ///< nanosleep, or a strong read without a plain store

  // ---- operands ----
  template <typename T>
  T* Row(Ref ref) {
    return reinterpret_cast<T*>(bases[ref >> 31] + (ref & ~kConstBit));
  }
  uint32_t Pred(Ref ref) { return *Row<uint32_t>(ref); }
  void SetPred(Ref ref, uint32_t active, uint32_t value) {
    uint32_t* row = Row<uint32_t>(ref);
    *row = (*row & ~active) | (value & active);
  }
  /// Moves the frame of the group; grows the register file when `bytes` beyond it do not fit.
  void EnterFrame(uint32_t frame_offset, uint32_t bytes);
  /// The frame of a function called from the frame `caller`: one for all lanes that make the call,
  /// apart from the frames of other functions, whose lanes may be in theirs at the same time.
  uint32_t FrameOf(uint32_t caller, uint32_t function_index, uint32_t bytes);
  /// Makes local memory of every lane at least `bytes` long. False beyond the limit.
  bool ReserveLocal(uint32_t bytes);

  // ---- memory: a host address, or nullptr after raising a fault ----
  uint8_t* Global(uint64_t address, uint32_t size, uint32_t lane);
  uint8_t* Shared(uint64_t offset, uint32_t size, uint32_t lane);
  uint8_t* Local(uint64_t offset, uint32_t size, uint32_t lane);
  uint8_t* KernelParam(uint64_t offset, uint32_t size, uint32_t lane);
  uint8_t* Generic(uint64_t address, uint32_t size, uint32_t lane);

  /// Stops the grid. The pc named is that of the instruction being executed.
  void Raise(FaultKind kind, uint32_t lane, const std::string& what);
  /// Writes the group's pc, frame and local base to its lanes, dissolves it and asks for a new
  /// choice. Nothing happens to lanes outside the group.
  void Park();
  /// The current lanes leave: exit, or return from the kernel.
  void Exit(uint32_t lanes);
  /// Counts a backward branch; ends the group's turn when it has had many and others are ready.
  void CountLoop() {
    if (split && --patience == 0) EndTurn();
  }
  void EndTurn();
  /// Releases lanes that wait for lanes which have exited meanwhile (warp_sync.cpp).
  void CheckWarpSync();
};

/// A named barrier of a block [9.7.13.1].
struct Barrier {
  std::array<uint32_t, kLanes> arrived{};  ///< lanes per warp
  std::array<uint32_t, kLanes> waiting{};  ///< those of them that wait (bar.arrive does not)
  uint32_t expected = 0;                   ///< threads; 0: all of the block
  uint32_t count = 0;                      ///< lanes in `arrived`
  uint32_t popc = 0;
  bool all = true, any = false;
};

struct Block {
  const Machine* machine = nullptr;
  const Grid* grid = nullptr;
  const Program* program = nullptr;
  Dim3 index;  ///< %ctaid
  uint32_t sm = 0;
  uint32_t thread_count = 0;
  uint32_t live_threads = 0;
  std::vector<std::unique_ptr<Warp>> warps;
  ZeroedBytes shared_store;
  uint8_t* shared = nullptr;  ///< 1024-byte aligned; byte 0 is shared address kSharedBase
  uint32_t shared_bytes = 0;
  uint32_t dynamic_shared_at = 0;      ///< bytes from the start of `shared`
  std::array<Barrier, 17> barriers{};  ///< 16 named ones and the cluster's
  std::unique_ptr<ReadOnlyCache> read_only;  ///< from the first read through it on
  std::unique_ptr<Fault> fault;        ///< set: no warp of the block runs again

  ~Block();

  /// Completes barriers that no longer have anyone to wait for.
  void CheckBarriers();
  void CheckBarrier(uint32_t index);
  /// Whether each thread that waits there is told what the barrier reduces; a fault if not.
  bool KeepsResults(const Barrier& barrier);
  /// The fault of a block whose threads all wait for each other: barriers and warp synchronisation
  /// are the block's own affair, nobody can wake it.
  void RaiseDeadlock();
};

/// A block ready to run. `view` belongs to the thread that will run it.
std::unique_ptr<Block> MakeBlock(const Machine& machine, const Grid& grid, Dim3 index, uint32_t sm,
                                 MemoryView* view);

enum class StepResult : uint8_t {
  kRan,      ///< at least one instruction
  kBlocked,  ///< every live lane waits at a barrier or for other lanes
  kExited,   ///< no live lane
  kFaulted,  ///< block->fault is set
};

/// Executes at most `max_instructions` warp instructions.
StepResult StepWarp(Warp& warp, uint32_t max_instructions);

/// The instruction that StepWarp would execute next, and in `lanes` for which lanes (0 where its
/// guard is false for all of them); chooses a group if there is none. nullptr: no lane can run.
const Insn* NextInsn(Warp& warp, uint32_t* lanes);

/// Calls `body(lane)` for each lane of `lanes`.
template <typename Body>
inline void ForLanes(uint32_t lanes, Body body) {
  if (lanes == kFullMask) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) body(lane);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) body(static_cast<uint32_t>(std::countr_zero(lanes)));
}

}  // namespace cupola::sim
