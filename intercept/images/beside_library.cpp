#include "intercept/images/beside_library.h"

#include <algorithm>

#include "base/settings/variables.h"
#include "intercept/process/driver.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/notice.h"

namespace cupola::intercept {
namespace {

// Loads the library beside an image: a resting one, else its cubin, else its PTX, for drivers that take
// no cubin. Returns whether it is loaded. A failure is final. Under the mutex.
bool Load(RestingLibraries* resting, const std::string& key, Image* image, store::ImageKind kind) {
  BesideLibrary& beside = image->beside[static_cast<size_t>(kind)];
  if (beside.state != BesideLibrary::State::kNotLoaded) {
    return beside.state == BesideLibrary::State::kLoaded;
  }
  beside.library = resting->Take(key, kind);
  if (beside.library != nullptr) {
    beside.state = BesideLibrary::State::kLoaded;
    return true;
  }
  const auto load = CUPOLA_CALL_REAL(cuLibraryLoadData, PFN_cuLibraryLoadData_v12000);
  const std::span<const std::byte> cubin = image->bundle.cubin(kind);
  const char* const ptx = image->bundle.ptx(kind);
  CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  const bool only_ptx = settings::Flag("CUPOLA_SIDE_PTX") || IsDriverSimulated();
  if (!cubin.empty() && !only_ptx) {
    result = load(&beside.library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  }
  if (result != CUDA_SUCCESS && ptx != nullptr) {
    result = load(&beside.library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0);
  }
  const bool is_loaded = result == CUDA_SUCCESS;
  beside.state = is_loaded ? BesideLibrary::State::kLoaded : BesideLibrary::State::kFailed;
  if (!is_loaded) {
    Say(Level::kWarn, {"the driver does not load a side module: error ", Decimal(result)});
  }
  return is_loaded;
}

// Finds the address that a variable of the program's image has in the current context.
bool AddressOf(const Image& image, const char* name, bool is_managed, uint64_t* address) {
  CUdeviceptr found = 0;
  size_t bytes = 0;
  CUresult result;
  const auto library = static_cast<CUlibrary>(const_cast<void*>(image.owner));
  if (image.is_library && is_managed) {
    result = CUPOLA_CALL_REAL(cuLibraryGetManaged, PFN_cuLibraryGetManaged_v12000)(&found, &bytes,
                                                                                   library, name);
  } else if (image.is_library) {
    result = CUPOLA_CALL_REAL(cuLibraryGetGlobal, PFN_cuLibraryGetGlobal_v12000)(&found, &bytes,
                                                                                 library, name);
  } else {
    const auto owner = static_cast<CUmodule>(const_cast<void*>(image.owner));
    result = CUPOLA_CALL_REAL(cuModuleGetGlobal_v2, PFN_cuModuleGetGlobal_v3020)(&found, &bytes,
                                                                                 owner, name);
  }
  *address = found;
  return result == CUDA_SUCCESS;
}

// Fills cupola_variables of the library beside an image, in `context`, which is current; does it once for each context.
// Under the mutex. Waits for the copy, so that launches on every stream find the addresses.
bool FillVariables(Image* image, store::ImageKind kind, CUcontext context, CUstream stream) {
  BesideLibrary& beside = image->beside[static_cast<size_t>(kind)];
  if (std::find(beside.filled.begin(), beside.filled.end(), context) != beside.filled.end()) {
    return true;
  }
  const auto variables = image->bundle.variables(kind);
  std::vector<uint64_t> addresses(variables.size());
  for (size_t i = 0; i < variables.size(); ++i) {
    const char* name = image->bundle.Text(variables[i].name_offset);
    const bool is_managed = (variables[i].flags & store::kManaged) != 0;
    if (!AddressOf(*image, name, is_managed, &addresses[i])) {
      Say(Level::kWarn, {"a side module is not used: no variable ", name});
      return false;
    }
  }
  if (!addresses.empty()) {
    CUdeviceptr table = 0;
    size_t bytes = 0;
    const auto find = CUPOLA_CALL_REAL(cuLibraryGetGlobal, PFN_cuLibraryGetGlobal_v12000);
    const auto copy = CUPOLA_CALL_REAL(cuMemcpyHtoDAsync_v2, PFN_cuMemcpyHtoDAsync_v3020);
    const auto wait = CUPOLA_CALL_REAL(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000);
    if (find(&table, &bytes, beside.library, "cupola_variables") != CUDA_SUCCESS ||
        bytes < addresses.size() * sizeof(uint64_t) ||
        copy(table, addresses.data(), addresses.size() * sizeof(uint64_t), stream) !=
            CUDA_SUCCESS ||
        wait(stream) != CUDA_SUCCESS) {
      Say(Level::kWarn, {"a side module is not used: its table of variables cannot be filled"});
      return false;
    }
  }
  beside.filled.push_back(context);
  return true;
}

}  // namespace

CUfunction FunctionIn(RestingLibraries* resting, const std::string& key, Image* image, store::ImageKind kind,
                      CUcontext context, CUstream stream, const std::string& name) noexcept {
  if (!Load(resting, key, image, kind) || !FillVariables(image, kind, context, stream)) return nullptr;
  const auto get_kernel = CUPOLA_CALL_REAL(cuLibraryGetKernel, PFN_cuLibraryGetKernel_v12000);
  const auto get_function = CUPOLA_CALL_REAL(cuKernelGetFunction, PFN_cuKernelGetFunction_v12000);
  const auto load = CUPOLA_CALL_REAL(cuFuncLoad, PFN_cuFuncLoad_v12040);
  const CUlibrary library = image->beside[static_cast<size_t>(kind)].library;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  if (get_kernel(&kernel, library, name.c_str()) != CUDA_SUCCESS ||
      get_function(&function, kernel) != CUDA_SUCCESS) {
    Say(Level::kWarn, {"a side module has no ", name});
    return nullptr;
  }
  (void)load(function);  // older drivers lack this call: there the first launch loads the kernel
  return function;
}

}  // namespace cupola::intercept
