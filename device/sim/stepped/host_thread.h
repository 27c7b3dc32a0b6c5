// A host thread of a stepped run: a script of actions, each one step, in order. What it reads and
// writes of memory that kernels use goes through Load and Store, so that races between host and
// device are found too. Used by the thread that steps the device.
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

/// What a host thread asks of its device.
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

  // ---- the script ----
  HostThread& Then(std::string what, Action action) {
    actions_.push_back({std::move(what), nullptr, 0, std::move(action)});
    return *this;
  }
  /// The action waits until `ready`, which looks at memory without being observed.
  HostThread& When(std::string what, std::function<bool()> ready, Action action) {
    actions_.push_back({std::move(what), std::move(ready), 0, std::move(action)});
    return *this;
  }
  /// The action waits for a virtual time.
  HostThread& At(uint64_t time_ns, std::string what, Action action) {
    actions_.push_back({std::move(what), nullptr, time_ns, std::move(action)});
    return *this;
  }

  // ---- in actions ----
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
  /// Submits a grid, ordered behind what this thread did. Returns its number.
  uint64_t Submit(GridLaunch launch, std::function<void(const Fault*)> done = nullptr) {
    return port_->HostSubmit(*this, std::move(launch), std::move(done));
  }
  bool IsDone(uint64_t grid) const { return port_->HostIsDone(grid); }
  /// Orders this thread behind a grid that is done, as a synchronising call does.
  void Join(uint64_t grid) { port_->HostJoin(*this, grid); }

  const std::string& name() const { return name_; }
  uint32_t id() const { return id_; }

 private:
  friend class SteppedRun;
  struct Entry {
    std::string what;
    std::function<bool()> ready;
    uint64_t time_ns;
    Action action;
  };
  static Access AccessOf(uint64_t address, size_t bytes, Order order) {
    return {reinterpret_cast<uint8_t*>(address), static_cast<uint32_t>(bytes), order, Scope::kSys,
            false};
  }

  HostPort* port_;
  std::string name_;
  uint32_t id_;
  uint32_t memory_id_ = 0;  ///< of MemoryModel
  std::deque<Entry> actions_;
};

}  // namespace cupola::sim
