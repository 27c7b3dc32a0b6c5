// A fixture that gives each test a Driver of its own over a small simulated device, and host functions
// whose course the test controls.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "device/sim/driver/driver.h"

namespace cupola::sim {

/// A door at which a stream's host function waits until the test opens it. Any thread.
class Door {
 public:
  void Open() {
    std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
};

/// Makes a driver that is never destroyed, like the one of the shared library, since its streams'
/// threads are detached. It stays reachable, so that only memory which the driver itself loses counts
/// as a leak.
inline Driver& NewDriver() {
  static auto* kept = new std::vector<Driver*>;
  kept->push_back(new Driver(Device::Create({.sm_count = 2, .memory_bytes = 64 << 20})));
  return *kept->back();
}

class DriverTest : public ::testing::Test {
 protected:
  Driver& driver_ = NewDriver();
  Context& context_ = *driver_.RetainPrimary();

  void SetUp() override { driver_.SetCurrent(&context_); }
  void TearDown() override {
    driver_.engine().WaitContext(*driver_.RetainPrimary());  // a test may have reset the first one
    driver_.SetCurrent(nullptr);
  }

  Stream& Legacy() { return *context_.legacy; }
  Stream& NewStream(uint32_t flags = 0) { return *driver_.CreateStream(context_, flags, 0); }
  Event& NewEvent(uint32_t flags = 0) {
    return *driver_.events.Add(std::make_shared<Event>(&context_, flags));
  }

  /// Enqueues a call of `function` on the stream.
  CUresult Call(Stream& stream, std::function<void()> function) {
    HostWork work;
    work.function = [](void* data) { (*static_cast<std::function<void()>*>(data))(); };
    calls_.push_back(std::make_unique<std::function<void()>>(std::move(function)));
    work.data = calls_.back().get();
    return driver_.Enqueue(stream, work);
  }

  std::vector<std::unique_ptr<std::function<void()>>> calls_;
};

}  // namespace cupola::sim
