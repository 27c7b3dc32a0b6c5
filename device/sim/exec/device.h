// The simulated GPU as its driver sees it: modules loaded from PTX, memory, and grids that run on
// SMs. The driver (device/sim/driver) adds contexts, streams, events and the CUDA calls; it alone
// decides order: a grid submitted here may start at once and grids run concurrently.
//
// Free mode: each SM is a host thread that interleaves its resident blocks warp by warp; kernels
// and host threads share memory for real, so a kernel may spin on a word that the host writes.
// Device pointers are host addresses. All methods are thread-safe unless they say otherwise.
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

/// What the device pretends to be. The defaults are those of the simulated device of `cupola run`.
struct DeviceConfig {
  uint32_t sm_count = 4;
  uint32_t max_blocks_per_sm = 8;
  uint32_t max_threads_per_sm = 2048;
  uint32_t shared_bytes_per_sm = 228 * 1024;         ///< like sm_90
  uint32_t max_shared_bytes_per_block = 227 * 1024;  ///< opt-in limit, like sm_90
  uint64_t memory_bytes = 8ull << 30;                ///< size of device memory
  /// What SMs pass before they execute (device/sim/token); null: nothing. Outlives the device.
  Gate* gate = nullptr;
};

/// How a grid ended badly; names map onto CUresult codes of the same meaning.
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
  uint32_t offset = 0, size = 0, align = 0;  ///< bytes in the parameter buffer
};

/// One kernel of a loaded module. Owned by its LoadedModule; immutable but for the attribute.
struct KernelInfo {
  std::string name;
  std::vector<ParamInfo> params;
  uint32_t param_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t local_bytes = 0;               ///< per thread
  uint32_t registers = 0;                 ///< an estimate, from the declared registers, at most 255
  uint32_t max_threads_per_block = 1024;  ///< .maxntid / .reqntid, else 1024
  Dim3 required_threads{0, 0, 0};         ///< .reqntid; 0s: none
  Dim3 cluster{0, 0, 0};                  ///< .reqnctapercluster; 0s: none
};

struct GlobalInfo {
  std::string name;
  uint64_t address = 0;
  uint64_t bytes = 0;
  bool is_constant = false;
};

/// An instruction form that the interpreter lacks: it faults when, and only when, it is executed.
struct LackedForm {
  std::string form;    ///< opcode and modifiers, "tex.2d.v4.f32.f32"
  uint32_t line = 0;   ///< of its first use
  uint32_t count = 0;  ///< uses in the module
};

/// A module in device memory: its variables have addresses, its kernels can run. Unloads when
/// destroyed; no grid of it may be running then.
class LoadedModule {
 public:
  virtual ~LoadedModule() = default;
  virtual const std::vector<KernelInfo>& kernels() const = 0;
  virtual const std::vector<GlobalInfo>& globals() const = 0;
  /// What the module has and the interpreter lacks, ordered by form.
  virtual std::vector<LackedForm> Lacks() const = 0;
};

struct GridLaunch {
  std::shared_ptr<const LoadedModule> module;
  uint32_t kernel_index = 0;  ///< into module->kernels()
  Dim3 grid, block;
  uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> params;  ///< KernelInfo::param_bytes bytes, laid out by KernelInfo::params
  bool cooperative = false;       ///< all blocks are made resident together
};

class Device {
 public:
  static std::unique_ptr<Device> Create(const DeviceConfig& config);
  virtual ~Device() = default;  ///< waits for running grids

  virtual const DeviceConfig& config() const = 0;

  /// Parses and loads PTX text. Errors: kDamaged (line, column), kUnsupported (names the
  /// instruction; instructions that are unknown but never reached fault only when executed).
  virtual Result<std::shared_ptr<LoadedModule>> LoadPtx(std::string_view text,
                                                        std::string_view name) = 0;

  /// The same for the units of a program compiled with -rdc=true, linked into one module. Errors
  /// also: kDamaged where two units define one name.
  virtual Result<std::shared_ptr<LoadedModule>> LoadLinkedPtx(
      std::span<const std::string_view> texts, std::string_view name) = 0;

  /// Device memory, 256-byte aligned. 0 when there is not enough.
  virtual uint64_t Allocate(uint64_t bytes) = 0;
  virtual bool Free(uint64_t address) = 0;  ///< false: not the start of an allocation
  /// Makes host memory [address, +bytes) reachable by kernels (pinned, mapped, managed memory).
  virtual void MapHost(uint64_t address, uint64_t bytes) = 0;
  virtual void UnmapHost(uint64_t address) = 0;
  /// The device allocation or mapped range or module variable that holds `address`: {start, bytes},
  /// or {0, 0}.
  struct Range {
    uint64_t start = 0, bytes = 0;
    bool is_host = false;
  };
  virtual Range FindRange(uint64_t address) const = 0;
  virtual uint64_t FreeBytes() const = 0;

  /// Blocks of this shape that fit on one SM together (occupancy); 0 = cannot run at all.
  virtual uint32_t MaxResidentBlocks(const KernelInfo& kernel, uint32_t threads_per_block,
                                     uint32_t dynamic_shared_bytes) const = 0;

  /// Queues a grid and returns. `done` is called once, on an SM's thread, when its last block has
  /// ended; nullptr = success. After a fault the grid's other blocks stop.
  virtual void Submit(GridLaunch launch, std::function<void(const Fault* fault)> done) = 0;

  /// Lets a device that has no threads of its own run what was submitted. False: something can
  /// never end.
  virtual bool Drive() { return true; }

  /// Nanoseconds of %globaltimer.
  virtual uint64_t NowNs() const = 0;

  /// Writes what kernels printed since the last flush to the process's standard output. Called by
  /// the driver where CUDA flushes (synchronisation, launch, blocking copy, unload); a grid's end
  /// alone writes nothing, so that the order of lines does not depend on timing.
  virtual void FlushPrintf() = 0;
};

}  // namespace cupola::sim
