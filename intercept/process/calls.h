// The driver's calls as Cupola knows them: the index and name of each, and the driver's function behind it. The build
// generates calls.inc from calls/calls.def, which says what Cupola does about each call, and from the toolkit's
// library. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cupola::intercept {

/// Index of each exported call, in alphabetical order: Call::k_cuLaunchKernel.
enum class Call : uint16_t {
#define CUPOLA_CALL(name, ...) k_##name,
#include "intercept/calls.inc"
#undef CUPOLA_CALL
  kCount
};
inline constexpr size_t kCallCount = static_cast<size_t>(Call::kCount);

/// The exported name of every call; indexed by Call.
extern const char* const kCallNames[kCallCount];

/// Which default stream a form of a call means by stream 0 (cuGetProcAddress chooses by a flag).
enum class StreamForm : uint8_t { kAnyStream, kPerThread };

extern "C" void* cupola_real[kCallCount];

/// The real driver's function. Before the driver is open this is a stub that opens it. If the driver
/// lacks the call, it is a function that returns CUDA_ERROR_NOT_FOUND; without any driver, one that
/// returns CUDA_ERROR_NO_DEVICE. Never null.
template <typename Function>
inline Function Real(Call call) {
  return reinterpret_cast<Function>(
      __atomic_load_n(&cupola_real[static_cast<size_t>(call)], __ATOMIC_ACQUIRE));
}

}  // namespace cupola::intercept

/// The real function behind the hook of the same name, with the hook's type.
#define CUPOLA_REAL(name) \
  (::cupola::intercept::Real<decltype(&hook_##name)>(::cupola::intercept::Call::k_##name))
