// Event: how a lower layer calls layers above it, whose headers it may not include. The lower layer owns the Event and
// announces it. A higher layer subscribes when the process starts (entry/start.cpp), before anything is announced, and
// never unsubscribes.
#pragma once

#include <atomic>
#include <cstddef>

namespace cupola::intercept {

/// One kind of event, such as "a stream was destroyed"; `Facts` are the arguments that subscribers get. Constant
/// initialisation: it may be subscribed to and announced at any time, also while the process's constructors run.
template <typename... Facts>
class Event {
 public:
  using Subscriber = void (*)(Facts...);

  /// From now on `subscriber` is called at each announcement. One thread at a time; at most kMost subscribers. A
  /// subscriber that is known already is not added again (a forked child subscribes anew).
  void Subscribe(Subscriber subscriber) noexcept {
    for (std::atomic<Subscriber>& place : subscribers_) {
      const Subscriber known = place.load(std::memory_order_relaxed);
      if (known == subscriber) return;
      if (known != nullptr) continue;
      place.store(subscriber, std::memory_order_release);
      return;
    }
    __builtin_trap();  // a fault of Cupola's code: programs do not add subscribers
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
