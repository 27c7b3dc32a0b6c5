// What stepped mode sees of a running kernel: each access to memory that other threads can reach,
// each fence, each barrier that completes. Free mode has no observer and pays one test of a pointer
// per instruction. Called by the thread that steps the warp; nothing here synchronises.
#pragma once

#include <cstdint>

namespace cupola::sim {

struct Barrier;
struct Block;
struct Warp;

/// Semantics of an access or fence [PTX ISA 8.4, 8.5]. kWeak: no modifier; kSc: of fences only.
enum class Order : uint8_t { kWeak, kRelaxed, kAcquire, kRelease, kAcquireRelease, kSc };

/// Whom an operation is strong against [PTX ISA 8.5]. A cluster is one block here.
enum class Scope : uint8_t { kCta, kGpu, kSys };

/// One thread's access to global or shared memory.
struct Access {
  uint8_t* at = nullptr;  ///< host address of the first byte
  uint32_t bytes = 0;     ///< 1 to 32
  Order order = Order::kWeak;
  Scope scope = Scope::kGpu;
  bool async = false;  ///< done by an asynchronous copy that the thread began
  bool read_only = false;  ///< through the cache that is not coherent: ld.nc, ldu
};

class Observer {
 public:
  virtual ~Observer() = default;

  /// `value` holds the access.bytes that memory holds and may be replaced by what a weaker memory
  /// would have returned; nullptr where it may not.
  virtual void Read(Warp& warp, uint32_t lane, const Access& access, void* value) = 0;
  /// Before memory changes. `value` is nullptr where the bytes are not at hand.
  virtual void Write(Warp& warp, uint32_t lane, const Access& access, const void* value) = 0;
  /// An atomic operation; `after` is nullptr when it wrote nothing (a failed compare-and-swap).
  virtual void Update(Warp& warp, uint32_t lane, const Access& access, const void* before,
                      const void* after) = 0;
  virtual void Fence(Warp& warp, uint32_t lanes, Order order, Scope scope) = 0;
  /// A thread comes to a barrier; `counted`: to one for a number of threads, not for all.
  virtual void ArriveAtBarrier(Warp& warp, uint32_t lane, uint32_t index, bool counted) = 0;
  /// A barrier of the block is about to release its threads.
  virtual void CompleteBarrier(Block& block, const Barrier& barrier) = 0;
  /// bar.warp.sync is about to release `lanes`.
  virtual void CompleteWarpBarrier(Warp& warp, uint32_t lanes) = 0;
  /// cp.async(.bulk).commit_group, and wait_group that leaves at most `pending` groups unfinished.
  virtual void CommitCopies(Warp& warp, uint32_t lanes, bool bulk) = 0;
  virtual void WaitForCopies(Warp& warp, uint32_t lanes, bool bulk, uint32_t pending) = 0;
  virtual void Sleep(Warp& warp, uint32_t lane, uint32_t nanoseconds) = 0;
};

}  // namespace cupola::sim
