// Launch features: what a launch's duration may depend on, written for `cupola profile`: arguments,
// the sizes of the allocations in which pointers lie, registers. They go into a text file beside
// the launch records, one line for each launch; profiles/feature_file.h has the format and reads
// it. This is active only while a profile is being made (CUPOLA_FEATURES), because it allocates,
// takes locks and calls the driver and the system. Any thread.
//
// This source is also part of the CUPTI object (intercept/cupti/). That is why the caller passes in
// the driver's functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda.h>
#include <cudaTypedefs.h>

namespace cupola::intercept {

/// The functions of the driver that are needed. None may be null.
struct FeatureCalls {
  PFN_cuFuncGetParamInfo_v12040 func_param_info;
  PFN_cuKernelGetParamInfo_v12040 kernel_param_info;
  PFN_cuFuncGetAttribute_v2020 func_attribute;
  PFN_cuKernelGetAttribute_v12000 kernel_attribute;
  PFN_cuMemGetAddressRange_v3020 address_range;
  PFN_cuCtxGetDevice_v2000 current_device;
  PFN_cuDeviceGetAttribute_v2000 device_attribute;
  PFN_cuDeviceGetName_v2000 device_name;
  PFN_cuDriverGetVersion_v2020 driver_version;
};

/// A launch call as the program made it.
struct FeatureLaunch {
  const void* function = nullptr;  ///< CUfunction or CUkernel
  const char* name = nullptr;      ///< mangled; null = not known: the launch is not written
  uint32_t grid[3] = {};           ///< blocks: x, y, z
  uint32_t block[3] = {};          ///< threads of a block: x, y, z
  uint32_t shared_bytes = 0;       ///< dynamic shared memory of a block
  void** params = nullptr;
  void** extra = nullptr;
};

/// The line of one launch. It is made before the launch and written after it, so that no time of
/// ours lies between the launch's events. A launch whose line would be longer is left out.
struct FeatureLine {
  size_t bytes = 0;  ///< 0 = nothing to write
  char text[1000];
};

/// Makes the file `<folder>/.<pid>.<start_ns>.features`. False if that fails. `start_ns` is that of
/// the header of the launch records.
bool OpenFeatures(const char* folder, uint64_t start_ns, const FeatureCalls& calls) noexcept;

/// Whether there is a file. One load.
bool FeaturesOn() noexcept;

/// Whether the kernel of the launch has been described. If not, DescribeFeatures asks the driver
/// about it; that may load the kernel, and so wait for work that is under way.
bool KnowsKernelOf(const FeatureLaunch& launch) noexcept;

/// Describes a launch; asks the driver, in the calling thread's context. After the first 4,096
/// launches of a kernel only every sixteenth is described.
void DescribeFeatures(const FeatureLaunch& launch, FeatureLine* line) noexcept;

/// Writes the line under `ticket`, the number of the launch's record, which its duration carries
/// too.
void WriteFeatures(FeatureLine* line, uint64_t ticket) noexcept;

/// Writes a line "<letter> <text>": times and remarks of the CUPTI object.
void WriteFeatureText(const char* text) noexcept;

void ResetFeaturesAfterFork() noexcept;

}  // namespace cupola::intercept
