// How much of each call's arguments is passed on the stack. When entry.S makes a call anew, it copies exactly so
// many words: the caller's stack may end above them.
#include <cstddef>
#include <cstdint>

// Also declares the forms of calls that cuda.h hides from programs, because the driver exports them.
#define __CUDA_API_VERSION_INTERNAL 1  // NOLINT: cuda.h's name
#include <cuda.h>
#include <cudaTypedefs.h>

namespace {

template <typename Function>
struct Signature;

// The rules of x86-64 psABI 3.2.3, for the types that occur in cuda.h: numbers and pointers, float and double, and
// structures of numbers, which go to the stack when they are larger than 16 bytes.
template <typename Result, typename... Arguments>
struct Signature<Result(CUDAAPI*)(Arguments...)> {
  static constexpr uint8_t StackWords() {
    size_t registers = 6, vector_registers = 8, words = 0;
    [[maybe_unused]] const auto pass = [&](size_t bytes, bool is_floating) {
      size_t& left = is_floating ? vector_registers : registers;
      const size_t needed = (bytes + 7) / 8;
      if (bytes > 16 || needed > left) {
        words += needed;
      } else {
        left -= needed;
      }
    };
    (pass(sizeof(Arguments), __is_same(Arguments, float) || __is_same(Arguments, double)), ...);
    return static_cast<uint8_t>(words);
  }
};

// More than any call has; for calls that a newer toolkit exports without declaring their parameters.
[[maybe_unused]] constexpr uint8_t kUnknown = 16;

}  // namespace

/// The number of stack words in which each call gets arguments; indexed by Call.
extern "C" __attribute__((visibility("hidden"))) const uint8_t cupola_stack_words[] = {
#define CUPOLA_SIGNATURE(name, type) Signature<type>::StackWords(),
#define CUPOLA_STACK_WORDS(name, words) words,
#include "intercept/signatures.inc"
#undef CUPOLA_STACK_WORDS
#undef CUPOLA_SIGNATURE
};
