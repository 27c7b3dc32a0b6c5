#!/usr/bin/env python3
"""PTX of stepped_bodies.cu, as it is ("none") or with a bug planted in the MasterKernel.

  plant.py --list                                   the names of the bugs
  plant.py NAME --source DIR --nvcc NVCC --out FILE
"""
import argparse
import os
import subprocess
import sys
import tempfile

FOLDER = "device/runtime"
HEADERS = ["master_kernel.cuh", "mtb.cuh", "task_scheduler.cuh", "task_leaving.cuh",
           "task_room.cuh", "solo_task.cuh"]
# MTBs of the stepped device have few executors: some with a named barrier and some without. With a bug none has
# a named barrier, because that orders more than the code relies on.
NAMED = "kNamedExecutors = 15"
# For each bug: the text in the source, and the text that takes its place.
BUGS = {
    "ResultsAreNotFenced": ("StoreRelease(&params.done", "StoreRelaxed(&params.done"),
    "WarpsOfATaskDoNotSeeEachOther": ("  FenceForMtb();  // behind", "  // behind"),
    "TheFirstWarpTellsTheHost": ("is_last = (before & kCountMask) == 1;", "is_last = true;"),
    "UnitsAreGivenTwice": ("      room.units &= ~(UnitMask(units) << first_unit);\n", ""),
    "SlotsAreGivenTwice": ("      room.slots &= ~(1u << slot);\n", ""),
    "RunsOfUnitsAreTooShort": ("half < units; half *= 2", "2 * half < units; half *= 2"),
    "BlocksAreTakenBackEarly": ("CountDown(&mtb.blocks[slot].warps_left) == 1",
                                "CountDown(&mtb.blocks[slot].warps_left) != 0"),
    "ThreadsThatReturnedAreWaitedFor": (
        "    if (header.barrier == kMeets) MeetBlock(warp.slot, false);\n", ""),
    "ThreadsThatReturnedAreWaitedForLater": ("mbarrier.arrive_drop", "mbarrier.arrive"),
    "ABusyColumnSleeps": ("blockIdx.x == 0 || busy_ || ", "blockIdx.x == 0 || "),
    "AHeadIsForgotten": ("  if (lane_ == 0) params_.heads[blockIdx.x] = head_;\n", ""),
    "HalfARecordIsStarted": ("  bool good = chunk.w == head_ + 1;\n", "  bool good = true;\n"),
    "WhoIsNotFreeIsHandedOneAlone": (
        "  if (lane_ < warps) good = good && LoadAcquire(&entry.job) == kNoJob;\n", ""),
    "OneAloneHasOneBlock": ("(first_word >> 24) == 0 && chunk.z == 1;", "(first_word >> 24) == 0;"),
    "OneAloneGetsNoBarrier": ("good && (first_word >> 24) == 0 &&", "good &&"),
    "OneAloneGetsNoRoom": ("good = good && chunk.x == 0;  // shared_bytes\n", "// shared_bytes\n"),
    "OneAloneIsTakenAgain": ("  ++head_;\n  quiet_ = 0;\n", "  quiet_ = 0;\n"),
    "WhatIsReadyIsNotFenced": (
        "    FenceForMtb();  // who starts it sees who", "    // who starts it sees who"),
    "WhatIsReadyIsStartedByNobody": (
        "  if (__shfl_sync(kAllLanes, before, 0) != kStarts) return;\n", "  return;\n"),
    "WhatIsReadyIsStartedByTwo": ("  if (ready == kMakingReady) return false;\n",
                                  "  if (ready == kMakingReady) ready = kNothingReady;\n"),
    "WhoIsReadyIsNotGivenBack": ("  GiveBackExecutors(executors);\n", ""),
    "WhatIsReadyStartsAtOnce": ("  if (__shfl_sync(kAllLanes, before, 0) != kStarts) return;\n", ""),
    "WhatWasReadyIsStillReady": ("      StoreShared(&mtb.ready[row], kNothingReady);\n", ""),
    "ALaunchEndsWithItsFirstWarp": ("  if (CountDown(&mtb.warps_left[kRow]) != 1) return;\n",
                                    "  (void)CountDown(&mtb.warps_left[kRow]);\n"),
    "WarpsOfALaunchDoNotSeeEachOther": ("  (void)LoadAcquire(&mtb.warps_left[kRow]);", "  //"),
    "WarpsOfALaunchAreNotSeen": ("  FenceForMtb();\n  if (CountDown(&mtb.warps_left[kRow])",
                                 "  if (CountDown(&mtb.warps_left[kRow])"),
    "ALaunchEndsWithItsFirstBlock": ("  if (before != gridDim.x - 1) return false;\n", ""),
    "BlocksOfALaunchStayCounted": ("  *blocks_ended = 0;\n", ""),
    "BlocksOfALaunchDoNotSeeEachOther": ("atom.acq_rel.gpu.global.add.u32",
                                         "atom.relaxed.gpu.global.add.u32"),
    "HalfARecordIsTaken": ("chunk.w == position + 1 ||",
                           "part != 0 || chunk.w == position + 1 ||"),
    "FarChunksAreNotAwaited": ("  if (chunk.w != position + 1) return false;\n  KeepChunk(row, part",
                               "  KeepChunk(row, part"),
    "FarChunksAreNotRead": ("if (complete && part + kNearChunks < chunks) {", "if (false) {"),
    "OrderIsForgotten": ("&& after != 0) {\n", "&& after == 9999) {\n"),
    "OneRecordAsksForAll": ("state = Follow(position % kTaskRows);",
                            "state = Follow(head_ % kTaskRows);"),
    "ASuccessorStartsEarly": ("(LoadAcquire(left) & kCountMask) == 0;", "true;"),
    "AFollowerDoesNotSeeWhatWasWritten": ("  __syncwarp();  // what lane 0 has seen to end", "  //"),
    "AFollowerIsStartedByTwo": ("if (before == found) return kFollows;",
                                "if (before == found) return kReady;"),
    "AFollowerIsStartedByNobody": (
        "  if (threadIdx.x % 32 == 0) MarkBits(&Mtb().released[row / 32], 1u << (row % 32));\n", ""),
    "AFollowerComesTooLate": ("    if ((found & kCountMask) == 0) return kReady;\n    if (found >",
                              "    if (found >"),
    "AFollowersPredecessorsAreNotSeen": ("      (void)LoadAcquire(&mtb.warps_left[row]);\n", ""),
    "ATaskThatWaitsHoldsUpOthers": ("  if (ready == 0) return false;\n",
                                    "  if (ready == 0 || __any_sync(kAllLanes, rows_ >= kWaiting))"
                                    " return false;\n"),
    "ABlockWithoutRoomHoldsUpOthers": ("    if (!passes_) return false;\n",
                                       "    return false;\n"),
    "AHurryIsNotHeard": ("const bool hurries = IsMeant(host.hurry, params_.epoch);",
                         "const bool hurries = false;"),
    "AHurryIsOfTheNewestOnly": ("hurry != 0 && hurry - epoch <= kMostEpochsBehind;",
                                "hurry == epoch;"),
    "OneThatLeavesHearsNoHurry": ("const bool is_meant = IsMeant(__shfl_sync(",
                                  "const bool is_meant = IsMeant(0 * __shfl_sync("),
    "OnlyTheFirstColumnHearsAHurry": ("if (is_meant && blockIdx.x == 0 && lane_ == 0) {",
                                      "if (false) {"),
    "TheFirstColumnEndsFirst": ("|| (is_first && others_leave_);", ";"),
    "KeptTasksAreForgotten": ("now.rows = TakeKept(", "now.rows = 0 * TakeKept("),
    "KeptTasksRunTwice": ("      kept[row] = 0;\n", ""),
    "WarpsRunTwiceBehindAHurry": ("begun = first_begun;", "begun = 0;"),
    "BlocksWithRoomRunTwiceBehindAHurry": ("begun = second_begun;", "begun = 0;"),
    "BlocksRunTwiceBehindTwoHurries": ("    uint32_t begun = Mtb().begun[row];",
                                       "    uint32_t begun = 0;"),
    "KeptTasksDoNotWait": ("return header.after == 0 ? Scheduler::kReady : Scheduler::kWaiting;",
                           "return Scheduler::kReady;"),
    "ABlockIsTornByAHurry": ("return left_ == 0 || slot_ == kNoSlot || next_.warp == 0;",
                             "return true;"),
    "WhoRunsInAHurryIsNotWaitedFor": ("    times = are_free ? times + 1 : 0;\n",
                                      "    times += 1;\n"),
    "TheHostIsNotSeen": ("ld.acquire.sys.global.v4.u32", "ld.relaxed.sys.global.v4.u32"),
    "AnExecutorIsHandedTwo": ("CompareAndSwap(&entry.job, kNoJob, row + 2) == kNoJob;",
                              "(StoreShared(&entry.job, row + 2), true);"),
    "OnlyOneOfThoseHandedWarpsIsWoken": (
        "lane >= kNamedExecutors && ((executors >> lane) & 1) != 0",
        "lane >= kNamedExecutors && (executors & -executors) == 1u << lane"),
    "APhaseThatHasEndedIsAwaited": ("for (uint32_t parity = 0;; parity ^= 1) {",
                                    "for (uint32_t parity = 0;;) {"),
    "ThePhaseBeforeTheFirstIsAwaited": ("for (uint32_t parity = 0;; parity ^= 1) {",
                                        "for (uint32_t parity = 1;; parity ^= 1) {"),
    "ThePhaseOfABlockIsNotAwaited": ('      "@!ended bra again;\\n"\n      "}" ::"r"(barrier),',
                                     '      "}" ::"r"(barrier),'),
    "WhatWaitsIsHandedOut": ("(rows_ & kReady) != 0 && (all",
                             "(rows_ & (kReady | kWaiting)) != 0 && (all"),
    "TheThirdInARowStartsEarly": (
        "if (found > kCountMask || NeedsSlot(Header(row))) return kWaiting;",
        "if (NeedsSlot(Header(row))) return kWaiting;\n    if (found > kCountMask) return kReady;"),
    "EachWarpStartsTheFollower": ("if (is_last) {\n      follower = before >> kFollowerShift;",
                                  "follower = before >> kFollowerShift;\n    if (is_last) {"),
    "TheLastBlockIsNotTakenBack": (
        "for (; ended != 0; ended &= ended - 1) {\n    BlockEntry",
        "for (; (ended & (ended - 1)) != 0; ended &= ended - 1) {\n    BlockEntry"),
    "AnotherColumnTakesTheFirst": ("if (blockIdx.x == params.first_column && !now.leaves &&",
                                   "if (!now.leaves &&"),
    "AFirstThatHasRunIsTaken": ("chunks[0].sequence != position + 1 ||", ""),
    "AFirstDoesNotWait": ("!= position + 1 || chunks[0].words[1] >> 16 != 0)", "!= position + 1)"),
    "WhatCameFirstIsTakenAgain": ("now.head++ % kTaskRows;", "now.head % kTaskRows;"),
    "ABlockThatEndsHidesAnother": ("MarkBits(&mtb.ended_blocks, 1u << slot);",
                                   "StoreShared(&mtb.ended_blocks, 1u << slot);"),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--source")
    parser.add_argument("--nvcc")
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.list:
        print(";".join(BUGS))
        return 0
    texts = {}
    for header in HEADERS:
        with open(os.path.join(options.source, FOLDER, header)) as file:
            texts[header] = file.read()
    assert sum(text.count(NAMED) for text in texts.values()) == 1
    named = NAMED.replace("15", "1" if options.name == "none" else "0")
    texts = {header: text.replace(NAMED, named) for header, text in texts.items()}
    if options.name != "none":
        old, new = BUGS[options.name]
        places = sum(text.count(old) for text in texts.values())
        if places != 1:
            print(f"plant.py: {options.name}: {places} places", file=sys.stderr)
            return 1
        texts = {header: text.replace(old, new) for header, text in texts.items()}
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, FOLDER))
        for header, text in texts.items():
            with open(os.path.join(folder, FOLDER, header), "w") as file:
                file.write(text)
        return subprocess.run([
            options.nvcc, "-ptx", "-arch=sm_90", "-std=c++20", "-O2", "-diag-suppress", "177",
            f"-I{folder}", f"-I{options.source}",
            os.path.join(options.source, "tests/unit/runtime/stepped_bodies.cu"),
            "-o", options.out]).returncode


if __name__ == "__main__":
    sys.exit(main())
