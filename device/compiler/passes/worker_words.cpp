#include "device/compiler/passes/worker_words.h"

#include <cstddef>
#include <string>

#include "device/runtime/preempt_control.h"

namespace cupola::passes {

static_assert((runtime::kReturnedRanges & (runtime::kReturnedRanges - 1)) == 0);
static_assert(offsetof(runtime::ReturnedList, count) == 0 &&
              offsetof(runtime::ReturnedList, high) == 4);
static_assert(offsetof(runtime::PhysicalControl, stop) == 0 &&
              offsetof(runtime::PhysicalControl, poll_at_ns) == 4);

Words LayoutWords() {
  using namespace runtime;
  Words words;
  const auto set = [&words](const char* name, size_t value) {
    words[name] = std::to_string(value);
  };
  set("slot", offsetof(PreemptParams, slot));
  set("returned", offsetof(PreemptParams, returned));
  set("status", offsetof(PreemptParams, status));
  set("yield_line", offsetof(PreemptParams, yield_line));
  set("look_after_ns", offsetof(PreemptParams, look_after_ns));
  set("stride", offsetof(PreemptParams, stride));
  set("full_until", offsetof(PreemptParams, full_until));
  set("fresh_after_ns", offsetof(PreemptParams, fresh_after_ns));
  set("steady_until", offsetof(PreemptParams, steady_until));
  set("steady_span_ns", offsetof(PreemptParams, steady_span_ns));
  set("grid_x", offsetof(PreemptParams, grid));
  set("grid_y", offsetof(PreemptParams, grid) + 4);
  set("grid_z", offsetof(PreemptParams, grid) + 8);
  set("total_blocks", offsetof(PreemptParams, total_blocks));
  set("base_next", offsetof(PreemptParams, base_next));
  set("base_completed", offsetof(PreemptParams, base_completed));
  set("sequence", offsetof(PreemptParams, sequence));
  set("batch", offsetof(PreemptParams, batch));
  set("physical", offsetof(PreemptParams, physical));
  set("tag", offsetof(PreemptParams, tag));
  set("workers", offsetof(PreemptParams, workers));
  set("poll_period_ns", offsetof(PreemptParams, poll_period_ns));
  set("poll_reach_ns", offsetof(PreemptParams, poll_reach_ns));
  set("flags", offsetof(PreemptParams, flags));
  set("sizeof_physical", sizeof(PhysicalControl));
  set("slot_next", offsetof(ControlSlot, next));
  set("slot_completed", offsetof(ControlSlot, completed));
  set("slot_done", offsetof(ControlSlot, done));
  set("slot_yielded", offsetof(ControlSlot, yielded));
  set("slot_physical", offsetof(ControlSlot, physical));
  set("physical_poll", offsetof(PhysicalControl, poll_at_ns));
  set("physical_exits", offsetof(PhysicalControl, exits));
  set("list_count", offsetof(ReturnedList, count));
  set("list_high", offsetof(ReturnedList, high));
  set("list_ranges", offsetof(ReturnedList, ranges));
  set("list_mask", kReturnedRanges - 1);
  set("status_done", offsetof(HostStatus, done));
  set("status_yielded", offsetof(HostStatus, yielded));
  set("status_ended", offsetof(HostStatus, ended));
  set("status_next_final", offsetof(HostStatus, next_final));
  set("run_what_is_claimed", kRunWhatIsClaimed);
  set("has_watcher", kHasWatcher);
  set("worker_is_poller_mask", kWorkersPerPoller - 1);
  return words;
}

}  // namespace cupola::passes
