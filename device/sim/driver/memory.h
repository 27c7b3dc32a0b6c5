// The table of what the program allocated or registered: device memory, host memory that kernels
// reach, managed memory. The Device keeps the bytes and knows which addresses kernels may reach;
// this table keeps what CUDA's pointer queries answer. The Driver owns it. Any thread may call it;
// it never waits for work in streams.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "device/sim/exec/device.h"

namespace cupola::sim {

class Context;

enum class MemoryKind : uint8_t {
  kDevice,      ///< by cuMemAlloc and its relatives
  kPool,        ///< by cuMemAllocAsync and its relatives
  kHost,        ///< by cuMemHostAlloc and its relatives; the table frees it
  kRegistered,  ///< by cuMemHostRegister; the program frees it
  kManaged,     ///< by cuMemAllocManaged
  kVariable,    ///< a variable of a loaded module; only the Device knows it
};

struct Allocation {
  uint64_t start = 0;  ///< address
  uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::kDevice;
  uint32_t flags = 0;  ///< CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_*, CU_MEM_ATTACH_*
  Context* context = nullptr;  ///< in which it was allocated
  uint64_t id = 0;       ///< CU_POINTER_ATTRIBUTE_BUFFER_ID: unique in the process
  void* pool = nullptr;  ///< for kPool: the memory pool

  bool is_host() const { return kind == MemoryKind::kHost || kind == MemoryKind::kRegistered; }
};

class MemoryTable {
 public:
  explicit MemoryTable(Device* device) : device_(device) {}

  /// Allocates device or pool memory and returns its address; 0 when there is not enough or `bytes`
  /// is 0.
  uint64_t AllocateDevice(uint64_t bytes, MemoryKind kind, Context* context, void* pool = nullptr);
  /// Allocates host memory (kHost or kManaged) that kernels reach at the same address, zeroed and
  /// aligned to a page, and returns the address; 0 when there is not enough or `bytes` is 0.
  uint64_t AllocateHost(uint64_t bytes, MemoryKind kind, uint32_t flags, Context* context);
  /// Registers the program's own host memory. False when the range overlaps one that is registered
  /// or allocated already.
  bool Register(uint64_t address, uint64_t bytes, uint32_t flags, Context* context);

  /// Each of these three removes the allocation of its kind that starts at `address` and gives the
  /// memory back (Unregister: to the program); false when there is none.
  bool FreeDevice(uint64_t address);
  bool FreeHost(uint64_t address);
  bool Unregister(uint64_t address);
  /// Removes a device allocation from the table only; the caller frees its memory later, in stream
  /// order. False when there is none.
  bool Forget(uint64_t address);
  /// Frees everything that was allocated in `context`.
  void FreeAll(Context* context);

  /// The allocation or module variable in which the address lies.
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
