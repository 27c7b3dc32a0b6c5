// Tests how programs find the driver with Cupola in front of it: SONAME rules, entry points, and older,
// newer and missing drivers.
#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/preload/preload_run.h"

namespace cupola::preload_test {
namespace {

void ExpectGood(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

TEST(Finding, EveryWayOfOpeningTheDriverGivesTheLibrary) {
  ExpectGood(RunProbe({"opened-as", "libcuda.so.1", "libcuda.so", CUPOLA_NULL_DRIVER}));
}

TEST(Finding, ADecoyInTheLibraryPathDoesNotWin) {
  ExpectGood(RunProbe({"opened-as", "libcuda.so.1"},
                      {.environment = {{"LD_LIBRARY_PATH", CUPOLA_NULL_DRIVER_FOLDER}}}));
}

TEST(Finding, TheDriverIsFoundInTheLibraryPath) {
  ExpectGood(
      RunProbe({"forwarded"},
               {.driver = "", .environment = {{"LD_LIBRARY_PATH", CUPOLA_NULL_DRIVER_FOLDER}}}));
}

TEST(Finding, TheDriverIsFoundByThePathTheProgramGave) {
  ExpectGood(RunProbe({"opened-as", CUPOLA_NULL_DRIVER}, {.driver = ""}));
}

TEST(Finding, WithoutThePreloadTheProbeSeesTheDriverItself) {
  const Outcome outcome = RunProbe({"opened-as", CUPOLA_NULL_DRIVER}, {.preload = false});
  EXPECT_EQ(outcome.exit_code, 1);  // the check that the others pass can fail
}

TEST(Finding, EntryPointsByVersionAndStreamForm) { ExpectGood(RunProbe({"entry-points"})); }

TEST(Finding, EntryPointsOfAnOlderDriver) {
  ExpectGood(RunProbe({"entry-points-older"}, {.environment = {{"NULL_DRIVER_VERSION", "11080"}}}));
}

TEST(Finding, ANewerDriversCallsPassThrough) {
  ExpectGood(RunProbe({"newer-driver"}, {.driver = CUPOLA_NULL_DRIVER_NEWER}));
}

TEST(Finding, CallsThatAnOlderDriverLacks) {
  ExpectGood(RunProbe({"older-driver"}, {.driver = CUPOLA_NULL_DRIVER_OLDER}));
}

TEST(Finding, NoDriver) {
  const Outcome outcome = RunProbe({"no-driver"}, {.driver = "/nonexistent/libcuda.so.1"});
  ExpectGood(outcome);
  EXPECT_NE(outcome.err.find("CUPOLA_DRIVER=/nonexistent/libcuda.so.1"), std::string::npos);
  EXPECT_TRUE(outcome.records.empty());
}

TEST(Finding, AProgramLinkedWithADriverThatIsNotThereStarts) {
  const Outcome outcome =
      RunProgram({.command = {CUPOLA_LINKED_PROBE, "missing"}, .driver = "/nonexistent/libcuda.so.1"});
  ExpectGood(outcome);
  EXPECT_NE(outcome.err.find("no CUDA driver found"), std::string::npos);
}

TEST(Finding, AProgramLinkedWithTheDriverIsSeen) {
  const Outcome outcome = RunProgram({.command = {CUPOLA_LINKED_PROBE, "launch"}});
  ExpectGood(outcome);
  ASSERT_EQ(outcome.records.size(), 1u);
  EXPECT_EQ(outcome.records[0].list.size(), 3u);
}

// The environment leads to the library, but nothing is preloaded: the library passes all calls on.
TEST(Finding, WithoutTheDoorTheLibraryOnlyPassesOn) {
  for (const RunOptions& program :
       {RunOptions{.command = {CUPOLA_LINKED_PROBE, "launch"}},
        RunOptions{.command = {CUPOLA_PROBE, "launches", "5"},
                   .environment = {{"LD_LIBRARY_PATH", CUPOLA_LIBRARY_FOLDER}}}}) {
    RunOptions options = program;
    options.preload = false;
    const Outcome outcome = RunProgram(options);
    ExpectGood(outcome);
    EXPECT_EQ(outcome.err, "");
    EXPECT_TRUE(outcome.records.empty());
  }
}

// A program that opens the driver by its path, past the door, has the driver itself and goes on with it.
TEST(Finding, ADriverThatWasLoadedPastTheDoorStays) {
  const Outcome outcome = RunProbe({"loaded-past", CUPOLA_NULL_DRIVER_LINK});
  ExpectGood(outcome);
  EXPECT_NE(outcome.err.find("runs without Cupola"), std::string::npos) << outcome.err;
  EXPECT_TRUE(outcome.records.empty());
}

TEST(Finding, AProgramWithoutCudaIsLeftAlone) {
  RunOptions options;
  options.record = false;
  const std::string folder = testing::TempDir() + "cupola-not-cuda";
  std::filesystem::create_directory(folder);
  options.environment["CUPOLA_RECORDS"] = folder;
  const Outcome outcome = RunProbe({"not-cuda", folder}, options);
  ExpectGood(outcome);
  EXPECT_EQ(outcome.err, "");
}

// The lines of the library about settings: a warning once for each value that is not allowed, whoever reads it.
TEST(Finding, WrongSettingsAreSaidOnce) {
  const RunOptions wrong = {.environment = {{"CUPOLA_TASKS", "maybe"},
                                            {"CUPOLA_WAIT_LIMIT_MS", "20ms"},
                                            {"CUPOLA_PREMPT", "off"},
                                            {"CUPOLA_SIM_SMS", "none"}}};
  const Outcome outcome = RunProbe({"forwarded"}, wrong);
  ExpectGood(outcome);
  EXPECT_EQ(outcome.err,
            "cupola: CUPOLA_TASKS=maybe is not auto, always or off: using auto\n"
            "cupola: CUPOLA_WAIT_LIMIT_MS=20ms is not a whole number from 0 to 4294967295: using 20\n");
}

TEST(Finding, UnknownVariablesAreSaidToThoseWhoAskForTheLog) {
  const std::string said = "cupola: CUPOLA_PREMPT in the environment is no setting; did you mean CUPOLA_PREEMPT?\n";
  const Outcome outcome = RunProbe({"forwarded"}, {.environment = {{"CUPOLA_PREMPT", "off"}, {"CUPOLA_LOG", "info"}}});
  ExpectGood(outcome);
  const size_t at = outcome.err.find(said);
  EXPECT_NE(at, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find(said, at + 1), std::string::npos) << outcome.err;
  EXPECT_EQ(RunProbe({"forwarded"}, {.environment = {{"CUPOLA_PREMPT", "off"}}}).err, "");
}

TEST(Finding, DlsymStillMeansTheCaller) { ExpectGood(RunProbe({"next-dlsym"})); }

TEST(Finding, DamagedImagesGiveTheDriversError) { ExpectGood(RunProbe({"damaged-images"})); }

TEST(Finding, ShellsPassItOn) {
  const Outcome outcome =
      RunProgram({.command = {"/bin/sh", "-c", std::string("exec ") + CUPOLA_PROBE + " launches 5"}});
  ExpectGood(outcome);
  ASSERT_EQ(outcome.records.size(), 1u);
  EXPECT_EQ(outcome.records[0].list.size(), 5u);
}

}  // namespace
}  // namespace cupola::preload_test
