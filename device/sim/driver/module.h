// Modules, libraries, functions and kernels of the simulated device, and how a pointer to an image
// becomes PTX. Functions and kernels live as long as their module or library.
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
  uint32_t index = 0;
  const KernelInfo* info = nullptr;
  uint32_t max_dynamic_shared_bytes = 0;  ///< as set; the default leaves 48 KiB with the static
  int shared_carveout = -1;
};

/// One image loaded into one context.
struct Module {
  std::shared_ptr<LoadedModule> loaded;
  Context* context = nullptr;
  Library* library = nullptr;  ///< null for cuModuleLoad*
  std::vector<std::shared_ptr<Function>> functions;  ///< by index into loaded->kernels()
  size_t system_fences = 0;  ///< in its text

  Function* Find(std::string_view name) const;
  const GlobalInfo* FindGlobal(std::string_view name) const;
};

/// What a CUkernel points to: a kernel of a library, in whatever context it is used.
struct Kernel {
  Library* library = nullptr;
  uint32_t index = 0;
  std::string name;
};

/// An image that is loaded into each context that uses it. Its text is kept for that.
struct Library {
  std::vector<std::string> units;  ///< PTX; more than one for an -rdc program
  std::vector<std::shared_ptr<Kernel>> kernels;
  std::mutex mutex;                                     ///< guards the modules
  std::map<Context*, std::shared_ptr<Module>> modules;
  std::shared_ptr<Module> spare;  ///< loaded when the library was; goes to its first context
};

/// Why an image could not be loaded: the CUresult that CUDA has for it, and a sentence.
struct LoadFailure {
  CUresult result = CUDA_SUCCESS;
  std::string message;
};

/// Appends the PTX texts behind an image pointer (wrapper, container or text): one, or one for each
/// unit of an -rdc program. Failures: CUDA_ERROR_INVALID_IMAGE for damage, CUDA_ERROR_INVALID_VALUE
/// for null, CUDA_ERROR_NO_BINARY_FOR_GPU where there is no PTX that a device of 9.0 compiles.
LoadFailure ReadPtx(const void* image, std::vector<std::string>* units);

/// Loads PTX texts into the device, linked into one module. Failures: those of CheckPtxHeader,
/// CUDA_ERROR_INVALID_PTX, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY.
LoadFailure LoadModule(Device& device, const std::vector<std::string>& units,
                       std::shared_ptr<Module>* module);

}  // namespace cupola::sim
