// One module to one bundle, with a compiler that refuses, hangs or spills where a test says so.
#include "device/compiler/build/module_build.h"

#include <gtest/gtest.h>

#include <atomic>

#include "device/compiler/build/code.h"
#include "device/compiler/store/bundle.h"
#include "tests/unit/build/multiply_add_registers.h"
#include "tests/unit/build/real_ptxas.h"

namespace cupola::build {
namespace {

constexpr char kHead[] = ".version 8.0\n.target sm_80\n.address_size 64\n";

std::string Kernel(const std::string& name, const std::string& body = "") {
  return ".visible .entry " + name + "(.param .u64 p, .param .u32 n)\n{\n" + R"(
.reg .f32 %f<9>; .reg .b64 %a<9>; .reg .b32 %r<9>;
ld.param.u64 %a0, [p];
cvta.to.global.u64 %a1, %a0;
mov.u32 %r0, %ctaid.x;
mul.wide.u32 %a2, %r0, 4;
add.s64 %a3, %a1, %a2;
ld.global.f32 %f0, [%a3];
)" + body +
         "\nadd.f32 %f1, %f0, %f0;\nst.global.f32 [%a3], %f1;\nret;\n}\n";
}

// ptxas, but for texts that a test wants treated otherwise.
class TestCompiler final : public RealPtxas {
 public:
  Result<std::vector<uint8_t>> Compile(const CompileInput& input) const override {
    ++calls;
    const auto has = [&](const std::string& word) {
      return !word.empty() && input.ptx.find(word) != std::string_view::npos;
    };
    if (has(refuse)) return MakeError(ErrorCode::kUnsupported, "ptxas: cannot do it");
    const bool has_time = input.limit > ModuleOptions{}.limit;
    const bool is_long = has(long_with) && has(long_together) && !has_time;
    if (has(hang) || is_long) return MakeError(ErrorCode::kExhausted, "ptxas took longer than 1 s");
    Result<std::vector<uint8_t>> cubin = RealPtxas::Compile(input);
    if (!cubin || !has("cupola_run_body")) return cubin;
    // What holds values while a body runs compares them with this.
    SetMultiplyAddRegisters(*cubin, 1, 3, has("4294967295") ? held_register : first_register);
    ++task_calls;
    return cubin;
  }

  std::string refuse, hang;
  std::string long_together, long_with;  // a text with both takes longer than the usual limit
  // Read by multiply-adds of tasks beside 1 and 3: as the module is first, and with values held.
  uint64_t first_register = 2, held_register = 2;
  mutable std::atomic<uint32_t> task_calls{0};
  mutable std::atomic<uint32_t> calls{0};
};

class ModuleBuildTest : public RealPtxasTest {
 protected:
  store::BundleView Build(const std::string& ptx, const ModuleOptions& options = {}) {
    const ModuleInput input{.name = "test", .ptx = ptx};
    Result<BuiltModule> built = BuildModule(input, options, compiler_);
    EXPECT_TRUE(built) << built.error().ToString();
    if (!built) return {};
    bundle_ = std::move(built->bundle);
    Result<store::BundleView> view = store::BundleView::Open(bundle_);
    EXPECT_TRUE(view);
    return view ? *view : store::BundleView();
  }

  TestCompiler compiler_;
  std::vector<std::byte> bundle_;
};

TEST_F(ModuleBuildTest, VariantsAndTheirFacts) {
  const store::BundleView view = Build(kHead + Kernel("first") + Kernel("second"));
  ASSERT_EQ(view.kernels().size(), 2u);
  const store::KernelEntry* first = view.Find("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->flags & (store::kPreemptible | store::kSliced | store::kNotBitExact),
            store::kPreemptible | store::kSliced);
  EXPECT_GT(first->registers, 0u);
  EXPECT_GE(first->variant_registers, first->registers);
  EXPECT_EQ(first->parameter_bytes, 12u);
  EXPECT_EQ(first->launch_offset, 16u);
  ASSERT_EQ(view.parameters(*first).size(), 2u);
  EXPECT_EQ(view.parameters(*first)[0].is_pointer, 1u);
  EXPECT_EQ(view.parameters(*first)[1].is_pointer, 0u);
  EXPECT_NE(std::string(view.ptx(store::ImageKind::kSide)).find("first__cupola_preemptible"), std::string::npos);
  EXPECT_FALSE(view.cubin(store::ImageKind::kSide).empty());
  EXPECT_EQ(view.header().flags, 0u);
}

TEST_F(ModuleBuildTest, WhatTheCompilerRefusesIsLeftOut) {
  std::string ptx = kHead;
  for (int i = 0; i < 6; ++i) ptx += Kernel("k" + std::to_string(i));
  compiler_.refuse = "k4__cupola_preemptible";
  const store::BundleView view = Build(ptx);
  ASSERT_EQ(view.kernels().size(), 6u);
  for (const store::KernelEntry& kernel : view.kernels()) {
    const std::string name = view.Text(kernel.name_offset);
    const std::string refusal = view.Text(kernel.refusal_offset);
    EXPECT_EQ(refusal, name == "k4" ? "ptxas: cannot do it" : "") << name;
    EXPECT_EQ((kernel.flags & store::kPreemptible) != 0, name != "k4") << name;
    EXPECT_GT(kernel.registers, 0u);
  }
  EXPECT_EQ(view.header().flags, 0u) << "it would be refused again";
}

TEST_F(ModuleBuildTest, WhatTakesTooLongIsLeftOutForNow) {
  compiler_.hang = "slow__cupola";
  const store::BundleView view = Build(kHead + Kernel("slow") + Kernel("fast"));
  EXPECT_EQ(view.Find("slow")->flags, 0u);
  EXPECT_STREQ(view.Text(view.Find("slow")->refusal_offset), "ptxas took longer than 1 s");
  EXPECT_NE(view.Find("fast")->flags & store::kPreemptible, 0u);
  EXPECT_EQ(view.header().flags, store::kIncomplete);
}

TEST_F(ModuleBuildTest, WhatHasTimeAtTheSecondTryIsComplete) {
  compiler_.long_together = "one__cupola_preemptible";
  compiler_.long_with = "other__cupola_preemptible";
  const store::BundleView view = Build(kHead + Kernel("one") + Kernel("other"));
  EXPECT_NE(view.Find("one")->flags & store::kPreemptible, 0u);
  EXPECT_NE(view.Find("other")->flags & store::kPreemptible, 0u);
  EXPECT_EQ(view.header().flags, 0u) << "nothing is missing";
}

TEST_F(ModuleBuildTest, AnOriginalThatDoesNotCompile) {
  compiler_.refuse = ".version";
  const store::BundleView view = Build(kHead + Kernel("k"));
  EXPECT_EQ(view.Find("k")->flags, 0u);
  EXPECT_TRUE(view.cubin(store::ImageKind::kSide).empty());
  EXPECT_EQ(view.ptx(store::ImageKind::kSide), nullptr);
  EXPECT_EQ(compiler_.calls, 1u);
}

// Tasks are compiled again, with other registers for bodies, where multiply-adds read one bank.
TEST_F(ModuleBuildTest, TasksWithoutBankConflicts) {
  const std::string ptx = kHead + Kernel("k",
                                         "ld.global.f32 %f3, [%a3+4];\n"
                                         "ld.global.f32 %f4, [%a3+8];\n"
                                         "fma.rn.f32 %f0, %f0, %f3, %f4;");
  const auto conflicts = [this](const store::BundleView& view) {
    const auto task = view.cubin(store::ImageKind::kTasks);
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(task.data());
    const Result<Code> code = ReadCode({bytes, bytes + task.size()});
    EXPECT_TRUE(code);
    return code ? code->BankConflicts() : 0;
  };
  const auto calls = [this] { return compiler_.task_calls.exchange(0); };
  EXPECT_EQ(conflicts(Build(ptx)), 0u);
  EXPECT_EQ(calls(), 1u);
  compiler_.first_register = 5;
  EXPECT_EQ(conflicts(Build(ptx)), 0u);
  EXPECT_EQ(calls(), 2u);
  compiler_.held_register = 5;
  EXPECT_GT(conflicts(Build(ptx)), 0u) << "there is none without";
  EXPECT_EQ(calls(), 6u);
}

TEST_F(ModuleBuildTest, OnlyTheKernelsAskedFor) {
  ModuleOptions options{.wants = [](const std::string& name) { return name == "beta"; }};
  const store::BundleView view = Build(kHead + Kernel("alpha") + Kernel("beta"), options);
  ASSERT_EQ(view.kernels().size(), 1u);
  EXPECT_EQ(std::string(view.ptx(store::ImageKind::kSide)).find("alpha"), std::string::npos);
  options.wants = [](const std::string&) { return false; };
  const std::string ptx = kHead + Kernel("alpha");
  const Result<BuiltModule> none = BuildModule({.ptx = ptx}, options, compiler_);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->bundle.empty());
  EXPECT_FALSE(BuildModule({.ptx = "no PTX"}, {}, compiler_));
}

// The program ships code that does its floating point otherwise: fused, where ours cannot be.
TEST_F(ModuleBuildTest, AnotherFusionIsNotBitExact) {
  const std::string shipped_ptx =
      kHead + Kernel("k", "mul.f32 %f2, %f0, %f0; add.f32 %f0, %f2, %f0;");
  const std::string ptx = kHead + Kernel("k",
                                         "mul.f32 %f2, %f0, %f0; add.f32 %f0, %f2, %f0; "
                                         "mul.f32 %f3, %f2, %f2; add.f32 %f0, %f0, %f3;");
  const Result<std::vector<uint8_t>> shipped = compiler_.Compile({.ptx = shipped_ptx});
  ASSERT_TRUE(shipped);
  const Result<BuiltModule> built =
      BuildModule({.name = "test", .ptx = ptx, .shipped_cubin = *shipped}, {}, compiler_);
  ASSERT_TRUE(built);
  const Result<store::BundleView> view = store::BundleView::Open(built->bundle);
  const store::KernelEntry* kernel = view->Find("k");
  EXPECT_EQ(kernel->flags,
            store::kPreemptible | store::kSliced | store::kTask | store::kNotBitExact |
                store::kSlicedNotBitExact | store::kTaskNotBitExact);
  const std::string why = view->Text(kernel->exactness_offset);
  EXPECT_NE(why.find("(original"), std::string::npos) << why;
  // The same code from the same PTX is.
  const Result<std::vector<uint8_t>> own = compiler_.Compile({.ptx = ptx});
  const Result<BuiltModule> exact =
      BuildModule({.name = "test", .ptx = ptx, .shipped_cubin = *own}, {}, compiler_);
  EXPECT_EQ(store::BundleView::Open(exact->bundle)->Find("k")->flags,
            store::kPreemptible | store::kSliced | store::kTask);
}

// The program ships code in which nothing was fused, although its PTX would let it: variants and bodies
// are told to leave it so, each kernel by what was shipped of it.
TEST_F(ModuleBuildTest, WhatWasNotFusedIsNotFusedEither) {
  const std::string may = "mul.f32 %f2, %f0, %f0; add.f32 %f0, %f2, %f0;",
                    not_fused = "mul.rn.f32 %f2, %f0, %f0; add.rn.f32 %f0, %f2, %f0;";
  const std::string ptx = kHead + Kernel("left", may) + Kernel("fused", may);
  const Result<std::vector<uint8_t>> shipped =
      compiler_.Compile({.ptx = kHead + Kernel("left", not_fused) + Kernel("fused", may)});
  ASSERT_TRUE(shipped);
  const Result<BuiltModule> built =
      BuildModule({.name = "test", .ptx = ptx, .shipped_cubin = *shipped}, {}, compiler_);
  ASSERT_TRUE(built);
  const Result<store::BundleView> view = store::BundleView::Open(built->bundle);
  EXPECT_EQ(view->Find("left")->flags, store::kPreemptible | store::kSliced | store::kTask);
  const std::string side = view->ptx(store::ImageKind::kSide);
  const size_t left = side.find("left__cupola_preemptible"),
               fused = side.find("fused__cupola_preemptible");
  EXPECT_NE(side.substr(left, fused - left).find("mul.rn.f32"), std::string::npos);
  EXPECT_EQ(side.substr(fused).find("mul.rn.f32"), std::string::npos);
  EXPECT_NE(std::string(view->ptx(store::ImageKind::kTasks)).find("add.rn.f32"), std::string::npos);
}

// Loads `held` values and adds them up from the last, so that all are held at a time. Between, it
// adds up `streamed` others in their order: ptxas loads as many ahead as it has registers for.
std::string Holding(int held, int streamed = 0) {
  std::string body;
  const auto load = [&](int i, const char* type) {
    const std::string n = std::to_string(i);
    body += ".reg .f32 %x" + n + "; ld" + type + ".global.f32 %x" + n + ", [%a3+" +
            std::to_string(4 * i) + "];\n";
  };
  const auto add = [&](int i) { body += "add.rn.f32 %f0, %f0, %x" + std::to_string(i) + ";\n"; };
  for (int i = 0; i < held; ++i) load(i, ".volatile");
  for (int i = held; i < held + streamed; ++i) load(i, ""), add(i);
  for (int i = held; i-- > 0;) add(i);
  return kHead + Kernel("k", body);
}

// Options of the original go to the variant: its registers are bounded as the original's were.
TEST_F(ModuleBuildTest, OptionsOfTheOriginal) {
  const std::string ptx = Holding(60);
  const Result<BuiltModule> free = BuildModule({.ptx = ptx}, {}, compiler_);
  const Result<BuiltModule> bound =
      BuildModule({.ptx = ptx, .options = " -maxrregcount=32 "}, {}, compiler_);
  ASSERT_TRUE(free && bound);
  const store::KernelEntry* k = store::BundleView::Open(free->bundle)->Find("k");
  EXPECT_GT(k->variant_registers, 40u);
  k = store::BundleView::Open(bound->bundle)->Find("k");
  EXPECT_LE(k->registers, 32u);
  EXPECT_LE(k->variant_registers, 32u);
}

// Kernels of a module share a MasterKernel: 32 registers a thread where all of them can do with
// that, else 64; those that need more are left out, unless all do: then 128.
TEST_F(ModuleBuildTest, TheMasterKernelHasRegistersForItsBodies) {
  const store::BundleView small = Build(Holding(10));
  EXPECT_EQ(small.header().task_registers, 32u);
  EXPECT_FALSE(small.cubin(store::ImageKind::kTasks).empty());
  EXPECT_NE(std::string(small.ptx(store::ImageKind::kTasks)).find("cupola_master_kernel"),
            std::string::npos);
  const store::BundleView large = Build(Holding(44));
  EXPECT_EQ(large.header().task_registers, 64u);
  const store::BundleView largest = Build(Holding(80));
  EXPECT_EQ(largest.header().task_registers, 128u);
  EXPECT_NE(largest.Find("k")->flags & store::kTask, 0u);
  EXPECT_FALSE(largest.cubin(store::ImageKind::kTasks).empty());
  const auto refusal = [](const store::BundleView& bundle) {
    const store::KernelEntry* k = bundle.Find("k");
    EXPECT_EQ(k->flags & store::kTask, 0u);
    return std::string(bundle.Text(k->task_refusal_offset));
  };
  const store::BundleView too_large = Build(Holding(140));
  EXPECT_NE(refusal(too_large).find("registers a thread: more than 128"), std::string::npos);
  EXPECT_TRUE(too_large.cubin(store::ImageKind::kTasks).empty());
  const store::BundleView mixed = Build(Holding(80) + Kernel("small", ""));
  EXPECT_EQ(mixed.header().task_registers, 32u);
  EXPECT_NE(refusal(mixed).find("more than 64, which is enough for others"), std::string::npos);
}

// At 32 registers 2,048 threads are resident. Variants want some more, and are bounded where that
// spills no more than the few words that a worker holds.
TEST_F(ModuleBuildTest, RegistersAreBoundedWhereOccupancyWouldFall) {
  uint32_t bounded = 0;
  for (int count = 20; count <= 26; ++count) {
    compiler_.calls = 0;
    const store::BundleView view = Build(Holding(count, 8));
    const store::KernelEntry* k = view.Find("k");
    ASSERT_NE(k->flags & store::kPreemptible, 0u);
    EXPECT_LE(k->variant_local_bytes, k->local_bytes + 32) << count;
    bounded += compiler_.calls == 4 && k->registers <= 32 && k->variant_registers <= 32;
    EXPECT_LE(compiler_.calls, 4u);
  }
  EXPECT_GT(bounded, 0u);
}

}  // namespace
}  // namespace cupola::build
