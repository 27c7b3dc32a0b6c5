#include "intercept/images/late_bundles.h"

#include <atomic>
#include <ctime>

#include "intercept/images/images.h"
#include "intercept/process/own_thread.h"

namespace cupola::intercept {
namespace {

constexpr long kPauseNs = 500'000'000;
constexpr size_t kStackBytes = 256 << 10;

std::atomic<bool> is_looking{false};

void* LookForEver(void*) {
  for (;;) {
    const timespec pause{0, kPauseNs};
    nanosleep(&pause, nullptr);
    LookForBundles();
  }
}

}  // namespace

void StartLookingForBundles() noexcept {
  if (!is_looking.exchange(true)) is_looking.store(StartOwnThread(&LookForEver, nullptr, kStackBytes));
}

void ForgetLookingAfterFork() noexcept { is_looking.store(false); }

}  // namespace cupola::intercept
