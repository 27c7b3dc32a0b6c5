// A table from the opaque handles that programs hold to the objects behind them. A handle is the
// object's address. The table knows which objects are alive, so a stale or foreign handle is an
// error and not a crash. The Driver has one per kind of object. Any thread may call it.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cupola::sim {

template <typename T>
class HandleTable {
 public:
  /// Makes `object` reachable and returns its handle.
  T* Add(std::shared_ptr<T> object) {
    std::unique_lock lock(mutex_);
    T* key = object.get();
    objects_.emplace(key, std::move(object));
    return key;
  }
  /// The object, or null for what is not, or no longer, a handle.
  std::shared_ptr<T> Find(const void* handle) const {
    std::shared_lock lock(mutex_);
    auto it = objects_.find(handle);
    return it == objects_.end() ? nullptr : it->second;
  }
  /// Removes the object from the table and returns it; null for what is no handle.
  std::shared_ptr<T> Take(const void* handle) {
    std::unique_lock lock(mutex_);
    auto it = objects_.find(handle);
    if (it == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(it->second);
    objects_.erase(it);
    return object;
  }
  /// All objects, in no order.
  std::vector<std::shared_ptr<T>> All() const {
    std::shared_lock lock(mutex_);
    std::vector<std::shared_ptr<T>> all;
    for (const auto& entry : objects_) all.push_back(entry.second);
    return all;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<T>> objects_;
};

}  // namespace cupola::sim
