#include "sched/daemon/told_settings.h"

#include <mutex>
#include <vector>

#include "sched/daemon/gpu_arbiter.h"

namespace cupola::sched {
namespace {

void Add(ToldSetting& told, const ToldSetting& changes) {
  if (changes.priority) told.priority = changes.priority;
  if (changes.weight) told.weight = changes.weight;
  if (changes.latency_bound_ns) told.latency_bound_ns = changes.latency_bound_ns;
  if (changes.least_share_percent) told.least_share_percent = changes.least_share_percent;
  if (changes.paused) told.paused = changes.paused;
}

}  // namespace

ClientSettings ToldSetting::Over(ClientSettings settings) const {
  settings.priority = priority.value_or(settings.priority);
  settings.weight = weight.value_or(settings.weight);  // plant: told_is_lost
  settings.latency_bound_ns = latency_bound_ns.value_or(settings.latency_bound_ns);
  settings.least_share_percent = least_share_percent.value_or(settings.least_share_percent);
  settings.paused = paused.value_or(settings.paused);
  return settings;
}

ClientSettings ToldSettings::Over(ClientSettings settings, const ProcessIdentity& process) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find({process.pid, process.start});
  return found == entries_.end() ? settings : found->second.told.Over(settings);
}

void ToldSettings::Tell(const ProcessIdentity& process, const ToldSetting& changes) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[{process.pid, process.start}];
  entry.uid = process.uid;
  Add(entry.told, changes);
}

bool ToldSettings::TellKnown(uint32_t pid, std::optional<uint32_t> uid, const ToldSetting& changes) {
  const std::lock_guard lock(mutex_);
  bool found = false;
  for (auto& [key, entry] : entries_) {
    if (key.first != pid || entry.uid != uid.value_or(entry.uid) || system_.HasEnded(key.first, key.second)) continue;
    Add(entry.told, changes);
    found = true;
  }
  return found;
}

void ToldSettings::DropEnded() {
  std::vector<Key> keys;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, entry] : entries_) keys.push_back(key);
  }
  std::erase_if(keys, [this](const Key& key) { return !system_.HasEnded(key.first, key.second); });
  const std::lock_guard lock(mutex_);
  for (const Key& key : keys) entries_.erase(key);
}

}  // namespace cupola::sched
