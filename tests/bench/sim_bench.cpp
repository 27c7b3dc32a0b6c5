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

/// Instructions whose rounding is done in software: halves, conversions, directed roundings.
constexpr char kRounding[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .f64 %d<4>; .reg .pred %p;
  mov.u32 %r0, %tid.x; mov.u32 %r1, 0; cvt.rn.f32.u32 %f0, %r0; mov.f32 %f1, 0f3F000001;
LOOP:
  fma.rz.f32 %f2, %f0, %f1, %f1;
  cvt.rn.f16.f32 %h0, %f2;
  fma.rn.f16 %h1, %h0, %h0, %h0;
  cvt.rn.bf16.f32 %h2, %f2;
  fma.rn.bf16 %h3, %h2, %h2, %h2;
  cvt.f32.bf16 %f3, %h3;
  add.rp.f32 %f0, %f3, %f1;
  cvt.rzi.s32.f32 %r2, %f0;
  div.rn.f32 %f0, %f1, %f2;
  ex2.approx.ftz.f32 %f0, %f0;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p, %r1, 1000;
  @%p bra LOOP;
  ret;
})";

constexpr char kAtomicsAndCalls[] = R"(
.version 8.0
.target sm_90
.address_size 64
.func (.param .b32 r) next(.param .b32 a)
{
  .reg .b32 %a;
  ld.param.b32 %a, [a];
  add.u32 %a, %a, 1;
  st.param.b32 [r], %a;
  ret;
}
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p;
  mov.u32 %r0, %tid.x; mov.u32 %r1, 0; ld.param.u64 %rd0, [out];
  mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %rd0, %rd1;
LOOP:
  atom.global.add.u32 %r2, [%rd1], %r1;
  red.global.max.u32 [%rd0], %r2;
  ld.acquire.gpu.global.u32 %r3, [%rd1];
  vote.sync.ballot.b32 %r4, %p, -1;
  redux.sync.add.u32 %r5, %r3, -1;
  {
    .param .b32 a; .param .b32 r;
    st.param.b32 [a], %r1;
    call.uni (r), next, (a);
    ld.param.b32 %r1, [r];
  }
  setp.lt.u32 %p, %r1, 1000;
  @%p bra LOOP;
  ret;
})";

/// Counts as one instruction a lane, though each does 128 fused multiplications.
constexpr char kMatrices[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .pred %p;
  mov.u32 %r0, 0x3c003c00; mov.u32 %r1, 0;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
LOOP:
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r0, %r0, %r0},
    {%r0, %r0}, {%f0, %f1, %f2, %f3};
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p, %r1, 1000;
  @%p bra LOOP;
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
void BM_Rounding(benchmark::State& state) { Run(state, kRounding); }
void BM_AtomicsAndCalls(benchmark::State& state) { Run(state, kAtomicsAndCalls); }
void BM_Matrices(benchmark::State& state) { Run(state, kMatrices); }
BENCHMARK(BM_Arithmetic)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_MemoryAndBarriers)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Divergent)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Rounding)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_AtomicsAndCalls)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Matrices)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cupola::sim

BENCHMARK_MAIN();
