#include "device/sim/driver/driver.h"

namespace cupola::sim {

void Driver::RegisterModule(const std::shared_ptr<Module>& module) {
  modules.Add(module);
  for (const auto& function : module->functions) functions.Add(function);
}

void Driver::DropModule(const std::shared_ptr<Module>& module) {
  for (const auto& function : module->functions) functions.Take(function.get());
  modules.Take(module.get());
}

LoadFailure Driver::LoadModuleImage(Context& context, const void* image,
                                    std::shared_ptr<Module>* module) {
  std::vector<std::string> units;
  LoadFailure failure = ReadPtx(image, &units);
  if (failure.result == CUDA_SUCCESS) failure = LoadModule(*device_, units, module);
  if (failure.result != CUDA_SUCCESS) return failure;
  (*module)->context = &context;
  context.KeepMemoryOfFences((*module)->system_fences);
  RegisterModule(*module);
  return {};
}

LoadFailure Driver::LoadLibrary(const void* image, std::shared_ptr<Library>* library) {
  auto made = std::make_shared<Library>();
  LoadFailure failure = ReadPtx(image, &made->units);
  if (failure.result == CUDA_SUCCESS) failure = LoadModule(*device_, made->units, &made->spare);
  if (failure.result != CUDA_SUCCESS) return failure;
  made->spare->library = made.get();
  for (const auto& function : made->spare->functions) {
    auto kernel = std::make_shared<Kernel>();
    kernel->library = made.get();
    kernel->index = function->index;
    kernel->name = function->info->name;
    kernels.Add(kernel);
    made->kernels.push_back(std::move(kernel));
  }
  libraries.Add(made);
  *library = std::move(made);
  return {};
}

CUresult Driver::ModuleOf(Library& library, Context& context, std::shared_ptr<Module>* module) {
  std::lock_guard lock(library.mutex);
  std::shared_ptr<Module>& own = library.modules[&context];
  if (!own) {
    if (library.spare) {
      own = std::move(library.spare);
      library.spare = nullptr;
    } else if (LoadFailure failure = LoadModule(*device_, library.units, &own);
               failure.result != CUDA_SUCCESS) {
      library.modules.erase(&context);
      return failure.result;
    }
    own->context = &context;
    context.KeepMemoryOfFences(own->system_fences);
    own->library = &library;
    RegisterModule(own);
  }
  *module = own;
  return CUDA_SUCCESS;
}

CUresult Driver::UnloadModule(CUmodule handle) {
  std::shared_ptr<Module> module = modules.Find(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (module->library != nullptr) return CUDA_ERROR_NOT_PERMITTED;
  WaitAndHoldLaunches(*module->context);  // no grid of the module may run while it is removed
  DropModule(module);
  return CUDA_SUCCESS;
}

CUresult Driver::UnloadLibrary(CUlibrary handle) {
  std::shared_ptr<Library> library = libraries.Take(handle);
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& kernel : library->kernels) kernels.Take(kernel.get());
  std::lock_guard lock(library->mutex);
  for (auto& [context, module] : library->modules) {
    WaitAndHoldLaunches(*context);
    DropModule(module);
  }
  library->modules.clear();
  return CUDA_SUCCESS;
}

CUresult Driver::ResolveFunction(Context& context, CUfunction handle,
                                 std::shared_ptr<Function>* function) {
  *function = functions.Find(handle);
  if (*function) return CUDA_SUCCESS;
  // CUDA driver API, cuLaunchKernel: the program may pass a CUkernel, cast to CUfunction.
  std::shared_ptr<Kernel> kernel = kernels.Find(handle);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Module> module;
  if (CUresult result = ModuleOf(*kernel->library, context, &module); result != CUDA_SUCCESS) {
    return result;
  }
  *function = module->functions[kernel->index];
  return CUDA_SUCCESS;
}

}  // namespace cupola::sim
