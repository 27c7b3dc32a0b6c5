#include "intercept/launch/piece_queue.h"

#include <ctime>

#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/process/fast_clock.h"

namespace cupola::intercept {

bool PieceWait::Pause() noexcept {
  constexpr uint64_t kShortNs = 50'000, kLongNs = 1'000'000, kSoonNs = 1'000'000;
  const PieceQueue& queue = context_.pieces;
  const uint64_t now = NowNs();
  if (begun_ns_ == 0) begun_ns_ = now;
  // Each of the three only grows.
  const uint64_t seen = (uint64_t{queue.given.load()} << 32) + queue.ended() + queue.fed.load();
  if (since_ns_ == 0 || seen != seen_ || context_.gpu->requests() != 0) {
    seen_ = seen;
    since_ns_ = now;
  }
  const uint64_t limit_ns = preemption_settings.wait_limit_ns;
  if (limit_ns != 0 && now - since_ns_ >= limit_ns) return false;
  // What is waited for mostly takes milliseconds; there is no hurry.
  const timespec nap{0, static_cast<long>(now - begun_ns_ < kSoonNs ? kShortNs : kLongNs)};
  nanosleep(&nap, nullptr);
  return true;
}

bool AwaitFed(const LaunchContext& context) noexcept {
  if (context.pieces.pending() == 0) [[likely]] return true;
  PieceWait wait(context);
  while (context.pieces.pending() != 0 && context.state.load() != LaunchContext::State::kDead) {
    if (!wait.Pause()) return false;
  }
  return true;
}

}  // namespace cupola::intercept
