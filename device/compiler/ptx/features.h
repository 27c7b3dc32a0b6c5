// What a kernel uses that matters to its variants (preemptible, sliced, elastic, task). These are
// facts from its PTX; the passes decide whether a variant is possible. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

enum class Feature : uint8_t {
  kBlockBarrier,        ///< waits for its whole block: bar.sync 0 and the like [9.7.13.1]
  kEarlyReturn,         ///< a thread may leave before others of its block come to such a barrier
  kNamedBarrier,        ///< barriers other than 0, or for a counted number of threads
  kWarpSync,            ///< shfl, vote, match, redux, bar.warp.sync, elect
  kGridSync,            ///< reads the workspace of a cooperative launch (%envreg)
  kCluster,             ///< clusters: attributes, ranks, mapa, barrier.cluster
  kMbarrier,            ///< mbarrier objects
  kBulkCopy,            ///< TMA: cp.async.bulk and its kin
  kProgrammaticLaunch,  ///< griddepcontrol
  kDynamicParallelism,  ///< launches kernels itself
  kPlacement,           ///< reads %smid, %nsmid, %gridid, %warpid or %nwarpid
  kMayWait,             ///< a loop may wait for other blocks or the host; detail: why (waits.h)
  kStaticShared,        ///< detail: bytes
  kDynamicShared,       ///< has an extern .shared array
  kLocalMemory,         ///< detail: bytes
  kIndirectCall,        ///< calls through a pointer
  kModuleVariable,      ///< detail: names of the __device__ and __constant__ variables it names
  kPrintf,
  kAssert,
  kDeviceHeap,            ///< malloc and free in the kernel
  kRegisterReallocation,  ///< setmaxnreg
  kTensorCore,            ///< mma, wmma, wgmma, tcgen05
  kTexture,               ///< texture and surface instructions
  kFloatAtomic,           ///< float atomics: results depend on the order of blocks
  kUnknownCall,           ///< calls code that this module does not have; detail: names
};

/// The number of features.
inline constexpr int kFeatureCount = static_cast<int>(Feature::kUnknownCall) + 1;

/// The words for a feature ("block barrier", "early return with barriers" ...).
const char* ToString(Feature feature);

/// A feature with a detail ("1024 bytes", "taps, counter"), which may be empty.
struct FeatureNote {
  Feature feature = Feature::kBlockBarrier;
  std::string detail;
};

struct KernelFeatures {
  std::string kernel;              ///< mangled name
  std::vector<FeatureNote> notes;  ///< in the order of Feature, each at most once

  bool Has(Feature feature) const {
    for (const FeatureNote& note : notes) {
      if (note.feature == feature) return true;
    }
    return false;
  }
};

/// The features of every kernel of the module, in its order. Functions that a kernel calls count as
/// its own: those that it calls directly, and, if it calls through pointers, every function whose
/// address is taken.
std::vector<KernelFeatures> AnalyzeKernels(const Module& module);

}  // namespace cupola::ptx
