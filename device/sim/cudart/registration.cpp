// The calls that nvcc's host code makes before main(). They only record fatbins, kernels and
// variables. A module is loaded when one of its kernels or variables is first used (lazy loading,
// as in CUDA 12 and later).
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "device/sim/cudart/runtime.h"

namespace cupola::cudart {
namespace {

// One fatbin that host code has registered. Its address is the handle that host code keeps. It is
// freed when host code unregisters it before the program's end.
struct Module {
  const void* image = nullptr;      // the fatbin's wrapper, which belongs to the program
  bool tried = false;               // whether it was loaded, or could not be; it is not tried again
  CUresult status = CUDA_SUCCESS;   // how the load ended
  CUlibrary library = nullptr;
  struct Managed {
    void** host_pointer;  // through which host code uses the variable; the load sets it
    std::string name;
  };
  std::vector<Managed> managed;
};

struct Kernel {
  Module* module = nullptr;
  std::string name;           // mangled
  CUkernel handle = nullptr;  // null until the kernel is first used
};

struct Variable {
  Module* module = nullptr;
  std::string name;
};

struct Registry {
  std::mutex mutex;
  std::map<const void*, Kernel*> kernels;  // by the address of the host stub
  std::set<Kernel*> handles;               // all kernels: the handles that __cudaGetKernel gives
  std::map<const void*, Variable> variables;  // by the address of the host symbol
};

Registry& TheRegistry() {
  static Registry* registry = new Registry;  // never freed: see runtime.h
  return *registry;
}

// Loads the module at the first call, and sets the host pointers of its managed variables. Later
// calls return the same result. The caller holds the registry's mutex.
CUresult Load(const DriverCalls& calls, Module* module) {
  if (module->tried) return module->status;
  module->tried = true;
  module->status = calls.cuLibraryLoadData(&module->library, module->image, nullptr, nullptr, 0,
                                           nullptr, nullptr, 0);
  for (const Module::Managed& variable : module->managed) {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    if (module->status != CUDA_SUCCESS) break;
    if (calls.cuLibraryGetManaged(&address, &bytes, module->library, variable.name.c_str()) ==
        CUDA_SUCCESS) {
      *variable.host_pointer = reinterpret_cast<void*>(address);
    }
  }
  return module->status;
}

void AddVariable(void** module, const void* symbol, const char* name) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  registry.variables[symbol] = {reinterpret_cast<Module*>(module), name};
}

}  // namespace

cudaError_t FindKernel(const DriverCalls& calls, const void* function, CUkernel* kernel) {
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  Kernel* found = nullptr;
  if (const auto it = registry.kernels.find(function); it != registry.kernels.end()) {
    found = it->second;
  } else if (auto* handle = static_cast<Kernel*>(const_cast<void*>(function));
             registry.handles.count(handle) != 0) {
    found = handle;
  } else {
    const char* name = nullptr;
    *kernel = static_cast<CUkernel>(const_cast<void*>(function));  // from cudaGetKernel, or invalid
    return calls.cuKernelGetName(&name, *kernel) == CUDA_SUCCESS ? cudaSuccess
                                                                 : cudaErrorInvalidDeviceFunction;
  }
  if (found->handle == nullptr) {
    if (const CUresult result = Load(calls, found->module); result != CUDA_SUCCESS) {
      return static_cast<cudaError_t>(result);
    }
    if (calls.cuLibraryGetKernel(&found->handle, found->module->library, found->name.c_str()) !=
        CUDA_SUCCESS) {
      found->handle = nullptr;
      return cudaErrorInvalidDeviceFunction;
    }
  }
  *kernel = found->handle;
  return cudaSuccess;
}

cudaError_t FindFunction(const DriverCalls& calls, const void* function, CUfunction* out) {
  CUkernel kernel = nullptr;
  if (const cudaError_t error = FindKernel(calls, function, &kernel); error != cudaSuccess) {
    return error;
  }
  return static_cast<cudaError_t>(calls.cuKernelGetFunction(out, kernel));
}

cudaError_t FindSymbol(const DriverCalls& calls, const void* symbol, CUdeviceptr* address,
                       size_t* bytes) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  const auto it = registry.variables.find(symbol);
  if (it == registry.variables.end()) return cudaErrorInvalidSymbol;
  if (const CUresult result = Load(calls, it->second.module); result != CUDA_SUCCESS) {
    return static_cast<cudaError_t>(result);
  }
  const CUresult result = calls.cuLibraryGetGlobal(address, bytes, it->second.module->library,
                                                   it->second.name.c_str());
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidSymbol;
}

}  // namespace cupola::cudart

using namespace cupola::cudart;  // NOLINT: the exported calls are below

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  Module* module = new Module;
  module->image = wrapper;
  return reinterpret_cast<void**>(module);
}

void __cudaRegisterFatBinaryEnd(void**) {}

// Called when a plug-in is closed and at exit. A plug-in's stubs and image may be unmapped next, so
// everything about it is removed and its module is unloaded, which waits for its kernels. At exit
// this does nothing: exit does not wait for kernels, and threads and destructors of the program may
// still use them.
void __cudaUnregisterFatBinary(void** handle) {
  if (IsExiting()) return;
  Module* module = reinterpret_cast<Module*>(handle);
  Registry& registry = TheRegistry();
  {
    std::lock_guard lock(registry.mutex);
    std::erase_if(registry.variables,
                  [module](const auto& item) { return item.second.module == module; });
    std::erase_if(registry.kernels,
                  [module](const auto& item) { return item.second->module == module; });
    std::erase_if(registry.handles, [module](const Kernel* kernel) {
      if (kernel->module != module) return false;
      delete kernel;
      return true;
    });
  }
  const DriverCalls* calls = nullptr;
  if (module->library != nullptr && EnterDriver(&calls) == cudaSuccess) {
    static_cast<void>(calls->cuLibraryUnload(module->library));
  }
  delete module;
}

void __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* name, int,
                            void*, void*, void*, void*, int*) {
  Kernel* kernel = new Kernel{reinterpret_cast<Module*>(handle), name};
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  registry.kernels[host_function] = kernel;
  registry.handles.insert(kernel);
}

void __cudaRegisterVar(void** handle, char* host_variable, char*, const char* name, int, size_t,
                       int, int) {
  AddVariable(handle, host_variable, name);
}

void __cudaRegisterHostVar(void** handle, const char* name, char* host_variable, size_t) {
  AddVariable(handle, host_variable, name);
}

void __cudaRegisterManagedVar(void** handle, void** host_pointer, char*, const char* name, int,
                              size_t, int, int) {
  AddVariable(handle, host_pointer, name);
  std::lock_guard lock(TheRegistry().mutex);
  reinterpret_cast<Module*>(handle)->managed.push_back({host_pointer, name});
}

// Host code calls it before it first uses a managed variable.
char __cudaInitModule(void** handle) {
  const DriverCalls* calls = nullptr;
  if (const cudaError_t error = Enter(&calls, false); error != cudaSuccess) {
    Leave(error);
    return 0;
  }
  std::lock_guard lock(TheRegistry().mutex);
  return Leave(Load(*calls, reinterpret_cast<Module*>(handle))) == cudaSuccess;
}

// The handle is the address of our Kernel, so nothing is loaded here. If the module cannot be
// loaded, the launch reports it.
cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* host_function) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  const auto it = registry.kernels.find(host_function);
  if (it == registry.kernels.end()) return Leave(cudaErrorInvalidDeviceFunction);
  *out = reinterpret_cast<cudaKernel_t>(it->second);
  return cudaSuccess;
}

}  // extern "C"

CUPOLA_CUDART_CALL(cudaGetKernel, (cudaKernel_t* out, const void* function),
                   FindKernel(calls, function, reinterpret_cast<CUkernel*>(out)))
CUPOLA_CUDART_CALL(cudaGetFuncBySymbol, (cudaFunction_t* out, const void* function),
                   FindFunction(calls, function, reinterpret_cast<CUfunction*>(out)))

