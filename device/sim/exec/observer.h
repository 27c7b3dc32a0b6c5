// The interface through which stepped mode sees a running kernel: each access to memory that other
// threads can reach, each fence, each barrier that completes. Free mode has no observer, which
// costs it one test of a pointer per instruction. The thread that steps the warp makes all calls;
// no call synchronises.
#pragma once

#include <cstdint>

namespace cupola::sim {

struct Barrier;
struct Block;
struct Warp;

/// The memory order of an access or fence [PTX ISA 8.4, 8.5]. kWeak: no modifier; kSc: only fences.
enum class Order : uint8_t { kWeak, kRelaxed, kAcquire, kRelease, kAcquireRelease, kSc };

/// The threads for which an operation is strong [PTX ISA 8.5]. A cluster is one block here.
enum class Scope : uint8_t { kCta, kGpu, kSys };

/// One thread's access to global or shared memory.
struct Access {
  uint8_t* at = nullptr;  ///< host address of the first byte
  uint32_t bytes = 0;     ///< 1 to 32
  Order order = Order::kWeak;
  Scope scope = Scope::kGpu;
  bool async = false;      ///< made by an asynchronous copy that the thread began
  bool read_only = false;  ///< made through the cache that is not coherent: ld.nc, ldu
};

class Observer {
 public:
  virtual ~Observer() = default;

  /// A thread reads. `value` points to the access.bytes bytes that memory holds; the observer may
  /// replace them by what a weaker memory would have returned. Where it may not, `value` is
  /// nullptr.
  virtual void Read(Warp& warp, uint32_t lane, const Access& access, void* value) = 0;
  /// A thread is about to write. `value` is nullptr where the caller does not have the bytes.
  virtual void Write(Warp& warp, uint32_t lane, const Access& access, const void* value) = 0;
  /// An atomic operation; `after` is nullptr when it wrote nothing (a failed compare-and-swap).
  virtual void Update(Warp& warp, uint32_t lane, const Access& access, const void* before,
                      const void* after) = 0;
  virtual void Fence(Warp& warp, uint32_t lanes, Order order, Scope scope) = 0;
  /// A thread comes to barrier `index`. `counted`: the barrier is for a given number of threads,
  /// not for all of the block.
  virtual void ArriveAtBarrier(Warp& warp, uint32_t lane, uint32_t index, bool counted) = 0;
  /// A barrier of the block is about to release its threads.
  virtual void CompleteBarrier(Block& block, const Barrier& barrier) = 0;
  /// bar.warp.sync is about to release `lanes`.
  virtual void CompleteWarpBarrier(Warp& warp, uint32_t lanes) = 0;
  /// cp.async.commit_group; with `bulk`, cp.async.bulk.commit_group.
  virtual void CommitCopies(Warp& warp, uint32_t lanes, bool bulk) = 0;
  /// The wait_group of the same kind, which leaves at most `pending` groups unfinished.
  virtual void WaitForCopies(Warp& warp, uint32_t lanes, bool bulk, uint32_t pending) = 0;
  virtual void Sleep(Warp& warp, uint32_t lane, uint32_t nanoseconds) = 0;
};

}  // namespace cupola::sim
