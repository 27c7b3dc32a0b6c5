#include "intercept/preempt/sm_needs.h"

#include "device/runtime/preempt_control.h"

namespace cupola::intercept::preempt {
namespace {

uint64_t ShapeOf(uint32_t threads, uint32_t shared) { return uint64_t{threads} << 32 | shared; }

uint32_t PlaceOf(uint64_t function, uint64_t shape) {
  const uint64_t mixed = (function ^ shape * 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93;
  return static_cast<uint32_t>(mixed >> 40);
}

}  // namespace

uint32_t SmsFor(uint64_t blocks, uint32_t per_sm, uint32_t sms) noexcept {
  if (per_sm == 0 || blocks > uint64_t{per_sm} * sms) return runtime::kAllSms;
  const auto needed = static_cast<uint32_t>((blocks + per_sm - 1) / per_sm);
  return needed < sms ? needed : runtime::kAllSms;
}

// A reader uses an entry only if its version is even, and the same before and after it was read.
uint32_t FitTable::Find(const void* function, uint32_t threads, uint32_t shared) const noexcept {
  const auto handle = reinterpret_cast<uint64_t>(function);
  const uint64_t shape = ShapeOf(threads, shared);
  const uint32_t place = PlaceOf(handle, shape);
  for (uint32_t i = 0; i < kProbes; ++i) {
    const Entry& entry = entries_[(place + i) % kEntries];
    const uint32_t version = entry.version.load();
    const uint64_t found = entry.function.load();
    if (found == 0) return kUnknown;
    if (found != handle || entry.shape.load() != shape) continue;
    const uint32_t per_sm = entry.per_sm.load();
    return (version & 1) == 0 && entry.version.load() == version ? per_sm : kUnknown;
  }
  return kUnknown;
}

bool FitTable::Set(const void* function, uint32_t threads, uint32_t shared,
                   uint32_t per_sm) noexcept {
  const auto handle = reinterpret_cast<uint64_t>(function);
  const uint64_t shape = ShapeOf(threads, shared);
  const uint32_t place = PlaceOf(handle, shape);
  for (uint32_t i = 0; i < kProbes; ++i) {
    Entry& entry = entries_[(place + i) % kEntries];
    const uint64_t found = entry.function.load();
    if (found != 0 && (found != handle || entry.shape.load() != shape)) continue;
    entry.version.fetch_add(1);
    entry.shape.store(shape);
    entry.per_sm.store(per_sm);
    entry.function.store(handle);
    entry.version.fetch_add(1);
    return true;
  }
  return false;
}

void FitTable::Clear() noexcept {
  for (Entry& entry : entries_) {
    entry.version.fetch_add(1);
    entry.function.store(0);
    entry.version.fetch_add(1);
  }
}

}  // namespace cupola::intercept::preempt
