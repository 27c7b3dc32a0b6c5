// A simulated host thread of a stepped run: a script of actions that run in order, each as one
// step. Its actions must use Load and Store for memory that kernels use, so that races between host
// and device are found too. The device creates and owns it; only the thread that steps the device
// uses it.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "device/sim/exec/device.h"
#include "device/sim/exec/observer.h"

namespace cupola::sim {

class HostThread;

/// The device as its host threads call it.
class HostPort {
 public:
  virtual ~HostPort() = default;
  virtual void HostLoad(HostThread& thread, const Access& access, void* value) = 0;
  virtual void HostStore(HostThread& thread, const Access& access, const void* value) = 0;
  virtual uint64_t HostSubmit(HostThread& thread, GridLaunch launch,
                              std::function<void(const Fault*)> done) = 0;
  virtual bool HostIsDone(uint64_t grid) const = 0;
  virtual void HostJoin(HostThread& thread, uint64_t grid) = 0;
};

class HostThread {
 public:
  using Action = std::function<void(HostThread&)>;

  HostThread(HostPort* port, std::string name, uint32_t id)
      : port_(port), name_(std::move(name)), id_(id) {}
  HostThread(const HostThread&) = delete;
  HostThread& operator=(const HostThread&) = delete;

  // ---- building the script: `what` describes the action in messages ----
  HostThread& Then(std::string what, Action action) {
    actions_.push_back({std::move(what), nullptr, 0, std::move(action)});
    return *this;
  }
  /// The action waits until `ready` returns true. The reads of `ready` are not observed.
  HostThread& When(std::string what, std::function<bool()> ready, Action action) {
    actions_.push_back({std::move(what), std::move(ready), 0, std::move(action)});
    return *this;
  }
  /// The action waits until the virtual time `time_ns`.
  HostThread& At(uint64_t time_ns, std::string what, Action action) {
    actions_.push_back({std::move(what), nullptr, time_ns, std::move(action)});
    return *this;
  }

  // ---- calls for actions ----
  template <typename T>
  T Load(uint64_t address, Order order = Order::kAcquire) {
    T value;
    std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof(T));
    port_->HostLoad(*this, AccessOf(address, sizeof(T), order), &value);
    return value;
  }
  template <typename T>
  void Store(uint64_t address, T value, Order order = Order::kRelease) {
    port_->HostStore(*this, AccessOf(address, sizeof(T), order), &value);
    std::memcpy(reinterpret_cast<void*>(address), &value, sizeof(T));
  }
  /// Submits a grid, ordered behind what this thread has done so far. Returns the grid's number.
  uint64_t Submit(GridLaunch launch, std::function<void(const Fault*)> done = nullptr) {
    return port_->HostSubmit(*this, std::move(launch), std::move(done));
  }
  bool IsDone(uint64_t grid) const { return port_->HostIsDone(grid); }
  /// Orders this thread behind a grid that is done, as a synchronising call does. Does not wait.
  void Join(uint64_t grid) { port_->HostJoin(*this, grid); }

  const std::string& name() const { return name_; }
  uint32_t id() const { return id_; }

 private:
  friend class SteppedRun;
  struct Entry {
    std::string what;
    std::function<bool()> ready;  ///< empty: the action waits for nothing
    uint64_t time_ns;             ///< virtual time before which it does not run
    Action action;
  };
  static Access AccessOf(uint64_t address, size_t bytes, Order order) {
    return {reinterpret_cast<uint8_t*>(address), static_cast<uint32_t>(bytes), order, Scope::kSys,
            false};
  }

  HostPort* port_;
  std::string name_;
  uint32_t id_;             ///< unique among the host threads of the device
  uint32_t memory_id_ = 0;  ///< its ThreadId in the MemoryModel
  std::deque<Entry> actions_;
};

}  // namespace cupola::sim
