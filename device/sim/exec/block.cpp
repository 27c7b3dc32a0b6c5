// Makes blocks and completes their barriers [PTX ISA 9.7.13.1].
#include <algorithm>

#include "device/sim/exec/state.h"

namespace cupola::sim {
namespace {

uint8_t* AlignUp(uint8_t* pointer, uint64_t align) {
  return reinterpret_cast<uint8_t*>((reinterpret_cast<uint64_t>(pointer) + align - 1) &
                                    ~(align - 1));
}

/// The bytes of registers that a warp gets at once, so that they need not be copied at its calls: enough for every
/// function, where what nobody touches costs nothing.
uint32_t RegisterRoom(const Block& block) {
  const FunctionCode& entry = block.program->functions[block.grid->function];
  constexpr uint64_t kMostAtOnce = 1u << 20;
  uint64_t room = std::max(entry.frame_bytes, 64u);
  if (!entry.calls || room < ZeroedBytes::kOwnPages / 4) return static_cast<uint32_t>(room);
  for (const FunctionCode& function : block.program->functions) {
    if (&function == &entry || function.is_entry) continue;
    room = std::max(room, std::min(room + function.frame_bytes, kMostAtOnce));
  }
  return static_cast<uint32_t>(room);
}

std::unique_ptr<Warp> MakeWarp(Block& block, uint32_t index, uint32_t register_room, MemoryView* view) {
  const FunctionCode& function = block.program->functions[block.grid->function];
  auto warp = std::make_unique<Warp>();
  warp->block = &block;
  warp->index = index;
  const uint32_t threads = std::min(kLanes, block.thread_count - index * kLanes);
  warp->exists = threads == kLanes ? kFullMask : (1u << threads) - 1;
  warp->live = warp->exists;
  warp->code = block.program->code.data();
  warp->bases[1] = block.program->constants_base;
  warp->view = view;
  warp->observer = block.machine->observer;
  warp->windows = block.machine->memory->windows();
  warp->ReserveRegisters(register_room);
  warp->EnterFrame(0, std::max(function.frame_bytes, 64u));
  warp->ReserveLocal(function.local_bytes);
  warp->pc.fill(function.entry_pc);
  warp->function.fill(block.grid->function);
  for (uint32_t lane = threads; lane < kLanes; ++lane) warp->status[lane] = LaneStatus::kExited;
  return warp;
}

}  // namespace

std::unique_ptr<Block> MakeBlock(const Machine& machine, const Grid& grid, Dim3 index, uint32_t sm,
                                 MemoryView* view) {
  auto block = std::make_unique<Block>();
  block->machine = &machine;
  block->grid = &grid;
  block->program = grid.program.get();
  block->index = index;
  block->sm = sm;
  block->thread_count = grid.block.x * grid.block.y * grid.block.z;
  block->live_threads = block->thread_count;
  const FunctionCode& function = grid.program->functions[grid.function];
  block->dynamic_shared_at = function.dynamic_shared_at;
  block->shared_bytes = function.dynamic_shared_at + grid.dynamic_shared_bytes;
  // The reserved part of shared memory lies below byte 0 of the block's own part.
  block->shared_store = ZeroedBytes(block->shared_bytes + 2 * kSharedBase);
  block->shared = AlignUp(block->shared_store.get() + kSharedBase, kSharedBase);
  if (machine.stale_shared != nullptr) {
    machine.stale_shared->Fill(block->shared, block->shared_bytes);
  }
  const uint32_t warps = (block->thread_count + kLanes - 1) / kLanes;
  const uint32_t room = RegisterRoom(*block);
  for (uint32_t w = 0; w < warps; ++w) block->warps.push_back(MakeWarp(*block, w, room, view));
  return block;
}

Block::~Block() {
  if (machine != nullptr && machine->stale_shared != nullptr && shared != nullptr) {
    machine->stale_shared->Leave(shared, shared_bytes);
  }
}

void Block::CheckBarriers() {
  for (uint32_t i = 0; i < barriers.size(); ++i) {
    if (barriers[i].count != 0) CheckBarrier(i);
  }
}

void Block::RaiseDeadlock() {
  for (auto& warp : warps) {
    if (warp->live == 0) continue;
    const uint32_t lane = static_cast<uint32_t>(std::countr_zero(warp->live));
    warp->group_pc = warp->pc[lane] + 1;
    warp->Raise(FaultKind::kTrap, lane, "deadlock, every thread of the block waits");
    return;
  }
}

// Where lanes of a warp wait at different barrier instructions, a GPU executes one of these instructions for all of
// them. That one writes the result of the reduction to its own destination, so lanes at another instruction find the
// old value in the register that theirs names.
bool Block::KeepsResults(const Barrier& barrier) {
  for (size_t w = 0; w < warps.size(); ++w) {
    Warp& warp = *warps[w];
    const uint32_t lanes = barrier.waiting[w] & warp.live;
    bool has_result = false, apart = false, unaligned = false;
    uint32_t first = kNoRef;
    ForLanes(lanes, [&](uint32_t lane) {
      const Insn& in = warp.code[warp.pc[lane]];
      if (first == kNoRef) first = warp.pc[lane];
      apart = apart || warp.pc[lane] != first;
      unaligned = unaligned || !in.aligned;
      has_result = has_result || in.d != kNoRef;
    });
    if (!has_result || !apart || !unaligned) continue;
    warp.Park();
    const uint32_t lane = static_cast<uint32_t>(std::countr_zero(lanes));
    warp.group_pc = warp.pc[lane] + 1;
    warp.Raise(FaultKind::kIllegalInstruction, lane,
               "lanes of a warp at two barriers, of which one has a result: who is told it is not known");
    return false;
  }
  return true;
}

void Block::CheckBarrier(uint32_t index_) {
  Barrier& barrier = barriers[index_];
  uint32_t present = barrier.count;
  if (barrier.expected == 0) {
    // Exited threads are not waited for, and not counted if they arrived before they exited.
    present = 0;
    for (size_t w = 0; w < warps.size(); ++w) {
      present += static_cast<uint32_t>(std::popcount(barrier.arrived[w] & warps[w]->live));
    }
    if (present < live_threads) return;
  } else {
    // A barrier for a number of threads counts whole warps. Lanes without a thread, and lanes whose
    // thread has exited, count as arrived when the first lane of their warp arrives.
    for (size_t w = 0; w < warps.size(); ++w) {
      if (barrier.arrived[w] != 0) {
        present += static_cast<uint32_t>(std::popcount(~warps[w]->live & ~barrier.arrived[w]));
      }
    }
    if (present < barrier.expected) return;
  }
  if (!KeepsResults(barrier)) return;
  const Barrier done = barrier;
  if (machine->observer != nullptr) machine->observer->CompleteBarrier(*this, done);
  barrier = Barrier{};
  for (size_t w = 0; w < warps.size(); ++w) {
    Warp& warp = *warps[w];
    if (done.waiting[w] != 0) warp.Park();
    ForLanes(done.waiting[w] & warp.live, [&](uint32_t lane) {
      const Insn& in = warp.code[warp.pc[lane]];
      if (in.d != kNoRef) {
        uint8_t* frame = warp.registers + warp.frame[lane];
        uint32_t* row = reinterpret_cast<uint32_t*>(frame + in.d);
        if (in.small == 1) {
          row[lane] = done.popc;
        } else {
          const bool value = in.small == 2 ? done.all : done.any;
          *row = value ? *row | (1u << lane) : *row & ~(1u << lane);
        }
      }
      warp.status[lane] = LaneStatus::kReady;
      ++warp.pc[lane];
    });
  }
}

}  // namespace cupola::sim
