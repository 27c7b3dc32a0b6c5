// The state of running blocks: plain data that one thread at a time owns and touches (an SM's
// thread in free mode, free_run.h; the test's thread in stepped mode, stepped_run.h). It has no
// threads, locks or clocks of its own; a warp advances only when StepWarp is called. The handlers
// of instructions (ops_*.cpp) change it.
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

/// What the blocks of all grids of a device share. The device owns everything that it points to.
struct Machine {
  AddressSpace* memory = nullptr;
  PrintBuffer* printer = nullptr;
  uint64_t (*now_ns)(void* self) = nullptr;  ///< the value of %globaltimer
  void* now_self = nullptr;                  ///< the argument of now_ns
  uint32_t sm_count = 1;
  Observer* observer = nullptr;         ///< null in free mode
  StaleShared* stale_shared = nullptr;  ///< null: shared memory begins as zeros
};

/// One launched grid, as its blocks see it.
struct Grid {
  std::shared_ptr<const Program> program;
  uint32_t function = 0;  ///< index into program->functions
  Dim3 grid;              ///< blocks
  Dim3 block;             ///< threads
  uint32_t dynamic_shared_bytes = 0;
  uint64_t id = 0;         ///< unique on the device
  uint64_t workspace = 0;  ///< address for grid.sync(), in %envreg1:%envreg2; 0 unless cooperative
  std::vector<std::byte> params;
};

enum class LaneStatus : uint8_t {
  kReady,
  kBarrier,   ///< waits at a barrier of the block; its pc is that of the barrier instruction
  /// Waits at an instruction for the lanes of a mask; its pc is that of the instruction.
  kWarpSync,
  kExited,
};

/// The return address of a call and the values that the return restores.
struct CallFrame {
  uint32_t pc;     ///< to which the call returns
  uint32_t frame;  ///< the caller's Warp::frame
  uint32_t local;  ///< the caller's Warp::local
  uint32_t site;   ///< index into Program::call_sites
  uint32_t function;    ///< index of the caller
  uint32_t alloca_top;  ///< the caller's Warp::alloca_top
};

/// The operands of a lane that waits at an instruction for other lanes of its warp. What `a`, `b`,
/// `c` and `wide` are depends on the instruction (ops_warp.cpp).
struct SyncArrival {
  uint32_t mask = 0;  ///< the lanes that the instruction joins
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint64_t wide = 0;  ///< an operand of 64 bits
};

/// A warp. The *group* is the set of lanes that run now, with one pc and one frame. Lanes outside
/// the group keep their own in `pc` and `frame`; the entries of lanes of the group are stale until
/// Park().
struct Warp {
  static constexpr uint32_t kPatience = 256;  ///< first value of `patience`
  /// Local addresses from here on belong to alloca; those below belong to the frames of functions.
  static constexpr uint32_t kAllocaBase = 8u << 20;

  Block* block = nullptr;
  uint32_t index = 0;   ///< in the block
  uint32_t exists = 0;  ///< mask of the lanes that have a thread
  uint32_t live = 0;    ///< mask of the lanes that have a thread which has not exited

  // The group. `group` == 0: none is chosen yet.
  uint32_t group = 0;        ///< mask of its lanes
  uint32_t group_pc = 0;     ///< of its next instruction
  uint32_t group_frame = 0;  ///< as `frame`
  uint32_t group_local = 0;  ///< as `local`
  /// The lowest pc at which other ready lanes of the same frame wait. When the group gets there or
  /// beyond, a group is chosen again, so that the lanes join.
  uint32_t merge_pc = 0;
  bool choose = true;        ///< a group must be chosen before the next instruction
  bool split = false;        ///< lanes outside the group are ready too
  uint32_t patience = kPatience;  ///< backward branches left before another group gets its turn
  /// Mask of the lanes whose turn it is, because they had waited longest; 0: the usual order, in
  /// which the deepest frame runs first, and in a frame the lowest pc.
  uint32_t favoured = 0;
  uint32_t allowed = kFullMask;   ///< mask of the lanes that may be chosen (stepped mode limits it)

  uint8_t* bases[2] = {nullptr, nullptr};  ///< the group's frame, and the pool of constants
  const Insn* code = nullptr;              ///< Program::code, which a pc indexes
  MemoryView* view = nullptr;              ///< belongs to the thread that runs the block
  Observer* observer = nullptr;            ///< Machine::observer
  Windows windows;

  std::array<uint32_t, kLanes> pc{};
  std::array<uint32_t, kLanes> frame{};     ///< byte offset of the frame in `registers`
  std::array<uint32_t, kLanes> local{};     ///< byte offset of the local frame in the lane's memory
  std::array<uint32_t, kLanes> function{};  ///< index of the function that the lane runs
  std::array<uint64_t, kLanes> ran_at{};    ///< value of `turn` when the lane was last in a group
  std::array<LaneStatus, kLanes> status{};
  std::array<std::vector<CallFrame>, kLanes> calls;  ///< stacks of calls
  std::array<SyncArrival, kLanes> sync{};            ///< valid while the lane's status is kWarpSync
  uint64_t turn = 0;  ///< number of groups chosen so far

  ZeroedBytes register_store;
  uint8_t* registers = nullptr;  ///< in register_store, 64-byte aligned
  uint32_t register_bytes = 0;
  uint32_t used_register_bytes = 0;  ///< up to the end of the last frame entered; zeros beyond
  /// In stepped mode a bit for each kWrittenPiece bytes of the registers: 0 where nothing was written. What follows the
  /// last word was not written either.
  std::vector<uint64_t> written;
  static constexpr uint32_t kWrittenPiece = 128;
  struct CalleeFrame {
    uint32_t caller;    ///< frame of the caller
    uint32_t function;  ///< index of the callee
    uint32_t at;        ///< frame of the callee
  };
  std::vector<CalleeFrame> callee_frames;  ///< those that FrameOf has assigned
  uint32_t frames_end = 0;                 ///< bytes of `registers` assigned to frames
  std::vector<uint8_t> local_memory;       ///< that of a lane begins at lane * local_stride
  uint32_t local_stride = 0;               ///< bytes of local memory per lane
  std::array<std::vector<uint8_t>, kLanes> alloca_memory;  ///< each begins at address kAllocaBase
  std::array<uint32_t, kLanes> alloca_top{};               ///< bytes of alloca_memory in use

  uint32_t carry = 0;              ///< CC.CF, a bit per lane [9.7.2]
  uint64_t instructions = 0;       ///< number of warp instructions executed
  uint64_t lane_instructions = 0;  ///< the same, counted for each lane
  /// The warp seems only to wait: it executed nanosleep, an atomic or a strong read, and no plain
  /// store since.
  bool rested = false;
  /// The warp has ended its turn before its time because it only waits (AwaitOthers). In free mode only.
  bool waits = false;
  bool is_to_wait = false;  ///< the turn is to end when all ready lanes are in the group
  /// A place in the code at which the warp has looked at something, and what it saw there.
  struct Look {
    uint32_t pc = ~0u;
    uint64_t seen = 0;
  };
  static constexpr uint32_t kLooksOfAWait = 8;
  std::array<Look, 32> looks{};   ///< the last ones, by pc
  uint32_t same_looks = 0;       ///< looks in a row that saw what the one before it at the same place saw
  /// The mbarrier for which all ready lanes wait, and what it held; null: there is none. Until it holds something else
  /// the warp needs no turn.
  const volatile uint64_t* awaited = nullptr;
  uint64_t awaited_word = 0;
  uint32_t awaited_turns = 0;  ///< turns that it has not needed since

  // ---- operands ----
  /// The 32 cells of a register of the group's frame, or of a constant (program.h).
  template <typename T>
  T* Row(Ref ref) {
    return reinterpret_cast<T*>(bases[ref >> 31] + (ref & ~kConstBit));
  }
  uint32_t Pred(Ref ref) { return *Row<uint32_t>(ref); }
  void SetPred(Ref ref, uint32_t active, uint32_t value) {
    uint32_t* row = Row<uint32_t>(ref);
    *row = (*row & ~active) | (value & active);
  }
  /// Moves the group's frame; grows the register file when a frame of `bytes` does not fit there.
  void EnterFrame(uint32_t frame_offset, uint32_t bytes);
  /// In stepped mode: these bytes of the registers are going to be written.
  void NoteWritten(uint32_t at, uint32_t bytes) {
    const uint32_t last = (at + bytes - 1) / kWrittenPiece;
    if (last / 64 >= written.size()) written.resize(last / 64 + 1);
    for (uint32_t piece = at / kWrittenPiece; piece <= last; ++piece) written[piece / 64] |= 1ull << piece % 64;
  }
  /// Makes the register file `bytes` long, which are no fewer than are used.
  void ReserveRegisters(uint32_t bytes);
  /// The frame of a function that is called from the frame `caller`. All lanes that make the call
  /// share it. It does not overlap frames of other functions, which other lanes may be running.
  uint32_t FrameOf(uint32_t caller, uint32_t function_index, uint32_t bytes);
  /// Makes the local memory of every lane at least `bytes` long. False beyond the limit.
  bool ReserveLocal(uint32_t bytes);

  // ---- memory: each gives a host address, or nullptr after it has raised a fault ----
  uint8_t* Global(uint64_t address, uint32_t size, uint32_t lane);
  uint8_t* Shared(uint64_t offset, uint32_t size, uint32_t lane);
  uint8_t* Local(uint64_t offset, uint32_t size, uint32_t lane);
  uint8_t* KernelParam(uint64_t offset, uint32_t size, uint32_t lane);
  uint8_t* Generic(uint64_t address, uint32_t size, uint32_t lane);

  /// Stops the grid with a fault at the instruction that is being executed.
  void Raise(FaultKind kind, uint32_t lane, const std::string& what);
  /// Writes the group's pc, frame and local base to its lanes, dissolves the group and has a group
  /// chosen before the next instruction. Lanes outside the group are not touched.
  void Park();
  /// Ends the threads of these lanes: they exited, or returned from the kernel.
  void Exit(uint32_t lanes);
  /// Counts a backward branch. After kPatience of them the group's turn ends if other lanes are
  /// ready.
  void CountLoop() {
    if (split && --patience == 0) EndTurn();
  }
  void EndTurn();
  /// Ends the warp's turn, as it only waits for others: for the time, for another warp, for the program. Called behind
  /// all else that an instruction does. Where other lanes are ready too, the turn ends when all have come together, if
  /// the warp has written nothing until then.
  void AwaitOthers() {
    rested = true;
    if (observer != nullptr || group == 0) return;
    waits = !split;
    is_to_wait = split;
    if (waits) Park();
  }
  /// The instruction looked at something that others change, and saw `seen`. A warp that sees the same at the same
  /// places again and again, and writes nothing, only waits.
  void CountLook(uint64_t seen) {
    Look& look = looks[group_pc % looks.size()];
    const bool is_same = look.pc == group_pc && look.seen == seen;
    look = {group_pc, seen};
    same_looks = is_same ? same_looks + 1 : 0;
    if (same_looks >= kLooksOfAWait) AwaitOthers();
  }
  /// Whether the warp needs no turn yet. At times it gets one nevertheless: a thread is not suspended for ever.
  bool StillAwaits() {
    static constexpr uint32_t kMostTurns = 64;
    if (awaited == nullptr) return false;
    if (*awaited == awaited_word && ++awaited_turns < kMostTurns) return true;
    awaited = nullptr;
    awaited_turns = 0;
    return false;
  }
  /// The warp did something that others see, or came together with others.
  void CountProgress() {
    is_to_wait = false;
    same_looks = 0;
  }
  void CountStore() {
    rested = false;
    CountProgress();
  }
  /// Lets lanes go on that wait at an instruction only for lanes that have exited since
  /// (ops_warp.cpp).
  void CheckWarpSync();
};

/// A named barrier of a block [9.7.13.1].
struct Barrier {
  std::array<uint32_t, kLanes> arrived{};  ///< mask of the lanes that have arrived, for each warp
  std::array<uint32_t, kLanes> waiting{};  ///< those of them that wait (after bar.arrive none does)
  uint32_t expected = 0;                   ///< number of threads; 0: all of the block
  uint32_t count = 0;                      ///< number of lanes in `arrived`
  uint32_t popc = 0;                       ///< result of bar.red.popc so far
  bool all = true;                         ///< result of bar.red.and so far
  bool any = false;                        ///< result of bar.red.or so far
};

struct Block {
  const Machine* machine = nullptr;
  const Grid* grid = nullptr;
  const Program* program = nullptr;
  Dim3 index;  ///< %ctaid
  uint32_t sm = 0;  ///< %smid
  uint32_t thread_count = 0;
  uint32_t live_threads = 0;  ///< threads that have not exited
  std::vector<std::unique_ptr<Warp>> warps;
  ZeroedBytes shared_store;
  uint8_t* shared = nullptr;  ///< 1024-byte aligned; byte 0 is shared address kSharedBase
  uint32_t shared_bytes = 0;
  uint32_t dynamic_shared_at = 0;      ///< bytes from the start of `shared`
  std::array<Barrier, 17> barriers{};  ///< the 16 named ones, then that of the cluster
  std::unique_ptr<ReadOnlyCache> read_only;  ///< null before the first read through the cache
  std::unique_ptr<Fault> fault;        ///< once set, no warp of the block runs again

  ~Block();

  /// Completes every barrier at which no further thread is expected.
  void CheckBarriers();
  void CheckBarrier(uint32_t index);
  /// Whether each waiting thread would get the result of the barrier's reduction; raises a fault if
  /// not.
  bool KeepsResults(const Barrier& barrier);
  /// Raises the fault of a block whose threads all wait for each other. Only threads of the block
  /// can complete its barriers and warp synchronisation, so nobody could wake it.
  void RaiseDeadlock();
};

/// Makes a block that is ready to run. `view` belongs to the thread that will run it.
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

/// The instruction that StepWarp would execute next. `lanes` becomes the mask of the lanes that
/// would execute it, 0 where its guard is false for all of them. Chooses a group if there is none.
/// Returns nullptr when no lane can run.
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
