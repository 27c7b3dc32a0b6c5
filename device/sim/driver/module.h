// Modules, libraries, functions and kernels of the simulated device, and the way from a pointer to
// an image to its PTX. The Driver owns modules and libraries; their functions and kernels live as
// long as they do. The functions here may be called from any thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/sim/exec/device.h"

namespace cupola::sim {

class Context;
struct Library;
struct Module;

/// What a CUfunction points to.
struct Function {
  Module* module = nullptr;
  uint32_t index = 0;  ///< into module->loaded->kernels()
  const KernelInfo* info = nullptr;
  /// As the program set it; by default 48 KiB less the kernel's static shared memory.
  uint32_t max_dynamic_shared_bytes = 0;
  int shared_carveout = -1;  ///< CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, in percent
};

/// One image loaded into one context.
struct Module {
  std::shared_ptr<LoadedModule> loaded;
  Context* context = nullptr;
  Library* library = nullptr;  ///< null for a module of cuModuleLoad*
  std::vector<std::shared_ptr<Function>> functions;  ///< by index into loaded->kernels()
  size_t system_fences = 0;  ///< number of fences of system scope in its PTX

  Function* Find(std::string_view name) const;
  const GlobalInfo* FindGlobal(std::string_view name) const;
};

/// What a CUkernel points to: a kernel of a library, independent of any context.
struct Kernel {
  Library* library = nullptr;
  uint32_t index = 0;  ///< into the kernels of each module of the library
  std::string name;
};

/// An image that is loaded into each context that uses it. It keeps its PTX for those loads.
struct Library {
  std::vector<std::string> units;  ///< PTX texts; more than one for an -rdc program
  std::vector<std::shared_ptr<Kernel>> kernels;
  std::mutex mutex;  ///< guards `modules` and `spare`
  std::map<Context*, std::shared_ptr<Module>> modules;
  /// The module that was loaded together with the library. It becomes the module of the first
  /// context that uses the library; null from then on.
  std::shared_ptr<Module> spare;
};

/// Why an image could not be loaded: the CUresult that CUDA returns for it, and a sentence.
struct LoadFailure {
  CUresult result = CUDA_SUCCESS;
  std::string message;
};

/// Appends the PTX texts behind an image pointer (fatbin wrapper, container or PTX text): one text,
/// or one for each unit of an -rdc program. Failures: CUDA_ERROR_INVALID_IMAGE for a damaged image
/// or a host object, CUDA_ERROR_INVALID_VALUE for null, CUDA_ERROR_NO_BINARY_FOR_GPU where there is
/// no PTX that can be compiled for compute capability 9.0.
LoadFailure ReadPtx(const void* image, std::vector<std::string>* units);

/// Loads PTX texts into the device, linked into one module. Failures: those of CheckPtxHeader, and
/// CUDA_ERROR_INVALID_PTX, CUDA_ERROR_NOT_SUPPORTED and CUDA_ERROR_OUT_OF_MEMORY.
LoadFailure LoadModule(Device& device, const std::vector<std::string>& units,
                       std::shared_ptr<Module>* module);

}  // namespace cupola::sim
