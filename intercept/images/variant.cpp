#include "intercept/images/variant.h"

#include "intercept/images/images.h"
#include "intercept/process/driver_calls.h"

namespace cupola::intercept {

// Only launches take a CUkernel in place of a CUfunction, so the function of a library's kernel is
// looked up.
CUfunction OriginalOf(const Variant& variant, const void* program) noexcept {
  if (!variant.image->is_library) return static_cast<CUfunction>(const_cast<void*>(program));
  const auto get_kernel = CUPOLA_CALL_REAL(cuLibraryGetKernel, PFN_cuLibraryGetKernel_v12000);
  const auto get_function = CUPOLA_CALL_REAL(cuKernelGetFunction, PFN_cuKernelGetFunction_v12000);
  const auto owner = static_cast<CUlibrary>(const_cast<void*>(variant.image->owner));
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  if (get_kernel(&kernel, owner, variant.name) != CUDA_SUCCESS ||
      get_function(&function, kernel) != CUDA_SUCCESS) {
    return nullptr;
  }
  return function;
}

}  // namespace cupola::intercept
