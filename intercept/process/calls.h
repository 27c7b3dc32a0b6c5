// The driver's calls as Cupola knows them: index, name, class; and the real functions behind them.
// calls.inc is generated from classes.def and the toolkit's library. All functions are thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cupola::intercept {

/// What a call may do to the calling thread; classes.def defines the words and gives the reasons.
enum class CallClass : uint8_t { kPure, kStreamOrdered, kMayWait };

/// Index of each exported call, in alphabetical order: Call::k_cuLaunchKernel.
enum class Call : uint16_t {
#define CUPOLA_CALL(name, call_class) k_##name,
#include "intercept/calls.inc"
#undef CUPOLA_CALL
  kCount
};
inline constexpr size_t kCallCount = static_cast<size_t>(Call::kCount);

/// The exported name, and the class, of every call; indexed by Call.
extern const char* const kCallNames[kCallCount];
extern const CallClass kCallClasses[kCallCount];

/// Whether a call has that name or, where the pattern ends in '*', one that begins so.
constexpr bool MatchesName(std::string_view pattern, std::string_view name) noexcept {
  if (!pattern.ends_with('*')) return name == pattern;
  pattern.remove_suffix(1);
  return name.starts_with(pattern);
}

/// Which default stream a form of a call means (cuGetProcAddress chooses by flag).
enum class StreamForm : uint8_t { kAnyStream, kPerThread };

extern "C" void* cupola_real[kCallCount];

/// The real driver's function. Before the driver is open this is a stub that opens it; where the
/// driver lacks the call, a function that returns CUDA_ERROR_NOT_FOUND; without any driver, one
/// that returns CUDA_ERROR_NO_DEVICE. Never null.
template <typename Function>
inline Function Real(Call call) {
  return reinterpret_cast<Function>(
      __atomic_load_n(&cupola_real[static_cast<size_t>(call)], __ATOMIC_ACQUIRE));
}

}  // namespace cupola::intercept

/// The real function behind the hook of the same name, with the hook's type.
#define CUPOLA_REAL(name) \
  (::cupola::intercept::Real<decltype(&hook_##name)>(::cupola::intercept::Call::k_##name))
