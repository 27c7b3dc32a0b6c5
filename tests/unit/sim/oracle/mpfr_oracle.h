// The oracle of the floating-point tests: IEEE formats on MPFR, bits to numbers, and exact results
// rounded to bits. It shares no code with the interpreter. One thread, since MPFR's range is global.
#pragma once

#include <mpfr.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace cupola::sim {

/// A binary floating-point format.
struct Format {
  int bits;      ///< of a word
  int mantissa;  ///< mantissa bits that are stored
  int bias() const { return (1 << (bits - mantissa - 2)) - 1; }
  uint64_t sign() const { return 1ull << (bits - 1); }
  uint64_t infinity() const { return ((1ull << (bits - mantissa - 1)) - 1) << mantissa; }
  uint64_t magnitude(uint64_t word) const { return word & (sign() - 1); }
  bool is_nan(uint64_t word) const { return magnitude(word) > infinity(); }
  bool is_subnormal(uint64_t word) const {
    return magnitude(word) != 0 && magnitude(word) < (1ull << mantissa);
  }
};

inline constexpr Format kBinary16{16, 10}, kBfloat16{16, 7}, kBinary32{32, 23}, kBinary64{64, 52};

/// An MPFR value of 300 bits, which is enough for every sum and product in these tests to be exact.
/// The exceptions are those of f64 with exponents far apart; there MPFR rounds each operation correctly
/// by itself.
class Value {
 public:
  explicit Value(mpfr_prec_t precision = 300) { mpfr_init2(value_, precision); }
  ~Value() { mpfr_clear(value_); }
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  operator mpfr_ptr() { return value_; }

 private:
  mpfr_t value_;
};

/// Sets `value` to exactly the number that the bits mean.
inline void Set(Value& value, const Format& format, uint64_t word) {
  const uint64_t magnitude = format.magnitude(word);
  const bool negative = (word & format.sign()) != 0;
  const uint64_t fraction = magnitude & ((1ull << format.mantissa) - 1);
  const int exponent = static_cast<int>(magnitude >> format.mantissa);
  if (magnitude > format.infinity()) {
    mpfr_set_nan(value);
  } else if (magnitude == format.infinity()) {
    mpfr_set_inf(value, negative ? -1 : 1);
  } else if (magnitude == 0) {
    mpfr_set_zero(value, negative ? -1 : 1);
  } else {
    const uint64_t integer = exponent == 0 ? fraction : fraction | 1ull << format.mantissa;
    mpfr_set_ui_2exp(value, integer,
                     (exponent == 0 ? 1 : exponent) - format.bias() - format.mantissa, MPFR_RNDN);
    if (negative) mpfr_neg(value, value, MPFR_RNDN);
  }
}

/// The bits of a value that the format can represent; `nan` for NaN.
inline uint64_t Encode(Value& value, const Format& format, uint64_t nan) {
  if (mpfr_nan_p(value)) return nan;
  const uint64_t sign = mpfr_signbit(value) ? format.sign() : 0;
  if (mpfr_inf_p(value)) return sign | format.infinity();
  if (mpfr_zero_p(value)) return sign;
  const int exponent = static_cast<int>(mpfr_get_exp(value)) - 1;  // of 1.xxx
  const int lowest = 1 - format.bias();
  Value scaled;
  mpfr_abs(scaled, value, MPFR_RNDN);
  const int unit = std::max(exponent, lowest) - format.mantissa;
  mpfr_mul_2si(scaled, scaled, -unit, MPFR_RNDN);
  const uint64_t integer = mpfr_get_uj(scaled, MPFR_RNDN);
  const uint64_t biased = exponent < lowest ? 0 : static_cast<uint64_t>(exponent + format.bias());
  return sign | (exponent < lowest
                     ? integer
                     : biased << format.mantissa | (integer & ((1ull << format.mantissa) - 1)));
}

/// Runs `operation(result, rounding)`, an MPFR function that returns its ternary value, in the
/// precision and range of the format with gradual underflow, and returns the bits.
inline uint64_t Rounded(const Format& format, mpfr_rnd_t rounding, uint64_t nan,
                        const std::function<int(mpfr_ptr, mpfr_rnd_t)>& operation) {
  const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
  Value result(format.mantissa + 1);
  int ternary = operation(result, rounding);
  mpfr_set_emin(2 - format.bias() - format.mantissa);
  mpfr_set_emax(format.bias() + 1);
  ternary = mpfr_check_range(result, ternary, rounding);
  mpfr_subnormalize(result, ternary, rounding);
  mpfr_set_emin(emin);
  mpfr_set_emax(emax);
  return Encode(result, format, nan);
}

/// The word, with a subnormal replaced by the zero of its sign.
inline uint64_t Flushed(const Format& format, uint64_t word) {
  return format.is_subnormal(word) ? word & format.sign() : word;
}

/// Zeros, subnormals, normals, halfway cases, infinities and NaN of a format, with both signs.
inline std::vector<uint64_t> SpecialValues(const Format& f) {
  const uint64_t one = static_cast<uint64_t>(f.bias()) << f.mantissa, unit = 1ull << f.mantissa;
  std::vector<uint64_t> words = {0,
                                 1,
                                 unit - 1,
                                 unit,
                                 unit + 1,
                                 one - 1,
                                 one,
                                 one + 1,
                                 one + unit / 2,
                                 one + unit,
                                 one - unit * static_cast<uint64_t>(f.mantissa + 1),
                                 one + unit * static_cast<uint64_t>(f.mantissa),
                                 f.infinity() - 1,
                                 f.infinity(),
                                 f.infinity() + 1,
                                 f.infinity() | unit / 2};
  const size_t count = words.size();
  for (size_t i = 0; i < count; ++i) words.push_back(words[i] | f.sign());
  return words;
}

}  // namespace cupola::sim
