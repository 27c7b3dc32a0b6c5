// Speed of the interpreter on one core, in lane-instructions per second: StepWarp driven by this
// thread alone, as a stepped test drives it. The stepped mode needs 20 million per second.
#include <benchmark/benchmark.h>

#include <cstring>

#include "device/compiler/ptx/parse.h"
#include "device/sim/exec/printer.h"
#include "device/sim/exec/program.h"
#include "device/sim/exec/state.h"

namespace cupola::sim {
namespace {

constexpr char kArithmetic[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<4>; .reg .pred %p;
  mov.u32 %r0, %tid.x; mov.u32 %r1, 0; cvt.rn.f32.u32 %f0, %r0; mov.f32 %f1, 0f3F000000;
LOOP:
  mad.lo.u32 %r2, %r1, 3, %r0;
  xor.b32 %r0, %r0, %r2;
  fma.rn.f32 %f0, %f0, %f1, %f1;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p, %r1, 1000;
  @%p bra LOOP;
  ret;
})";

constexpr char kMemory[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p;
  .shared .align 4 .b8 tile[512];
  mov.u32 %r0, %tid.x; mov.u32 %r1, 0; ld.param.u64 %rd0, [out];
  mul.wide.u32 %rd1, %r0, 4; add.s64 %rd0, %rd0, %rd1;
  shl.b32 %r3, %r0, 2; mov.u32 %r4, tile; add.u32 %r3, %r3, %r4;
LOOP:
  ld.global.u32 %r2, [%rd0];
  add.u32 %r2, %r2, %r1;
  st.shared.u32 [%r3], %r2;
  bar.sync 0;
  shfl.sync.bfly.b32 %r2, %r2, 1, 31, -1;
  st.global.u32 [%rd0], %r2;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p, %r1, 1000;
  @%p bra LOOP;
  ret;
})";

constexpr char kDivergent[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<8>; .reg .pred %p<3>;
  mov.u32 %r0, %laneid; mov.u32 %r1, 0;
LOOP:
  xor.b32 %r2, %r0, %r1; and.b32 %r2, %r2, 1; setp.eq.u32 %p1, %r2, 0;
  @%p1 bra EVEN;
  mad.lo.u32 %r3, %r1, 5, %r0;
  bra NEXT;
EVEN:
  mad.lo.u32 %r3, %r1, 7, %r0;
NEXT:
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p2, %r1, 1000;
  @%p2 bra LOOP;
  ret;
})";

void Run(benchmark::State& state, const char* text) {
  auto memory = std::make_shared<AddressSpace>(1 << 26);
  auto module = ptx::Parse(text, "bench.ptx");
  if (!module) return state.SkipWithError(module.error().ToString().c_str());
  auto program = Decode(std::move(*module), memory);
  if (!program) return state.SkipWithError(program.error().ToString().c_str());
  PrintBuffer printer;
  const Machine machine{memory.get(), &printer, [](void*) -> uint64_t { return 0; }, nullptr, 1};
  MemoryView view(memory.get());
  const uint64_t buffer = memory->Allocate(4096);
  Grid grid;
  grid.program = *program;
  grid.function = (*program)->kernel_functions[0];
  grid.block = {128, 1, 1};
  grid.params.resize(8);
  std::memcpy(grid.params.data(), &buffer, 8);
  uint64_t lanes = 0;
  for (auto _ : state) {
    auto block = MakeBlock(machine, grid, {0, 0, 0}, 0, &view);
    while (block->live_threads != 0 && !block->fault) {
      for (auto& warp : block->warps) StepWarp(*warp, 512);
    }
    if (block->fault) return state.SkipWithError(block->fault->message.c_str());
    for (auto& warp : block->warps) lanes += warp->lane_instructions;
  }
  state.counters["lane_instructions"] =
      benchmark::Counter(static_cast<double>(lanes), benchmark::Counter::kIsRate);
}

void BM_Arithmetic(benchmark::State& state) { Run(state, kArithmetic); }
void BM_MemoryAndBarriers(benchmark::State& state) { Run(state, kMemory); }
void BM_Divergent(benchmark::State& state) { Run(state, kDivergent); }
BENCHMARK(BM_Arithmetic)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_MemoryAndBarriers)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Divergent)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cupola::sim

BENCHMARK_MAIN();
