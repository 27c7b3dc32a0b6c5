// cuGetProcAddress, cuGetErrorName and cuGetErrorString: calls that need no device.
#include <cctype>
#include <cstring>
#include <map>
#include <string>

#include "device/sim/driver/api.h"
#include "device/sim/driver/tables.h"

namespace {

/// The address of the newest version of a call that is not newer than `version`; null, with the
/// reason in `status`, when there is none.
const void* Look(const char* symbol, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
  const CupolaSimEntry* best = nullptr;
  bool exists = false;
  const bool wants_per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  for (const CupolaSimEntry* entry = cupola_sim_entries; entry->name != nullptr; ++entry) {
    if (std::strcmp(entry->name, symbol) != 0) continue;
    exists = true;
    if (entry->since > version || (entry->is_per_thread != 0 && !wants_per_thread)) continue;
    // A per-thread form, where it is wanted and exists, has precedence over every plain form.
    const bool is_better = best == nullptr || entry->is_per_thread > best->is_per_thread ||
                           (entry->is_per_thread == best->is_per_thread &&
                            entry->since > best->since);
    if (is_better) best = entry;
  }
  *status = best != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
            : exists        ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return best != nullptr ? best->address : nullptr;
}

/// Makes "invalid value" of "CUDA_ERROR_INVALID_VALUE", for errors that have no text in Sentence.
std::string Words(const char* name) {
  std::string words = std::strncmp(name, "CUDA_ERROR_", 11) == 0 ? name + 11 : name;
  for (char& letter : words) {
    letter = letter == '_' ? ' ' : static_cast<char>(std::tolower(letter));
  }
  return words;
}

/// The text of an error that users of the simulated device are likely to see; null for the others.
const char* Sentence(CUresult error) {
  switch (error) {
    case CUDA_SUCCESS: return "no error";
    case CUDA_ERROR_INVALID_VALUE: return "invalid argument";
    case CUDA_ERROR_DEINITIALIZED: return "driver shutting down";
    case CUDA_ERROR_NOT_INITIALIZED: return "initialization error";
    case CUDA_ERROR_NO_DEVICE: return "no CUDA-capable device is detected";
    case CUDA_ERROR_INVALID_DEVICE: return "invalid device ordinal";
    case CUDA_ERROR_INVALID_IMAGE: return "device kernel image is invalid";
    case CUDA_ERROR_INVALID_CONTEXT: return "invalid device context";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      return "no kernel image is available for execution on the device";
    case CUDA_ERROR_INVALID_PTX: return "a PTX JIT compilation failed";
    case CUDA_ERROR_INVALID_HANDLE: return "invalid resource handle";
    case CUDA_ERROR_NOT_FOUND: return "named symbol not found";
    case CUDA_ERROR_NOT_READY: return "device not ready";
    case CUDA_ERROR_ILLEGAL_ADDRESS: return "an illegal memory access was encountered";
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: return "too many resources requested for launch";
    case CUDA_ERROR_LAUNCH_FAILED: return "unspecified launch failure";
    case CUDA_ERROR_ASSERT: return "device-side assert triggered";
    case CUDA_ERROR_ILLEGAL_INSTRUCTION: return "an illegal instruction was encountered";
    case CUDA_ERROR_MISALIGNED_ADDRESS: return "misaligned address";
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: return "too many blocks in cooperative launch";
    case CUDA_ERROR_NOT_SUPPORTED: return "operation not supported";
    default: return nullptr;
  }
}

const CupolaSimError* FindError(CUresult error) {
  for (const CupolaSimError* entry = cupola_sim_errors; entry->name != nullptr; ++entry) {
    if (entry->code == static_cast<int>(error)) return entry;
  }
  return nullptr;
}

}  // namespace

SIM_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** address, int version,
                                        cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || *symbol == '\0' || address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & ~cuuint64_t{3}) != 0 || flags == 3) return CUDA_ERROR_INVALID_VALUE;
  CUdriverProcAddressQueryResult found;
  *address = const_cast<void*>(Look(symbol, version, flags, &found));
  if (status != nullptr) *status = found;
  return *address != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

SIM_EXPORT CUresult cuGetProcAddress(const char* symbol, void** address, int version,
                                     cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, address, version, flags, nullptr);
}

SIM_EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CupolaSimError* entry = FindError(error);
  *name = entry != nullptr ? entry->name : nullptr;
  return entry != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Leaked on purpose: the pointers handed out must stay valid to the end of the process.
  static const auto* const sentences = [] {
    auto* made = new std::map<int, std::string>;
    for (const CupolaSimError* entry = cupola_sim_errors; entry->name != nullptr; ++entry) {
      const char* sentence = Sentence(static_cast<CUresult>(entry->code));
      made->emplace(entry->code, sentence != nullptr ? sentence : Words(entry->name));
    }
    return made;
  }();
  auto it = sentences->find(static_cast<int>(error));
  *text = it != sentences->end() ? it->second.c_str() : nullptr;
  return it != sentences->end() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
