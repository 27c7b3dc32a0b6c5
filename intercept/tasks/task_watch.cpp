#include "intercept/tasks/task_watch.h"

#include "device/runtime/task_grid.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/notice.h"
#include "intercept/tasks/tasks.h"

namespace cupola::intercept::tasks {
namespace {

// What a task with that body is called in a notice.
const char* NameOf(const Image* image, uint16_t body) {
  if (body == runtime::kCopyBody) return "a copy";
  if (body == runtime::kFillBody) return "memory that is set";
  if (image == nullptr) return "a kernel of a module that was unloaded";
  for (const store::KernelEntry& kernel : image->bundle.kernels()) {
    if ((kernel.flags & store::kTask) != 0 && kernel.task_body == body) {
      return image->bundle.Text(kernel.name_offset);
    }
  }
  return "a kernel that is not known";
}

}  // namespace

// The oldest task of a column waits for no other task: it runs, or there is no room for it on its
// SM.
void TaskWatch::Look(const runtime::TaskTable& table, uint32_t column,
                     const Image* image) noexcept {
  if (task_settings.notice_ns == 0 || taken_.test_and_set(std::memory_order_acquire)) return;
  const uint64_t now = NowNs();
  if (followed_.sequence == 0 || table.IsDone(followed_)) {
    followed_ = {.column = column, .sequence = table.OldestLeft(column)};
    since_ns_ = now;
    was_said_ = false;
  } else if (!was_said_ && now >= since_ns_ + task_settings.notice_ns) {  // threads' clocks differ
    was_said_ = true;
    Say(Level::kWarn, {"a task has not ended for ", Decimal((now - since_ns_) / 1'000'000),
                       " ms while the program waits: ", NameOf(image, table.BodyOf(followed_)),
                       "; as a launch by itself: CUPOLA_TASKS=off"});
  }
  taken_.clear(std::memory_order_release);
}

}  // namespace cupola::intercept::tasks
