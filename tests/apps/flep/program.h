// What one benchmark program gives to the frame that measures it: its inputs, one kernel launch,
// its result and what the result should be. Plain CUDA. Everything is called from the main thread.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

/// What to compute. `part` = the grid fills only a third of the block slots of the GPU, each block
/// working through several pieces; otherwise there is a block for every piece.
struct Problem {
  long size = 0;
  bool part = false;
};

/// The result in device memory: `count` values of 32 bits.
struct Output {
  const void* data = nullptr;
  long count = 0;
  bool is_float = true;
};

class Program {
 public:
  virtual ~Program() = default;
  virtual const char* name() const = 0;
  /// The smallest size that still has a few blocks: what the simulated device gets.
  virtual long smallest() const = 0;
  /// Allocates and fills device memory for `problem`, the same bytes every time. Again after
  /// Release.
  virtual void Prepare(const Problem& problem) = 0;
  /// Frees what Prepare has allocated; synchronises.
  void Release();
  /// Launches the measured kernel, once; asynchronous.
  virtual void Launch(cudaStream_t stream) = 0;
  virtual Output output() const = 0;
  /// What output `index` should be, computed on the host in double precision.
  virtual double Expected(long index) const = 0;
  /// Largest accepted |got - expected| / max(1, |expected|).
  virtual double tolerance() const { return 0; }
  dim3 grid() const { return grid_; }
  dim3 block() const { return block_; }

 protected:
  /// As many blocks as there are pieces, or a third of what the GPU holds at once where `part`.
  template <typename... Parameters>
  unsigned BlocksFor(long pieces, bool part, void (*kernel)(Parameters...)) const {
    return Blocks(pieces, part, reinterpret_cast<const void*>(kernel));
  }
  unsigned Blocks(long pieces, bool part, const void* kernel) const;
  /// Device memory for `count` values, until Release.
  template <typename T>
  void Allocate(T** memory, long count) {
    *memory = static_cast<T*>(AllocateBytes(count * static_cast<long>(sizeof(T))));
  }
  void* AllocateBytes(long bytes);
  dim3 grid_{1};
  dim3 block_{256};

 private:
  std::vector<void*> allocations_;
};

/// Runs `program` as the command line says (see options.cpp); the process's exit code.
int RunProgram(int argc, char** argv, Program& program);
