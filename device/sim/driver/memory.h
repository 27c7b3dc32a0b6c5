// What the program allocated or registered: device memory, host memory that kernels reach, managed
// memory. The device keeps the bytes and the reachability; this table keeps what CUDA's pointer
// queries tell. Thread-safe; synchronises nothing.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "device/sim/exec/device.h"

namespace cupola::sim {

class Context;

enum class MemoryKind : uint8_t {
  kDevice,      ///< cuMemAlloc and kin
  kPool,        ///< cuMemAllocAsync and kin
  kHost,        ///< cuMemHostAlloc: ours to free
  kRegistered,  ///< cuMemHostRegister: the program's
  kManaged,     ///< cuMemAllocManaged
  kVariable,    ///< a variable of a loaded module; known to the device only
};

struct Allocation {
  uint64_t start = 0, bytes = 0;
  MemoryKind kind = MemoryKind::kDevice;
  uint32_t flags = 0;  ///< CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_*, CU_MEM_ATTACH_*
  Context* context = nullptr;
  uint64_t id = 0;     ///< CU_POINTER_ATTRIBUTE_BUFFER_ID: unique in the process
  void* pool = nullptr;

  bool is_host() const { return kind == MemoryKind::kHost || kind == MemoryKind::kRegistered; }
};

class MemoryTable {
 public:
  explicit MemoryTable(Device* device) : device_(device) {}

  /// Address of `bytes` of device or pool memory; 0 when there is not enough or bytes is 0.
  uint64_t AllocateDevice(uint64_t bytes, MemoryKind kind, Context* context, void* pool = nullptr);
  /// Host memory that kernels reach at the same address (kHost, kManaged), zeroed and aligned to a
  /// page; 0 when there is not enough.
  uint64_t AllocateHost(uint64_t bytes, MemoryKind kind, uint32_t flags, Context* context);
  /// False when the range overlaps one that is registered or allocated already.
  bool Register(uint64_t address, uint64_t bytes, uint32_t flags, Context* context);

  /// Removes an allocation that starts there and is of that kind, giving its memory back; false
  /// when there is none.
  bool FreeDevice(uint64_t address);
  bool FreeHost(uint64_t address);
  bool Unregister(uint64_t address);
  /// Removes a device allocation from the table only: its memory is freed later, in stream order.
  bool Forget(uint64_t address);
  /// Frees all that `context` allocated.
  void FreeAll(Context* context);

  /// The allocation or variable that holds the address.
  std::optional<Allocation> Find(uint64_t address) const;
  /// Whether [address, +bytes) lies in one allocation, registered range or variable.
  bool Holds(uint64_t address, uint64_t bytes) const;

 private:
  std::optional<Allocation> TakeIf(uint64_t address, bool (*fits)(const Allocation&));
  void Release(const Allocation& allocation);

  Device* device_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Allocation> by_start_;
  uint64_t next_id_ = 1;
};

}  // namespace cupola::sim
