// Event: what a lower layer tells layers above it that it may not include. Who is interested subscribes when the
// process starts (entry/start.cpp), before the lower layer has anything to tell; nobody unsubscribes.
#pragma once

#include <atomic>
#include <cstddef>

namespace cupola::intercept {

/// One kind of thing that happens, with what there is to say of it. Constant initialisation: may be subscribed to and
/// announced at any time, also while the process's constructors run.
template <typename... Facts>
class Event {
 public:
  using Subscriber = void (*)(Facts...);

  /// From now on `subscriber` is called at each announcement. One call at a time; at most kMost subscribers, the same
  /// one counts once (a forked child subscribes anew to what it has).
  void Subscribe(Subscriber subscriber) noexcept {
    for (std::atomic<Subscriber>& place : subscribers_) {
      const Subscriber known = place.load(std::memory_order_relaxed);
      if (known == subscriber) return;
      if (known != nullptr) continue;
      place.store(subscriber, std::memory_order_release);
      return;
    }
    __builtin_trap();  // kMost is a number of the code, not of what a program does
  }

  /// Calls the subscribers in their order, on this thread. Any thread; takes no lock.
  void Announce(Facts... facts) const {
    for (const std::atomic<Subscriber>& place : subscribers_) {
      const Subscriber subscriber = place.load(std::memory_order_acquire);
      if (subscriber == nullptr) return;
      subscriber(facts...);
    }
  }

 private:
  static constexpr size_t kMost = 4;
  std::atomic<Subscriber> subscribers_[kMost] = {};
};

}  // namespace cupola::intercept
