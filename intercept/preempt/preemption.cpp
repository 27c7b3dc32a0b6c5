#include "intercept/preempt/preemption.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/settings/variables.h"
#include "intercept/facts/live_streams.h"
#include "intercept/facts/stream_levels.h"
#include "intercept/images/images.h"
#include "intercept/launch/demand.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/hardware_queues.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/launched_names.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/launch/resident.h"
#include "intercept/preempt/agent.h"
#include "intercept/preempt/guarded_context.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/sm_demand.h"
#include "intercept/preempt/variants.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/participation.h"
#include "intercept/process/tools.h"
#include "sched/board/socket_path.h"

namespace cupola::intercept::preempt {
namespace {

// The longest time that an exiting program waits for its guarded launches.
constexpr uint64_t kExitBoundNs = 5'000'000'000;

bool HasArbiter() {
  if (settings::TextIfAny("CUPOLA_BOARD") != nullptr) return true;
  const sched::ArbiterPlaces places = sched::FindArbiterPlaces();
  return std::any_of(places.paths, places.paths + places.count,
                     [](const char* path) { return access(path, F_OK) == 0; });
}

}  // namespace

void StartPreemption() noexcept {
  if (participation.load() != Participation::kUndecided) return;
  const bool takes_part = ReadPreemptionSettings() && HasArbiter() && !ToolAtWork();
  if (takes_part) {
    const bool shares_context = MpsIsThere();
    if (shares_context) AdaptToSharedContext();
    OpenVariantStore();
    ChooseHardwareQueues(shares_context);
    StartFastClock();
    KeepLevelBack();
    streams_share_queues.Subscribe(&EndGuardedWhereQueuesAreShared);
    StartHostHolds();
    image_to_be_freed.Subscribe([](const Image& image, bool* is_named) { *is_named |= AnyLaunchIsOf(image); });
    stood_aside.Subscribe(&GpuBoard::TakeAbilitiesAway);
    resident.guarded = {.start_agent = &StartAgent,
                        .harvest = &Harvest,
                        .is_well = &IsWell,
                        .open_scope = [](LaunchContext& context) noexcept { return OpenScope(context, WaitFor::kAll); },
                        .close_scope = &CloseScope,
                        .is_held = &IsHeldAnywhere};
  }
  participation.store(takes_part ? Participation::kOn : Participation::kOff);
}

void ForgetPreemptionAfterFork() noexcept {
  if (!PreemptionOn()) return;
  watched.store(kTakesPartBit);
  std::construct_at(&launch_counters);
  ForgetHoldsAfterFork();
  ForgetContextsAfterFork();
  ForgetImagesAfterFork();
  ForgetNamesAfterFork();
  ForgetSmNeedsAfterFork();
  GpuBoard::ForgetAllAfterFork();
}

void RegisterPreemptionExit() noexcept {
  static std::atomic_flag is_registered;
  if (!is_registered.test_and_set()) atexit(&EndPreemptionAtExit);
}

void EndPreemptionAtExit() noexcept {
  static std::atomic_flag has_ended;
  if (!PreemptionOn() || has_ended.test_and_set()) return;
  const uint64_t deadline = MonotonicNs() + kExitBoundNs;
  WaitAtExit(deadline);
  DropDemandAtExit();
  GpuBoard::LeaveAll();
  SayLaunchCounts();
  KeepTooManyStreamsForLaterRuns();
}

}  // namespace cupola::intercept::preempt
