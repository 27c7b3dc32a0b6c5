// Which kernels of a module are made tasks of, by the registers that they have, and why others are
// not; with a compiler that says what a test wants.
#include "device/compiler/build/task_build.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device/compiler/ptx/parse.h"

namespace cupola::build {
namespace {

using Names = std::vector<std::string>;

// Kernels a, b... each with so many registers; what they do can be fused, or not.
struct Program {
  explicit Program(const std::vector<uint32_t>& registers, const std::string& body = "") {
    std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n";
    for (const uint32_t count : registers) {
      const std::string name(1, static_cast<char>('a' + names.size()));
      text += ".visible .entry " + name + "()\n{\n.reg .f32 %f<5>;\n" + body + "\nret;\n}\n";
      code.kernels[name] = {.name = name, .registers = count};
      code.functions[name] = {.name = name};
      names.push_back(name);
    }
    auto parsed = ptx::Parse(text, "program");
    EXPECT_TRUE(parsed);
    if (parsed) module = *std::move(parsed);
  }

  // `answer`: of the compiler.
  TaskBuild Build(const Result<Code>& answer = Code{.bytes = {7}}) {
    compiled.clear();
    auto made = BuildTasks(module, names, code, 90, [&](const std::string& ptx) {
      compiled.push_back(ptx);
      return answer;
    });
    EXPECT_TRUE(made) << made.error().ToString();
    return made ? *std::move(made) : TaskBuild{};
  }

  ptx::Module module;
  Code code;
  Names names, compiled;
};

Names KeysOf(const std::map<std::string, passes::TaskFacts>& kernels) {
  Names names;
  for (const auto& [name, facts] : kernels) names.push_back(name);
  return names;
}

struct RegistersCase {
  const char* name;
  std::vector<uint32_t> registers;
  uint32_t of_master;  ///< registers of a thread of the MasterKernel
  std::map<std::string, std::string> refusals;
};

constexpr char kTooManyForOthers[] =
    "{} registers a thread: more than 64, which is enough for others of its module";

class TaskRegistersTest : public testing::TestWithParam<RegistersCase> {};

TEST_P(TaskRegistersTest, ChooseTheMasterKernel) {
  Program program(GetParam().registers);
  const TaskBuild made = program.Build();
  EXPECT_EQ(made.refusals, GetParam().refusals);
  EXPECT_EQ(made.kernels.size() + made.refusals.size(), program.names.size());
  EXPECT_EQ(made.registers, GetParam().of_master);
  EXPECT_EQ(program.compiled.size(), made.kernels.empty() ? 0u : 1u);
  EXPECT_EQ(made.cubin.empty(), made.kernels.empty());
  for (const Names names = KeysOf(made.kernels); const std::string& name : names) {
    EXPECT_NE(made.ptx.find(".func " + name + "__cupola_task("), std::string::npos) << name;
  }
  for (const auto& [name, reason] : made.refusals) {
    EXPECT_EQ(made.ptx.find(name + "__cupola_task"), std::string::npos) << name;
  }
}

const RegistersCase kRegisters[] = {
    {"Few", {32, 8}, 32, {}},
    {"SomeMore", {32, 33}, 64, {}},
    {"Many", {64}, 64, {}},
    {"OneOfThreeTooMany", {20, 65, 40}, 64, {{"b", fmt::format(kTooManyForOthers, 65)}}},
    {"OneOfTwoTooMany", {128, 32}, 32, {{"a", fmt::format(kTooManyForOthers, 128)}}},
    {"AllMany", {65, 128}, 128, {}},
    {"AllButOneFarTooMany", {65, 129}, 128, {{"b", "129 registers a thread: more than 128"}}},
    {"AllFarTooMany",
     {255, 129},
     0,
     {{"a", "255 registers a thread: more than 128"},
      {"b", "129 registers a thread: more than 128"}}},
};
INSTANTIATE_TEST_SUITE_P(, TaskRegistersTest, testing::ValuesIn(kRegisters),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(TaskBuildTest, WhatThePassRefusesIsLeftOut) {
  Program program({32, 32});
  for (auto& item : program.module.items) {
    auto* function = std::get_if<ptx::Function>(&item);
    if (function == nullptr || function->name != "b") continue;
    auto counted = ptx::Parse(
        ".version 8.0\n.target sm_90\n.address_size 64\n.entry b()\n{\nbar.sync 1, 64;\nret;\n}\n",
        "");
    ASSERT_TRUE(counted);
    function->body = counted->FindFunction("b")->body;
  }
  const TaskBuild made = program.Build();
  EXPECT_EQ(KeysOf(made.kernels), Names{"a"});
  const std::map<std::string, std::string> refusals = {
      {"b", "barriers of a counted number of threads"}};
  EXPECT_EQ(made.refusals, refusals);
}

TEST(TaskBuildTest, WhatTheCompilerRefusesIsNoTask) {
  Program program({32, 32});
  const TaskBuild made = program.Build(MakeError(ErrorCode::kUnsupported, "ptxas: cannot do it"));
  EXPECT_TRUE(made.kernels.empty());
  EXPECT_TRUE(made.cubin.empty());
  const std::map<std::string, std::string> refusals = {{"a", "ptxas: cannot do it"},
                                                       {"b", "ptxas: cannot do it"}};
  EXPECT_EQ(made.refusals, refusals);
}

// Only where the compiler had a choice of rounding, and may have chosen otherwise.
TEST(TaskBuildTest, BodiesMayBeInexact) {
  Program fusable({32, 32}, "mul.f32 %f0, %f1, %f2;\nadd.f32 %f3, %f0, %f4;");
  fusable.code.functions["a"].floats = {{"FFMA", 1}};
  fusable.code.functions["b"].floats = {{"FMUL", 1}, {"FADD", 1}};
  Code code{.bytes = {7}};
  code.functions["a__cupola_task"].floats = {{"FMUL", 1}, {"FADD", 1}};
  code.functions["b__cupola_task"].floats = {{"FFMA", 1}, {"FSETP", 9}};
  EXPECT_EQ(fusable.Build(code).inexact, std::set<std::string>());
  code.functions["b__cupola_task"].floats = {{"FMUL", 1}, {"FADD", 1}};
  EXPECT_EQ(fusable.Build(code).inexact, (std::set<std::string>{"a", "b"}));
  Program exact({32, 32}, "mul.rn.f32 %f0, %f1, %f2;\nadd.rn.f32 %f3, %f0, %f4;");
  EXPECT_EQ(exact.Build(code).inexact, std::set<std::string>());
}

}  // namespace
}  // namespace cupola::build
