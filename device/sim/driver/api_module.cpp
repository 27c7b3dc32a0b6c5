// The calls cuModule*, cuLibrary* and cuKernel*: they load images and find kernels and variables in them.
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "device/sim/driver/api.h"

using namespace cupola::sim;  // NOLINT

namespace {

/// Puts a text into the program's log buffer, where it passed one. The option for the buffer's size becomes the
/// number of characters written, without the NUL.
void FillLog(CUjit_option buffer_option, CUjit_option size_option, const std::string& text,
             unsigned int count, const CUjit_option* options, void** values) {
  char* buffer = nullptr;
  void** size = nullptr;
  for (unsigned int i = 0; i < count && options != nullptr && values != nullptr; ++i) {
    if (options[i] == buffer_option) buffer = static_cast<char*>(values[i]);
    if (options[i] == size_option) size = &values[i];
  }
  const size_t room = size != nullptr ? static_cast<uint32_t>(reinterpret_cast<uintptr_t>(*size)) : 0;
  if (buffer == nullptr || room == 0) return;
  const size_t length = std::min(text.size(), room - 1);
  std::memcpy(buffer, text.data(), length);
  buffer[length] = '\0';
  *size = reinterpret_cast<void*>(length);
}

/// Fills the program's logs, on success too. Where an image cannot be loaded, it also says why on standard error,
/// because many programs print only the code.
CUresult Tell(const LoadFailure& failure, unsigned int count, CUjit_option* options,
              void** values) {
  FillLog(CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, failure.message, count,
          options, values);
  FillLog(CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, "", count, options, values);
  if (failure.result == CUDA_SUCCESS) return CUDA_SUCCESS;
  Say("cannot load a module: " + failure.message);
  return failure.result;
}

/// For an ELF file: whether the file is long enough for its table of sections. It is checked here because the code
/// that reads the table later does not know the file's size. True for any other file.
bool HoldsItsSections(const std::vector<char>& file) {
  Elf64_Ehdr header{};
  if (file.size() < sizeof(header)) return true;
  std::memcpy(&header, file.data(), sizeof(header));
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
         (header.e_shoff < file.size() &&
          file.size() - header.e_shoff > uint64_t{header.e_shnum} * header.e_shentsize);
}

/// Reads the whole file and appends a NUL, with which PTX text ends. Answers as an H100's driver does:
/// CUDA_ERROR_OUT_OF_MEMORY for a folder, CUDA_ERROR_INVALID_IMAGE for an empty file or one without a size. Never
/// blocks, also not on a FIFO that nobody writes to.
CUresult ReadFile(const char* path, std::vector<char>* bytes) {
  if (path == nullptr || *path == '\0') return CUDA_ERROR_INVALID_VALUE;
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return CUDA_ERROR_FILE_NOT_FOUND;
  struct stat facts {};
  CUresult result = CUDA_ERROR_INVALID_IMAGE;
  if (fstat(file, &facts) == 0 && S_ISDIR(facts.st_mode)) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (S_ISREG(facts.st_mode) && facts.st_size > 0) {
    bytes->resize(static_cast<size_t>(facts.st_size) + 1);
    size_t got = 0;
    ssize_t more = 1;
    while (more > 0 && got < bytes->size() - 1) {
      more = read(file, bytes->data() + got, bytes->size() - 1 - got);
      if (more > 0) got += static_cast<size_t>(more);
    }
    if (got != 0 && HoldsItsSections(*bytes)) result = CUDA_SUCCESS;
  }
  close(file);
  return result;
}

CUresult FindKernel(CUkernel handle, Driver** driver, std::shared_ptr<Kernel>* kernel) {
  SIM_TRY(Enter(driver));
  *kernel = (*driver)->kernels.Find(handle);
  return *kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult FindLibrary(CUlibrary handle, Driver** driver, std::shared_ptr<Library>* library) {
  SIM_TRY(Enter(driver));
  *library = (*driver)->libraries.Find(handle);
  return *library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult FindGlobal(const Module& module, CUdeviceptr* address, size_t* bytes, const char* name) {
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const GlobalInfo* global = module.FindGlobal(name);
  if (global == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = global->address;
  if (bytes != nullptr) *bytes = global->bytes;
  return CUDA_SUCCESS;
}

}  // namespace

SIM_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count,
                                       CUjit_option* options, void** values) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> loaded;
  SIM_TRY(Tell(driver->LoadModuleImage(*context, image, &loaded), count, options, values));
  *module = reinterpret_cast<CUmodule>(loaded.get());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

SIM_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

SIM_EXPORT CUresult cuModuleLoad(CUmodule* module, const char* path) {
  std::vector<char> bytes;
  SIM_TRY(ReadFile(path, &bytes));
  return cuModuleLoadDataEx(module, bytes.data(), 0, nullptr, nullptr);
}

SIM_EXPORT CUresult cuModuleUnload(CUmodule module) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  return driver->UnloadModule(module);
}

SIM_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module = driver->modules.Find(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  Function* found = module->Find(name);
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(found);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule handle) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  std::shared_ptr<Module> module = driver->modules.Find(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned int>(module->functions.size());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int count,
                                               CUmodule handle) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  std::shared_ptr<Module> module = driver->modules.Find(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (functions == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < std::min<size_t>(count, module->functions.size()); ++i) {
    functions[i] = reinterpret_cast<CUfunction>(module->functions[i].get());
  }
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                                         const char* name) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  std::shared_ptr<Module> module = driver->modules.Find(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  return FindGlobal(*module, address, bytes, name);
}

SIM_EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* code,
                                      CUjit_option* jit_options, void** jit_values,
                                      unsigned int jit_count, CUlibraryOption*, void**,
                                      unsigned int) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Library> loaded;
  SIM_TRY(Tell(driver->LoadLibrary(code, &loaded), jit_count, jit_options, jit_values));
  *library = reinterpret_cast<CUlibrary>(loaded.get());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path,
                                          CUjit_option* jit_options, void** jit_values,
                                          unsigned int jit_count, CUlibraryOption* options,
                                          void** values, unsigned int count) {
  std::vector<char> bytes;
  SIM_TRY(ReadFile(path, &bytes));
  return cuLibraryLoadData(library, bytes.data(), jit_options, jit_values, jit_count, options,
                           values, count);
}

SIM_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  return driver->UnloadLibrary(library);
}

SIM_EXPORT CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary handle, const char* name) {
  Driver* driver;
  std::shared_ptr<Library> library;
  SIM_TRY(FindLibrary(handle, &driver, &library));
  if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& candidate : library->kernels) {
    if (candidate->name != name) continue;
    *kernel = reinterpret_cast<CUkernel>(candidate.get());
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

SIM_EXPORT CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary handle) {
  Driver* driver;
  std::shared_ptr<Library> library;
  SIM_TRY(FindLibrary(handle, &driver, &library));
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned int>(library->kernels.size());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int count,
                                              CUlibrary handle) {
  Driver* driver;
  std::shared_ptr<Library> library;
  SIM_TRY(FindLibrary(handle, &driver, &library));
  if (kernels == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < std::min<size_t>(count, library->kernels.size()); ++i) {
    kernels[i] = reinterpret_cast<CUkernel>(library->kernels[i].get());
  }
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuLibraryGetModule(CUmodule* module, CUlibrary handle) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  std::shared_ptr<Library> library = driver->libraries.Find(handle);
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> own;
  SIM_TRY(driver->ModuleOf(*library, *context, &own));
  *module = reinterpret_cast<CUmodule>(own.get());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                                       const char* name) {
  CUmodule module;
  SIM_TRY(cuLibraryGetModule(&module, handle));
  return cuModuleGetGlobal_v2(address, bytes, module, name);
}

SIM_EXPORT CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                                        const char* name) {
  return cuLibraryGetGlobal(address, bytes, handle, name);  // all device memory is host memory here
}

SIM_EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel handle) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!driver->kernels.Find(handle)) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Function> found;
  SIM_TRY(driver->ResolveFunction(*context, reinterpret_cast<CUfunction>(handle), &found));
  *function = reinterpret_cast<CUfunction>(found.get());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel handle) {
  Driver* driver;
  std::shared_ptr<Kernel> kernel;
  SIM_TRY(FindKernel(handle, &driver, &kernel));
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library = reinterpret_cast<CUlibrary>(kernel->library);
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuKernelGetName(const char** name, CUkernel handle) {
  Driver* driver;
  std::shared_ptr<Kernel> kernel;
  SIM_TRY(FindKernel(handle, &driver, &kernel));
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}
