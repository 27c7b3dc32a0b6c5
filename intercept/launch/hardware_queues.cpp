#include "intercept/launch/hardware_queues.h"

#include <atomic>
#include <cstdlib>

#include "intercept/facts/live_streams.h"
#include "intercept/images/images.h"
#include "intercept/process/fast_clock.h"
#include "intercept/process/notice.h"

namespace cupola::intercept {
namespace {

constexpr const char* kVariable = "CUDA_DEVICE_MAX_CONNECTIONS";
constexpr const char* kNote = "many-streams";
// A run of at least this length leaves the note: 32 queues add 0.65 s to a start on an H100.
constexpr uint64_t kLongEnoughNs = 3'000'000'000;

std::atomic<uint64_t> begun_ns{0};
std::atomic<bool> exceed{false};

uint32_t QueuesOfDriver() {
  const char* text = getenv(kVariable);
  if (text == nullptr || *text < '0' || *text > '9') return 8;
  return static_cast<uint32_t>(strtoul(text, nullptr, 10));
}

}  // namespace

void ChooseHardwareQueues(bool shares_context) noexcept {
  if (begun_ns.load() != 0) return;
  begun_ns.store(MonotonicNs());
  if (shares_context) {
    setenv(kVariable, "8", /*overwrite=*/0);  // set, because a client of MPS may have fewer by default
  } else if (getenv(kVariable) == nullptr && HasProgramNote(kNote)) {
    setenv(kVariable, "32", /*overwrite=*/0);
    Say(Level::kInfo, {"32 hardware queues: an earlier run of this program had more streams than 8"});
  }
  StartCountingStreams(QueuesOfDriver());  // plant: queues_assumed
}

void RecordTooManyStreams() noexcept {
  if (!exceed.load(std::memory_order_relaxed)) exceed.store(true, std::memory_order_relaxed);
}

void KeepTooManyStreamsForLaterRuns() noexcept {
  if (!exceed.load() || HardwareQueues() >= kMostHardwareQueues) return;
  Say(Level::kInfo, {"there were more streams than hardware queues (", kVariable, "): ",
                     Decimal(HardwareQueues())});
  if (MonotonicNs() - begun_ns.load() >= kLongEnoughNs) LeaveProgramNote(kNote);
}

}  // namespace cupola::intercept
