#!/usr/bin/env python3
"""PTX of stepped_bodies.cu, as it is ("none") or with a bug planted in the MasterKernel.

  plant.py --list                                   the names of the bugs
  plant.py NAME --source DIR --out FILE --compile COMMAND...
"""
import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../plant"))
import planting  # noqa: E402
from planting import before, change, condition, drop, replace  # noqa: E402

FOLDER = "device/runtime"
HEADERS = ["master_kernel.cuh", "mtb.cuh", "task_scheduler.cuh", "task_order.cuh",
           "task_leaving.cuh", "task_room.cuh", "solo_task.cuh"]
# MTBs of the stepped device have few executors: some with a named barrier and some without. With a bug none has
# a named barrier, because that orders more than the code relies on.
NAMED_EXECUTORS = "NamedExecutorsOnTheSteppedDevice"
OTHER_MARKERS = (NAMED_EXECUTORS,)
# What is done at the marker of the bug's name (planting.py).
BUGS = {
    "ResultsAreNotFenced": change("StoreRelease", "StoreRelaxed"),
    "WarpsOfATaskDoNotSeeEachOther": drop(),
    "TheFirstWarpTellsTheHost": replace("is_last = true;"),
    "UnitsAreGivenTwice": drop(),
    "SlotsAreGivenTwice": drop(),
    "RunsOfUnitsAreTooShort": change("half < units", "2 * half < units"),
    "BlocksAreTakenBackEarly": change("== 1", "!= 0"),
    "ThreadsThatReturnedAreWaitedFor": drop(),
    "ThreadsThatReturnedAreWaitedForLater": change("arrive_drop", "arrive"),
    "ABusyColumnSleeps": change("busy_ || ", ""),
    "AHeadIsForgotten": drop(),
    "HalfARecordIsStarted": replace("bool good = true;"),
    "WhoIsNotFreeIsHandedOneAlone": drop(),
    "OneAloneHasOneBlock": change(" && chunk.z == 1", ""),
    "OneAloneGetsNoBarrier": change("(first_word >> 24) == 0 && ", ""),
    "OneAloneGetsNoRoom": drop(),
    "OneAloneIsTakenAgain": drop(),
    "WhatIsReadyIsNotFenced": drop(),
    "WhatIsReadyIsStartedByNobody": replace("return;"),
    "WhatIsReadyIsStartedByTwo": replace("if (ready == kMakingReady) ready = kNothingReady;"),
    "WhoIsReadyIsNotGivenBack": drop(),
    "WhatIsReadyStartsAtOnce": drop(),
    "WhatWasReadyIsStillReady": drop(),
    "ALaunchEndsWithItsFirstWarp": replace("(void)CountDown(&mtb.warps_left[kRow]);"),
    "WarpsOfALaunchDoNotSeeEachOther": drop(),
    "WarpsOfALaunchAreNotSeen": drop(),
    "ALaunchEndsWithItsFirstBlock": drop(),
    "BlocksOfALaunchStayCounted": drop(),
    "BlocksOfALaunchDoNotSeeEachOther": change("acq_rel", "relaxed"),
    "HalfARecordIsTaken": change("bool complete =", "bool complete = part != 0 ||"),
    "FarChunksAreNotAwaited": drop(),
    "FarChunksAreNotRead": condition("false"),
    "OrderIsForgotten": change("after != 0", "after == 9999"),
    "OneRecordAsksForAll": replace("state = Follow(head_ % kTaskRows);"),
    "ASuccessorStartsEarly": replace("return left == nullptr || true;"),
    "AFollowerDoesNotSeeWhatWasWritten": drop(),
    "AFollowerIsStartedByTwo": change("kFollows", "kReady"),
    "AFollowerIsStartedByNobody": drop(),
    "AFollowerComesTooLate": drop(),
    "AFollowersPredecessorsAreNotSeen": drop(),
    "ATaskThatWaitsHoldsUpOthers": condition("ready == 0 || __any_sync(kAllLanes, rows_ >= kWaiting)"),
    "ABlockWithoutRoomHoldsUpOthers": replace("return false;"),
    "AHurryIsNotHeard": replace("const bool hurries = false;"),
    "AHurryIsOfTheNewestOnly": replace("return hurry == epoch;"),
    "OneThatLeavesHearsNoHurry": change("__shfl_sync", "0 * __shfl_sync"),
    "OnlyTheFirstColumnHearsAHurry": condition("false"),
    "TheFirstColumnEndsFirst": change(" || (is_first && others_leave_)", ""),
    "KeptTasksAreForgotten": change("TakeKept(", "0 * TakeKept("),
    "KeptTasksRunTwice": drop(),
    "WarpsRunTwiceBehindAHurry": change("begun = first_begun", "begun = 0"),
    "BlocksWithRoomRunTwiceBehindAHurry": change("begun = second_begun", "begun = 0"),
    "BlocksRunTwiceBehindTwoHurries": replace("uint32_t begun = 0;"),
    "KeptTasksDoNotWait": replace("return Scheduler::kReady;"),
    "ABlockIsTornByAHurry": replace("return true;"),
    "WhoRunsInAHurryIsNotWaitedFor": replace("times += 1;"),
    "TheHostIsNotSeen": change("acquire", "relaxed"),
    "AnExecutorIsHandedTwo": replace("(StoreShared(&entry.job, row + 2), true);"),
    "OnlyOneOfThoseHandedWarpsIsWoken": condition(
        "lane >= kNamedExecutors && (executors & -executors) == 1u << lane"),
    "APhaseThatHasEndedIsAwaited": change("parity ^= 1", ""),
    "ThePhaseBeforeTheFirstIsAwaited": change("parity = 0", "parity = 1"),
    "ThePhaseOfABlockIsNotAwaited": change('"@!ended bra again;\\n"', ""),
    "WhatWaitsIsHandedOut": change("(rows_ & kReady)", "(rows_ & (kReady | kWaiting))"),
    "TheThirdInARowStartsEarly": replace("if (NeedsSlot(Header(row))) return kWaiting;\n"
                                         "if (found > kCountMask) return kReady;"),
    "EachWarpStartsTheFollower": before("follower = before >> kFollowerShift;"),
    "TheLastBlockIsNotTakenBack": change("ended != 0", "(ended & (ended - 1)) != 0"),
    "AnotherColumnTakesTheFirst": change("blockIdx.x == params.first_column && ", ""),
    "AFirstThatHasRunIsTaken": change("chunks[0].sequence != position + 1 ||", ""),
    "AFirstDoesNotWait": change(" || chunks[0].words[1] >> 16 != 0", ""),
    "WhatCameFirstIsTakenAgain": change("head++", "head"),
    "ABlockThatEndsHidesAnother": replace("StoreShared(&mtb.ended_blocks, 1u << slot);"),
}


def plant(texts, name, action):
    """Puts the bug into that header of `texts` which has its marker."""
    found = [header for header, text in texts.items() if name in planting.names_of(text)]
    if len(found) != 1:
        raise planting.PlantError(f"the marker '// plant: {name}' is in {len(found)} of the headers, not in one")
    texts[found[0]] = planting.planted(texts[found[0]], name, action, found[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--source")
    parser.add_argument("--out")
    parser.add_argument("--compile", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.list:
        print(";".join(BUGS))
        return 0
    texts = {}
    for header in HEADERS:
        with open(os.path.join(options.source, FOLDER, header)) as file:
            texts[header] = file.read()
    named = 1 if options.name == "none" else 0
    try:
        plant(texts, NAMED_EXECUTORS, replace(f"inline constexpr uint32_t kNamedExecutors = {named};"))
        if options.name != "none":
            plant(texts, options.name, BUGS[options.name])
    except planting.PlantError as error:
        sys.exit(f"plant.py: {error}")
    # The same folder each time: what a compiler's cache keeps is found by it.
    folder = options.out + ".headers"
    os.makedirs(os.path.join(folder, FOLDER), exist_ok=True)
    for header, text in texts.items():
        with open(os.path.join(folder, FOLDER, header), "w") as file:
            file.write(text)
    return subprocess.run([
        *options.compile, "-ptx", "-arch=sm_90", "-std=c++20", "-O2", "-diag-suppress", "177,186",
        f"-I{folder}", f"-I{options.source}",
        os.path.join(options.source, "tests/unit/runtime/stepped_bodies.cu"),
        "-o", options.out]).returncode


if __name__ == "__main__":
    sys.exit(main())
