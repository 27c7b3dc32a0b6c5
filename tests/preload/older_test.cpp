// Tests Cupola over a driver of CUDA 12.4 (older_driver/): a null driver that exports only what that driver exports.
#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/preload/preload_run.h"

namespace cupola::preload_test {
namespace {

constexpr char kCalledLacking[] = "a call was made that the driver lacks";

RunOptions Older(std::map<std::string, std::string> environment = {}) {
  environment.emplace("CUPOLA_LOG", "debug");
  return {.driver = CUPOLA_OLDER_NULL_DRIVER, .environment = std::move(environment)};
}

void ExpectGood(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err.find(kCalledLacking), std::string::npos) << outcome.err;
}

Outcome RunOlderProbe(std::vector<std::string> arguments, bool preload) {
  RunOptions options = Older();
  options.command = std::move(arguments);
  options.command.insert(options.command.begin(), CUPOLA_OLDER_PROBE);
  options.preload = preload;
  if (!preload) options.environment["LD_LIBRARY_PATH"] = CUPOLA_OLDER_NULL_FOLDER;
  return RunProgram(options);
}

// Each call that Cupola knows, by dlsym and by both forms of cuGetProcAddress with three versions and two flags: status,
// symbolStatus, and whether there is a pointer.
TEST(Older, WhatTheDriverLacksIsMissingForTheProgramToo) {
  const Outcome plain = RunOlderProbe({"report"}, false);
  const Outcome under_cupola = RunOlderProbe({"report"}, true);
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  ExpectGood(under_cupola);
  EXPECT_EQ(under_cupola.out, plain.out);
  // The answers that the comparison is about do occur.
  for (const char* line : {"version 12040\n", "\ncuLibraryGetKernelCount dlsym 1 ", "\ncuLaunchKernelEx dlsym 1 ",
                           "\ncuGreenCtxCreate dlsym 1 ", "\ncuCtxCreate_v4 dlsym 0 ", "\ncuMemcpyBatchAsync_v2 dlsym 0 ",
                           "\ncuGreenCtxStreamCreate dlsym 0 ", "\ncuEventElapsedTime_v2 dlsym 0 ",
                           // Unknown to the driver, whatever the version: CUDA_ERROR_NOT_FOUND, SYMBOL_NOT_FOUND.
                           "\ncuMemcpyBatchAsync dlsym 0 11080:500,0/500,1,0",
                           // It came with 12.2: a program of 11.8 is told VERSION_NOT_SUFFICIENT.
                           "\ncuGraphAddNode dlsym 1 11080:500,0/500,2,0 11080:500,0/500,2,0 12040:0,1/0,0,1"}) {
    EXPECT_NE(under_cupola.out.find(line), std::string::npos) << line;
  }
}

// A program that was linked with a newer driver's stub starts only under Cupola, and is told by the call's answer.
TEST(Older, CallsThatWereBoundAtStartUpSayThatTheyAreMissing) {
  EXPECT_EQ(RunOlderProbe({"bound", "cuCtxRecordEvent"}, false).out, "cuCtxRecordEvent is not found\n");
  const Outcome outcome = RunOlderProbe({"bound", "cuCtxRecordEvent"}, true);
  EXPECT_EQ(outcome.out, "cuCtxRecordEvent returns 500\n");
  EXPECT_NE(outcome.err.find(kCalledLacking), std::string::npos);  // what the other tests look for can be found
  EXPECT_EQ(RunOlderProbe({"bound", "cuInit"}, true).out, "cuInit returns 0\n");
}

// By cuGetProcAddress, with versions up to 13.0: each form of a hooked call is the hook of that form.
TEST(Older, EntryPointsByVersion) { ExpectGood(RunProbe({"entry-points"}, Older())); }

TEST(Older, AProgramLinkedWithTheDriverIsSeen) {
  RunOptions options = Older();
  options.command = {CUPOLA_LINKED_PROBE, "launch"};
  const Outcome outcome = RunProgram(options);
  ExpectGood(outcome);
  ASSERT_EQ(outcome.records.size(), 1u);
  EXPECT_EQ(outcome.records[0].list.size(), 3u);
}

TEST(Older, LaunchesGraphsAndCapturesAreRecorded) {
  for (const char* scenario : {"launch-forms", "graphs", "captures", "stream-again", "forwarded"}) {
    SCOPED_TRACE(scenario);
    const Outcome outcome = RunProbe({scenario}, Older());
    ExpectGood(outcome);
    const Outcome newer = RunProbe({scenario});
    ASSERT_EQ(outcome.records.size(), newer.records.size());
    for (size_t i = 0; i < newer.records.size(); ++i) {
      EXPECT_EQ(outcome.records[i].list.size(), newer.records[i].list.size());
    }
  }
  ExpectGood(RunProbe({"launches", "200"}, Older({{"CUPOLA_TIMING", "events"}})));
}

}  // namespace
}  // namespace cupola::preload_test
