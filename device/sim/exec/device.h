// The simulated GPU as its driver sees it: modules loaded from PTX, memory, and grids that run on
// SMs. The driver (device/sim/driver) owns one Device and adds contexts, streams, events and the
// CUDA calls. The driver alone decides the order of work: a grid submitted here may start at once,
// and grids run concurrently.
//
// In free mode each SM is a host thread that interleaves its resident blocks warp by warp. Kernels
// and host threads really share memory, so a kernel may spin on a word that the host writes.
// Device pointers are host addresses. Any thread may call any method unless the method says
// otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupola::sim {

class Gate;

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

/// The properties of a device. The defaults are those of the simulated device of `cupola run`.
struct DeviceConfig {
  uint32_t sm_count = 4;
  uint32_t max_blocks_per_sm = 8;
  uint32_t max_threads_per_sm = 2048;
  uint32_t shared_bytes_per_sm = 228 * 1024;         ///< like sm_90
  uint32_t max_shared_bytes_per_block = 227 * 1024;  ///< opt-in limit, like sm_90
  uint64_t memory_bytes = 8ull << 30;                ///< size of device memory
  /// The gate that SMs pass before they execute (device/sim/token); null: none. Outlives the
  /// device.
  Gate* gate = nullptr;
};

/// How a grid failed, with the CUresult of the same meaning.
enum class FaultKind : uint8_t {
  kIllegalAddress,      ///< CUDA_ERROR_ILLEGAL_ADDRESS
  kMisalignedAddress,   ///< CUDA_ERROR_MISALIGNED_ADDRESS
  kIllegalInstruction,  ///< CUDA_ERROR_ILLEGAL_INSTRUCTION
  kTrap,                ///< CUDA_ERROR_LAUNCH_FAILED
  kAssert,              ///< CUDA_ERROR_ASSERT
  kUnsupported,         ///< an instruction the interpreter lacks: CUDA_ERROR_NOT_SUPPORTED
};

struct Fault {
  FaultKind kind;
  std::string message;  ///< names kernel, block, thread, line of the PTX and instruction
};

struct ParamInfo {
  uint32_t offset = 0;  ///< bytes from the start of the parameter buffer
  uint32_t size = 0;    ///< bytes
  uint32_t align = 0;   ///< bytes
};

/// One kernel of a loaded module. Owned by its LoadedModule; immutable once the module is loaded.
struct KernelInfo {
  std::string name;
  std::vector<ParamInfo> params;
  uint32_t param_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t local_bytes = 0;               ///< per thread
  uint32_t registers = 0;  ///< per thread: an estimate from the declared registers, 8 to 64
  uint32_t max_threads_per_block = 1024;  ///< .maxntid or .reqntid, else 1024
  Dim3 required_threads{0, 0, 0};         ///< .reqntid; zeros: none
  Dim3 cluster{0, 0, 0};                  ///< .reqnctapercluster, in blocks; zeros: none
};

struct GlobalInfo {
  std::string name;
  uint64_t address = 0;
  uint64_t bytes = 0;
  bool is_constant = false;
};

/// An instruction form that the interpreter lacks: it faults when, and only when, it is executed.
struct LackedForm {
  std::string form;    ///< opcode and modifiers, such as "tex.2d.v4.f32.f32"
  uint32_t line = 0;   ///< line of the PTX of its first use
  uint32_t count = 0;  ///< number of uses in the module
};

/// A module in device memory: its variables have addresses, and its kernels can run. Its destructor
/// unloads it; none of its grids may be running then.
class LoadedModule {
 public:
  virtual ~LoadedModule() = default;
  virtual const std::vector<KernelInfo>& kernels() const = 0;
  virtual const std::vector<GlobalInfo>& globals() const = 0;
  /// The instruction forms in the module that the interpreter lacks, ordered by form.
  virtual std::vector<LackedForm> Lacks() const = 0;
};

struct GridLaunch {
  std::shared_ptr<const LoadedModule> module;
  uint32_t kernel_index = 0;  ///< into module->kernels()
  Dim3 grid;   ///< blocks
  Dim3 block;  ///< threads
  uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> params;  ///< KernelInfo::param_bytes bytes, laid out by KernelInfo::params
  bool cooperative = false;       ///< all blocks must be resident at the same time
};

class Device {
 public:
  static std::unique_ptr<Device> Create(const DeviceConfig& config);
  virtual ~Device() = default;  ///< waits for running grids

  virtual const DeviceConfig& config() const = 0;

  /// Parses and loads PTX text. Errors: kDamaged (with line and column), kUnsupported. An
  /// instruction that the interpreter lacks is no error here; it faults when it is executed.
  virtual Result<std::shared_ptr<LoadedModule>> LoadPtx(std::string_view text,
                                                        std::string_view name) = 0;

  /// As LoadPtx, for the units of a program compiled with -rdc=true, which it links into one
  /// module. A further error: kDamaged where two units define one name.
  virtual Result<std::shared_ptr<LoadedModule>> LoadLinkedPtx(
      std::span<const std::string_view> texts, std::string_view name) = 0;

  /// Allocates device memory, 256-byte aligned, and returns its address; 0 when there is not
  /// enough.
  virtual uint64_t Allocate(uint64_t bytes) = 0;
  virtual bool Free(uint64_t address) = 0;  ///< false: not the start of an allocation
  /// Makes host memory [address, +bytes) reachable by kernels (pinned, mapped, managed memory).
  virtual void MapHost(uint64_t address, uint64_t bytes) = 0;
  virtual void UnmapHost(uint64_t address) = 0;
  /// A device allocation, a mapped host range or a module variable.
  struct Range {
    uint64_t start = 0;  ///< address
    uint64_t bytes = 0;
    bool is_host = false;
  };
  /// The range in which `address` lies; one of 0 bytes if there is none.
  virtual Range FindRange(uint64_t address) const = 0;
  virtual uint64_t FreeBytes() const = 0;

  /// The number of blocks of this shape that fit on one SM together (occupancy); 0: none can run.
  virtual uint32_t MaxResidentBlocks(const KernelInfo& kernel, uint32_t threads_per_block,
                                     uint32_t dynamic_shared_bytes) const = 0;

  /// Queues a grid and returns. Calls `done` once, on an SM's thread, when the grid's last block
  /// has ended; `fault` is null on success. After a fault the grid's other blocks stop.
  virtual void Submit(GridLaunch launch, std::function<void(const Fault* fault)> done) = 0;

  /// Lets a device that has no threads of its own (stepped mode) run the submitted grids. False
  /// when a grid can never end.
  virtual bool Drive() { return true; }

  /// Nanoseconds of %globaltimer.
  virtual uint64_t NowNs() const = 0;

  /// Writes what kernels printed since the last flush to the process's standard output. The driver
  /// calls it where CUDA flushes (synchronisation, launch, blocking copy, unload). The end of a
  /// grid alone writes nothing, so that the order of lines does not depend on timing.
  virtual void FlushPrintf() = 0;
};

}  // namespace cupola::sim
