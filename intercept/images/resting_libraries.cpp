#include "intercept/images/resting_libraries.h"

#include <algorithm>
#include <atomic>

#include "intercept/process/driver_calls.h"
#include "intercept/process/notice.h"

namespace cupola::intercept {

CUlibrary RestingLibraries::Take(const std::string& key, store::ImageKind kind) noexcept {
  const auto found = std::find_if(resting_.begin(), resting_.end(), [&](const Resting& resting) {
    return resting.kind == kind && resting.key == key;
  });
  if (found == resting_.end()) return nullptr;
  const CUlibrary library = found->library;
  bytes_ -= found->bytes;
  resting_.erase(found);
  return library;
}

void RestingLibraries::Put(const std::string& key, store::ImageKind kind, CUlibrary library,
                           size_t bytes) noexcept {
  resting_.push_back({key, kind, library, bytes});
  bytes_ += bytes;
  while (resting_.size() > kMost || bytes_ > kMostBytes) {
    const auto unload = CUPOLA_CALL_REAL(cuLibraryUnload, PFN_cuLibraryUnload_v12000);
    const CUresult result = unload(resting_.front().library);
    static std::atomic_flag said;
    if (result != CUDA_SUCCESS) {
      SayOnce(said, Level::kWarn, {"the driver does not unload a side module: error ", Decimal(result)});
    }
    bytes_ -= resting_.front().bytes;
    resting_.pop_front();
  }
}

}  // namespace cupola::intercept
