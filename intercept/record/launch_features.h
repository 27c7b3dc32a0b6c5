// What a launch's duration may depend on, written down for `cupola profile`: arguments, the sizes
// of the allocations that pointers lie in, registers. A text file beside the launch records, one
// line a launch; profiles/feature_file.h has the format and reads it. Only while a profile is being
// made (CUPOLA_FEATURES): it allocates, locks and calls the driver and the system. Thread-safe.
//
// Also part of the CUPTI object (intercept/cupti/), which is why the driver's calls are passed in.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda.h>
#include <cudaTypedefs.h>

namespace cupola::intercept {

/// The driver's functions that are needed. None may be null.
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

/// A launch call as it came.
struct FeatureLaunch {
  const void* function = nullptr;  ///< CUfunction or CUkernel
  const char* name = nullptr;      ///< mangled; null = unknown: not written
  uint32_t grid[3] = {}, block[3] = {};
  uint32_t shared_bytes = 0;
  void** params = nullptr;
  void** extra = nullptr;
};

/// A line that is made before the launch, so that no time of ours lies between its events, and
/// written after it. Longer argument lists are cut.
struct FeatureLine {
  size_t bytes = 0;  ///< 0 = nothing to write
  char text[1000];
};

/// Makes the file `<folder>/.<pid>.<start_ns>.features`; false where it cannot. `start_ns` as in
/// the header of the launch records.
bool OpenFeatures(const char* folder, uint64_t start_ns, const FeatureCalls& calls) noexcept;

/// Whether there is a file. One load.
bool FeaturesOn() noexcept;

/// Whether the kernel of a launch has been described. Else DescribeFeatures asks the driver about
/// it, which may load it, and so wait for what is under way.
bool KnowsKernelOf(const FeatureLaunch& launch) noexcept;

/// Describes a launch; asks the driver, in the calling thread's context. A kernel of which
/// thousands of launches are there already is described every sixteenth time.
void DescribeFeatures(const FeatureLaunch& launch, FeatureLine* line) noexcept;

/// Writes it under the number by which its duration will be known.
void WriteFeatures(FeatureLine* line, uint64_t ticket) noexcept;

/// Writes "<letter> <text>": times and remarks of the CUPTI object.
void WriteFeatureText(const char* text) noexcept;

void ResetFeaturesAfterFork() noexcept;

}  // namespace cupola::intercept
