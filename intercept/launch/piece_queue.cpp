#include "intercept/launch/piece_queue.h"

#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/process/fast_clock.h"

namespace cupola::intercept {

bool PieceWait::Pause() noexcept {
  const PieceQueue& queue = context_.pieces;
  const uint64_t now = NowNs();
  // Each of the three only grows.
  const uint64_t seen = (uint64_t{queue.given.load()} << 32) + queue.ended() + queue.fed.load();
  if (since_ns_ == 0 || seen != seen_ || context_.gpu->requests() != 0) {
    seen_ = seen;
    since_ns_ = now;
  }
  const uint64_t limit_ns = preemption_settings.wait_limit_ns;
  if (limit_ns != 0 && now - since_ns_ >= limit_ns) return false;
  patience_.Pause(/*is_held=*/true);  // what is waited for mostly takes milliseconds: there is no hurry
  return true;
}

// A launch that is about to be deferred, but then is not, is taken back from `deferred`: so what is waited for may never come,
// and the wait also ends where nothing is pending.
bool AwaitFed(const LaunchContext& context, uint32_t number) noexcept {
  const PieceQueue& queue = context.pieces;
  const auto is_fed = [&] { return static_cast<int32_t>(queue.fed.load() - number) >= 0 || queue.pending() == 0; };
  if (is_fed()) [[likely]] return true;
  for (PieceWait wait(context); !is_fed() && context.state.load() != LaunchContext::State::kDead;) {
    if (!wait.Pause()) return false;
  }
  return true;
}

bool AwaitFed(const LaunchContext& context) noexcept { return AwaitFed(context, context.pieces.deferred.load()); }

}  // namespace cupola::intercept
