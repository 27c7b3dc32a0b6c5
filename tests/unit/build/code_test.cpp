#include "device/compiler/build/code.h"

#include <gtest/gtest.h>

namespace cupola::build {
namespace {

// Code with the kernel "k" and functions that it calls.
Code CodeWith(const std::map<std::string, FloatCounts>& functions) {
  Code code;
  code.kernels.emplace("k", fatbin::CubinKernel{});
  for (const auto& [name, floats] : functions) code.functions[name] = {.name = name, .floats = floats};
  return code;
}

TEST(CalleeDifference, NamesTheFunctionThatDiffers) {
  const Code original = CodeWith({{"k", {{"FADD", 1}}}, {"f", {{"FMUL", 2}}}});
  EXPECT_EQ(CalleeDifference(original, CodeWith({{"f", {{"FMUL", 2}}}})), "");
  EXPECT_EQ(CalleeDifference(original, CodeWith({{"f", {{"FMUL", 3}}}})),
            "in called function f: FMUL 3 (original 2)");
  EXPECT_EQ(CalleeDifference(original, CodeWith({{"g", {{"FADD", 1}}}})),
            "called function g has no counterpart in the original's code");
}

TEST(CalleeDifference, KernelsAndFunctionsWithoutFloatsDoNotCount) {
  const Code original = CodeWith({{"f", {{"FMUL", 2}}}});
  EXPECT_EQ(CalleeDifference(original, CodeWith({{"k", {{"FADD", 7}}}})), "");
  EXPECT_EQ(CalleeDifference(original, CodeWith({{"g", {}}})), "");
}

}  // namespace
}  // namespace cupola::build
