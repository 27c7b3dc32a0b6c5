// Executes a warp: chooses which lanes run, and runs them one instruction after the other.
#include <emmintrin.h>
#include <fmt/format.h>

#include <algorithm>

#include "device/sim/exec/state.h"

namespace cupola::sim {
namespace {

constexpr uint32_t kNeverMerge = 0xFFFFFFFFu;
constexpr uint32_t kMaxRegisterBytes = 64u << 20;
constexpr uint32_t kMaxLocalBytes = 512u << 10;  // per lane, as on sm_90

/// The lanes that could run now.
uint32_t ReadyLanes(const Warp& warp) {
  static_assert(sizeof(LaneStatus) == 1 && kLanes == 32);
  const __m128i ready = _mm_set1_epi8(static_cast<char>(LaneStatus::kReady));
  const auto* status = reinterpret_cast<const __m128i*>(warp.status.data());
  const auto are_ready = [&](uint32_t half) {
    return static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(status + half), ready)));
  };
  return warp.live & (are_ready(0) | are_ready(1) << 16);
}

/// The lanes that are where `lane` is: of the same frame, at the same pc. Those that have exited are anywhere.
uint32_t LanesBeside(const Warp& warp, uint32_t lane) {
  const __m128i pc = _mm_set1_epi32(static_cast<int>(warp.pc[lane]));
  const __m128i frame = _mm_set1_epi32(static_cast<int>(warp.frame[lane]));
  uint32_t beside = 0;
  for (uint32_t at = 0; at < kLanes; at += 4) {
    const __m128i pcs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&warp.pc[at]));
    const __m128i frames = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&warp.frame[at]));
    const __m128i same = _mm_and_si128(_mm_cmpeq_epi32(pcs, pc), _mm_cmpeq_epi32(frames, frame));
    beside |= static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(same))) << at;
  }
  return beside;
}

/// The lane whose group runs next. The deepest frame goes first, so that the lanes of a callee
/// return before the caller goes on. Within a frame the lowest pc goes first, so that the two sides
/// of a branch meet again behind it.
uint32_t LeadingLane(const Warp& warp, uint32_t lanes) {
  uint32_t best = std::countr_zero(lanes);
  ForLanes(lanes, [&](uint32_t lane) {
    if (warp.frame[lane] > warp.frame[best] ||
        (warp.frame[lane] == warp.frame[best] && warp.pc[lane] < warp.pc[best])) {
      best = lane;
    }
  });
  return best;
}

uint32_t LongestWaitingLane(const Warp& warp, uint32_t lanes) {
  uint32_t best = std::countr_zero(lanes);
  ForLanes(lanes, [&](uint32_t lane) {
    if (warp.ran_at[lane] < warp.ran_at[best]) best = lane;
  });
  return best;
}

bool Choose(Warp& warp) {
  const uint32_t all = ReadyLanes(warp);
  const uint32_t ready = all & warp.allowed;
  warp.group = 0;
  if (ready == 0) return false;
  if (warp.patience == 0) {
    warp.patience = Warp::kPatience;
    // Turns alternate between the group that has waited longest and the usual order.
    warp.favoured = warp.favoured != 0 ? 0 : 1u << LongestWaitingLane(warp, ready);
  }
  if ((warp.favoured & ready) == 0) warp.favoured = 0;
  uint32_t lead = std::countr_zero(ready), merge = kNeverMerge;
  uint32_t group = LanesBeside(warp, lead) & ready;
  if (group != ready) {  // most often all are at one place
    lead = LeadingLane(warp, warp.favoured != 0 ? warp.favoured & ready : ready);
    group = LanesBeside(warp, lead) & ready;
    ForLanes(ready & ~group, [&](uint32_t lane) {
      if (warp.frame[lane] == warp.frame[lead] && warp.pc[lane] > warp.pc[lead] && warp.pc[lane] < merge) {
        merge = warp.pc[lane];
      }
    });
  }
  ++warp.turn;
  ForLanes(group, [&](uint32_t lane) { warp.ran_at[lane] = warp.turn; });
  if (warp.favoured != 0) warp.favoured |= group;
  warp.group = group;
  warp.group_pc = warp.pc[lead];
  warp.group_frame = warp.frame[lead];
  warp.group_local = warp.local[lead];
  warp.merge_pc = merge;
  warp.split = group != all;
  warp.waits = warp.is_to_wait && !warp.split;
  warp.is_to_wait &= warp.split;
  warp.choose = false;
  warp.bases[0] = warp.registers + warp.group_frame;
  return true;
}

}  // namespace

void Warp::Park() {
  ForLanes(group, [&](uint32_t lane) {
    pc[lane] = group_pc;
    frame[lane] = group_frame;
    local[lane] = group_local;
  });
  group = 0;
  choose = true;
}

void Warp::EndTurn() {
  patience = 0;
  Park();
}

void Warp::EnterFrame(uint32_t frame_offset, uint32_t bytes) {
  const uint64_t end = uint64_t{frame_offset} + bytes;
  if (end > kMaxRegisterBytes) {
    Raise(FaultKind::kIllegalAddress, std::countr_zero(group), "the call stack is too deep");
    return;
  }
  if (end > register_bytes) ReserveRegisters(static_cast<uint32_t>(std::max<uint64_t>(end, register_bytes * 2ull)));
  used_register_bytes = std::max(used_register_bytes, static_cast<uint32_t>(end));
  group_frame = frame_offset;
  bases[0] = registers + group_frame;
}

void Warp::ReserveRegisters(uint32_t bytes) {
  ZeroedBytes store(bytes + 64);
  uint8_t* aligned =
      reinterpret_cast<uint8_t*>((reinterpret_cast<uint64_t>(store.get()) + 63) & ~63ull);
  if (used_register_bytes != 0) std::memcpy(aligned, registers, used_register_bytes);
  register_store = std::move(store);
  registers = aligned;
  register_bytes = bytes;
}

uint32_t Warp::FrameOf(uint32_t caller, uint32_t function_index, uint32_t bytes) {
  for (const CalleeFrame& known : callee_frames) {
    if (known.caller == caller && known.function == function_index) return known.at;
  }
  // While no lane is in a call, all assigned frames are free and may be forgotten. This bounds
  // their number.
  if (callee_frames.size() >= 64 &&
      std::ranges::all_of(calls, [](const auto& stack) { return stack.empty(); })) {
    callee_frames.clear();
    frames_end = 0;
  }
  if (callee_frames.empty()) {
    const auto& entry = block->program->functions[block->grid->function];
    frames_end = std::max(frames_end, entry.frame_bytes);
  }
  callee_frames.push_back({caller, function_index, frames_end});
  frames_end += bytes;
  return callee_frames.back().at;
}

bool Warp::ReserveLocal(uint32_t bytes) {
  if (bytes <= local_stride) return true;
  if (bytes > kMaxLocalBytes) return false;
  const uint32_t stride =
      std::min(kMaxLocalBytes, (std::max({bytes, local_stride * 2, 256u}) + 15) & ~15u);
  std::vector<uint8_t> grown(size_t{stride} * kLanes + 64);
  for (uint32_t lane = 0; lane < kLanes && local_stride != 0; ++lane) {
    std::memcpy(&grown[size_t{lane} * stride], &local_memory[size_t{lane} * local_stride],
                local_stride);
  }
  local_memory = std::move(grown);
  local_stride = stride;
  return true;
}

void Warp::Exit(uint32_t lanes) {
  live &= ~lanes;
  ForLanes(lanes, [&](uint32_t lane) { status[lane] = LaneStatus::kExited; });
  block->live_threads -= std::popcount(lanes);
  Park();
  CheckWarpSync();
  block->CheckBarriers();
}

void Warp::Raise(FaultKind kind, uint32_t lane, const std::string& what) {
  choose = true;
  if (block->fault) return;
  const Dim3& shape = block->grid->block;
  const uint32_t thread = index * kLanes + lane;
  const uint32_t x = thread % shape.x, y = thread / shape.x % shape.y,
                 z = thread / shape.x / shape.y;
  const Program& program = *block->program;
  const std::string place = program.Describe(group_pc - 1);
  auto fault = std::make_unique<Fault>();
  fault->kind = kind;
  fault->message =
      fmt::format("{}: kernel {}, block ({},{},{}), thread ({},{},{}){}{}", what,
                  program.functions[block->grid->function].name, block->index.x, block->index.y,
                  block->index.z, x, y, z, place.empty() ? "" : ": ", place);
  block->fault = std::move(fault);
}

const Insn* NextInsn(Warp& warp, uint32_t* lanes) {
  if (warp.block->fault || warp.live == 0 || (warp.choose && !Choose(warp))) return nullptr;
  const Insn& in = warp.code[warp.group_pc];
  *lanes = warp.group;
  if (in.guard != kNoRef) {
    const uint32_t predicate = warp.Pred(in.guard);
    *lanes &= in.guard_negated ? ~predicate : predicate;
  }
  return &in;
}

StepResult StepWarp(Warp& warp, uint32_t max_instructions) {
  Block& block = *warp.block;
  if (block.fault) return StepResult::kFaulted;
  uint32_t left = max_instructions;
  uint64_t lanes = 0;
  warp.waits = warp.is_to_wait = false;
  while (left != 0 && !warp.waits) {
    if (warp.choose && (block.fault || warp.live == 0 || !Choose(warp))) break;
    if (warp.waits) break;
    while (left != 0) {
      const Insn& in = warp.code[warp.group_pc++];
      uint32_t active = warp.group;
      if (in.guard != kNoRef) {
        const uint32_t predicate = warp.Pred(in.guard);
        active &= in.guard_negated ? ~predicate : predicate;
      }
      --left;
      if (active != 0) {
        lanes += static_cast<uint32_t>(std::popcount(active));
        in.run(warp, in, active);
      }
      if (warp.choose) break;
      if (warp.group_pc >= warp.merge_pc) {
        warp.Park();
        break;
      }
    }
  }
  warp.instructions += max_instructions - left;
  warp.lane_instructions += lanes;
  if (block.fault) return StepResult::kFaulted;
  if (warp.live == 0) return StepResult::kExited;
  return left == max_instructions ? StepResult::kBlocked : StepResult::kRan;
}

// ---- memory ---------------------------------------------------------------------------------

uint8_t* Warp::Global(uint64_t address, uint32_t size, uint32_t lane) {
  if ((address & (size - 1)) != 0) {
    Raise(FaultKind::kMisalignedAddress, lane, fmt::format("misaligned address {:#x}", address));
    return nullptr;
  }
  if (!view->Contains(address, size)) {
    Raise(FaultKind::kIllegalAddress, lane, fmt::format("illegal address {:#x}", address));
    return nullptr;
  }
  return reinterpret_cast<uint8_t*>(address);
}

uint8_t* Warp::Shared(uint64_t offset, uint32_t size, uint32_t lane) {
  const uint64_t at = offset - kReservedAt;
  const uint64_t end = uint64_t{block->shared_bytes} + kSharedBase - kReservedAt;
  if ((offset & (size - 1)) != 0) {
    Raise(FaultKind::kMisalignedAddress, lane,
          fmt::format("misaligned shared address {:#x}", offset));
    return nullptr;
  }
  if (at >= end || end - at < size) {
    Raise(FaultKind::kIllegalAddress, lane, fmt::format("illegal shared address {:#x}", offset));
    return nullptr;
  }
  return block->shared + offset - kSharedBase;
}

uint8_t* Warp::Local(uint64_t offset, uint32_t size, uint32_t lane) {
  if ((offset & (size - 1)) != 0) {
    Raise(FaultKind::kMisalignedAddress, lane,
          fmt::format("misaligned local address {:#x}", offset));
    return nullptr;
  }
  if (offset >= local_stride || local_stride - offset < size) {
    const uint64_t at = offset - kAllocaBase;
    if (at < alloca_top[lane] && alloca_top[lane] - at < size) {
      Raise(FaultKind::kIllegalAddress, lane, fmt::format("illegal local address {:#x}", offset));
      return nullptr;
    }
    if (at < alloca_top[lane]) return alloca_memory[lane].data() + at;
    Raise(FaultKind::kIllegalAddress, lane, fmt::format("illegal local address {:#x}", offset));
    return nullptr;
  }
  return local_memory.data() + size_t{lane} * local_stride + offset;
}

uint8_t* Warp::KernelParam(uint64_t offset, uint32_t size, uint32_t lane) {
  const auto& params = block->grid->params;
  if ((offset & (size - 1)) != 0) {
    Raise(FaultKind::kMisalignedAddress, lane, fmt::format("misaligned parameter {:#x}", offset));
    return nullptr;
  }
  const uint64_t at = offset - kParameterBase;
  if (offset < kParameterBase || at >= params.size() || params.size() - at < size) {
    Raise(FaultKind::kIllegalAddress, lane, fmt::format("illegal parameter address {:#x}", offset));
    return nullptr;
  }
  return reinterpret_cast<uint8_t*>(const_cast<std::byte*>(params.data() + at));
}

uint8_t* Warp::Generic(uint64_t address, uint32_t size, uint32_t lane) {
  const uint64_t window = address - windows.base;
  if (window >= Windows::kBytes * Windows::kCount) return Global(address, size, lane);
  if (window < Windows::kBytes) return Shared(window, size, lane);
  if (window < 2 * Windows::kBytes) return Local(window - Windows::kBytes, size, lane);
  return KernelParam(window - 2 * Windows::kBytes, size, lane);
}

}  // namespace cupola::sim
