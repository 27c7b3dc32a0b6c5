#include "device/sim/token/gate.h"

#include <time.h>

namespace cupola::sim {

uint64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000ull + static_cast<uint64_t>(now.tv_nsec);
}

void Gate::Open() {
  std::lock_guard lock(mutex_);
  state_ = State::kOpen;
  opened_.notify_all();
}

void Gate::CloseAt(uint64_t deadline_ns) {
  deadline_ns_ = deadline_ns;
  state_ = State::kClosing;
}

void Gate::Close() { state_ = State::kClosed; }

bool Gate::Wait() {
  bool waited = false;
  while (true) {
    State state = state_.load();
    if (state == State::kOpen) return waited;
    if (state == State::kClosing) {
      if (MonotonicNs() < deadline_ns_.load()) return waited;
      state_.compare_exchange_strong(state, State::kClosed);
      continue;
    }
    waited = true;
    std::unique_lock lock(mutex_);
    if (state_ != State::kClosed) continue;
    ++waiting_;
    demanded_.notify_one();
    const bool is_last = inside_.fetch_sub(1) == 1;
    // Both calls say only that something changed, so they may come late. They must not be made with
    // the lock held, because the owner may be about to open the gate.
    lock.unlock();
    owner_->OnDemand();
    if (is_last) owner_->OnQuiet();
    lock.lock();
    opened_.wait(lock, [&] { return state_ != State::kClosed; });
    --waiting_;
    inside_.fetch_add(1);
  }
}

bool Gate::WaitForDemand() {
  std::unique_lock lock(mutex_);
  demanded_.wait(lock, [&] { return waiting_ != 0 || interrupted_; });
  return !interrupted_;
}

void Gate::Interrupt() {
  std::lock_guard lock(mutex_);
  interrupted_ = true;
  demanded_.notify_all();
}

}  // namespace cupola::sim
