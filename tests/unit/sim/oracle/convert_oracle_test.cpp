// cvt against MPFR: every pair of types in every rounding, all 65536 halves and bfloats, fp8 and
// tf32; saturation and NaN as the ISA [9.7.9.21] and a GPU give them.
#include <gtest/gtest.h>

#include "base/prng.h"
#include "tests/unit/sim/oracle/instruction_runner.h"
#include "tests/unit/sim/oracle/mpfr_oracle.h"

namespace cupola::sim {
namespace {

struct FloatType {
  std::string name, reg;
  Format format;
  uint64_t nan;
};
const FloatType kFloats[] = {{"f16", "b16", kBinary16, 0x7FFF},
                             {"bf16", "b16", kBfloat16, 0x7FFF},
                             {"f32", "f32", kBinary32, 0x7FFFFFFF},
                             {"f64", "f64", kBinary64, 0x7FFFFFFFFFFFFFFFull}};
struct IntegerType {
  std::string name;
  int bits;
  bool is_signed;
};
const IntegerType kIntegers[] = {{"u8", 8, false},   {"s8", 8, true},    {"u16", 16, false},
                                 {"s16", 16, true},  {"u32", 32, false}, {"s32", 32, true},
                                 {"u64", 64, false}, {"s64", 64, true}};
struct Mode {
  const char* name;
  mpfr_rnd_t mode;
};
constexpr Mode kModes[] = {
    {"rn", MPFR_RNDN}, {"rz", MPFR_RNDZ}, {"rm", MPFR_RNDD}, {"rp", MPFR_RNDU}};

/// All values of 16 bits; special and random ones of more.
std::vector<Row> Every(const Format& f) {
  std::vector<Row> rows;
  if (f.bits == 16) {
    for (uint64_t word = 0; word < 65536; ++word) rows.push_back({word});
    return rows;
  }
  for (const uint64_t word : SpecialValues(f)) rows.push_back({word});
  Prng random(TestSeed());
  const uint64_t fraction = (1ull << f.mantissa) - 1;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t word = random.Next() & (f.sign() | (f.sign() - 1));
    rows.push_back({word});
    // Values around the integers and around f16's range, and exact halves between integers.
    const uint64_t exponent =
        static_cast<uint64_t>(f.bias() - 28 + static_cast<int>(random.Next() % 96));
    rows.push_back({(word & (fraction | f.sign())) | exponent << f.mantissa});
    const uint64_t keep = random.Next() % static_cast<uint64_t>(f.mantissa);
    rows.push_back({(word & (fraction >> keep << keep | f.sign())) | exponent << f.mantissa});
  }
  return rows;
}

class ConvertOracleTest : public testing::Test {
 protected:
  InstructionRunner runner_;
};

TEST_F(ConvertOracleTest, FloatToFloat) {
  for (const FloatType& from : kFloats) {
    for (const FloatType& to : kFloats) {
      const bool narrows = from.format.mantissa > to.format.mantissa ||
                           (from.format.bits == 16 && to.format.bits == 16);
      if (from.name == to.name) continue;
      // f16 to bf16 and back, and bf16 from f64, exist on sm_90 in rn and others alike.
      std::vector<Row> rows = Every(from.format);
      if (from.name == "f64") {  // which NaN is not the ISA's to say
        std::erase_if(rows, [](const Row& r) { return kBinary64.is_nan(r[0]); });
      }
      if (to.name == "f64")
        std::erase_if(rows, [&](const Row& r) { return from.format.is_nan(r[0]); });
      for (const Mode& mode : kModes) {
        if (!narrows && mode.mode != MPFR_RNDN) continue;
        const std::string name = std::string("cvt") +
                                 (narrows ? std::string(".") + mode.name : "") + "." + to.name +
                                 "." + from.name;
        ExpectRows(runner_, name + " %0, $0;", {from.reg}, to.reg, rows, [&](const Row& r) {
          Value value;
          Set(value, from.format, r[0]);
          return Rounded(to.format, mode.mode, to.nan,
                         [&](mpfr_ptr d, mpfr_rnd_t m) { return mpfr_set(d, value, m); });
        });
      }
    }
  }
}

TEST_F(ConvertOracleTest, FloatToInteger) {
  Value value, low, high;
  for (const FloatType& from : kFloats) {
    std::vector<Row> rows = Every(from.format);
    std::erase_if(rows, [&](const Row& r) { return from.format.is_nan(r[0]); });
    for (const IntegerType& to : kIntegers) {
      mpfr_set_si_2exp(low, to.is_signed ? -1 : 0, to.bits - 1, MPFR_RNDN);
      mpfr_set_si_2exp(high, 1, to.is_signed ? to.bits - 1 : to.bits, MPFR_RNDN);
      mpfr_sub_ui(high, high, 1, MPFR_RNDN);
      for (const Mode& mode : kModes) {
        const std::string reg = to.bits == 64 ? "b64" : "b32";
        const std::string name = std::string("cvt.") + mode.name + "i." + to.name + "." + from.name;
        ExpectRows(runner_, name + " %0, $0;", {from.reg}, reg, rows, [&](const Row& r) {
          Set(value, from.format, r[0]);
          mpfr_rint(value, value, mode.mode);
          if (mpfr_cmp(value, low) < 0) mpfr_set(value, low, MPFR_RNDN);
          if (mpfr_cmp(value, high) > 0) mpfr_set(value, high, MPFR_RNDN);
          uint64_t word = to.is_signed ? static_cast<uint64_t>(mpfr_get_sj(value, MPFR_RNDN))
                                       : mpfr_get_uj(value, MPFR_RNDN);
          return to.bits == 64 ? word : word & 0xFFFFFFFFu;
        });
      }
    }
  }
}

TEST_F(ConvertOracleTest, IntegerToFloat) {
  for (const IntegerType& from : kIntegers) {
    std::vector<Row> rows;
    Prng random(TestSeed());
    const uint64_t mask = from.bits == 64 ? ~0ull : (1ull << from.bits) - 1;
    for (int shift = 0; shift < from.bits; ++shift) {
      for (const int64_t near : {-1, 0, 1})
        rows.push_back({((1ull << shift) + static_cast<uint64_t>(near)) & mask});
      for (int i = 0; i < 200; ++i) {
        const uint64_t word = (random.Next() & mask) >> shift;
        rows.push_back({word});
        rows.push_back({(0 - word) & mask});
        rows.push_back({word & (mask << (random.Next() % 40))});
      }
    }
    for (const FloatType& to : kFloats) {
      for (const Mode& mode : kModes) {
        const std::string name = std::string("cvt.") + mode.name + "." + to.name + "." + from.name;
        const std::string reg = from.bits == 8 ? "b32" : "b" + std::to_string(from.bits);
        ExpectRows(runner_, name + " %0, $0;", {reg}, to.reg, rows, [&](const Row& r) {
          Value value;
          const bool negative = from.is_signed && (r[0] >> (from.bits - 1) & 1) != 0;
          mpfr_set_uj(value, negative ? (0 - r[0]) & mask : r[0], MPFR_RNDN);
          if (negative) mpfr_neg(value, value, MPFR_RNDN);
          return Rounded(to.format, mode.mode, to.nan,
                         [&](mpfr_ptr d, mpfr_rnd_t m) { return mpfr_set(d, value, m); });
        });
      }
    }
  }
}

TEST_F(ConvertOracleTest, IntegerToInteger) {
  for (const IntegerType& from : kIntegers) {
    for (const IntegerType& to : kIntegers) {
      for (const bool sat : {false, true}) {
        std::vector<Row> rows;
        Prng random(TestSeed());
        const uint64_t mask = from.bits == 64 ? ~0ull : (1ull << from.bits) - 1;
        for (int i = 0; i < 2000; ++i)
          rows.push_back({(random.Next() >> random.Next() % 64) & mask});
        for (int i = 0; i < 500; ++i)
          rows.push_back({(0 - (random.Next() >> random.Next() % 64)) & mask});
        const std::string in = from.bits == 64 ? "b64" : "b32", out = to.bits == 64 ? "b64" : "b32";
        const std::string name = std::string(sat ? "cvt.sat." : "cvt.") + to.name + "." + from.name;
        ExpectRows(runner_, name + " %0, $0;", {in}, out, rows, [&](const Row& r) {
          __int128 value = r[0];
          if (from.is_signed && (r[0] >> (from.bits - 1) & 1) != 0)
            value -= __int128{1} << from.bits;
          const __int128 low = to.is_signed ? -(__int128{1} << (to.bits - 1)) : 0;
          const __int128 high = (__int128{1} << (to.is_signed ? to.bits - 1 : to.bits)) - 1;
          if (sat) value = std::clamp(value, low, high);
          // Truncated to the type, then extended by its sign to the register.
          uint64_t word = static_cast<uint64_t>(value);
          if (to.bits < 64) {
            word &= (1ull << to.bits) - 1;
            if (to.is_signed && (word >> (to.bits - 1) & 1) != 0) word |= ~0ull << to.bits;
          }
          return to.bits == 64 ? word : word & 0xFFFFFFFFu;
        });
      }
    }
  }
}

/// The value of an fp8 code, from the OCP tables: bias 7 or 15, 3 or 2 mantissa bits.
double Fp8Value(bool e4m3, int code) {
  const int mantissa_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
  const int exponent = code >> mantissa_bits, fraction = code & ((1 << mantissa_bits) - 1);
  if (exponent == 0) return fraction * std::pow(2.0, 1 - bias - mantissa_bits);
  return (1 + fraction / std::pow(2.0, mantissa_bits)) * std::pow(2.0, exponent - bias);
}

/// The nearest code to a magnitude, ties to the even one, saturating.
uint64_t NearestFp8(bool e4m3, double magnitude) {
  const int largest = e4m3 ? 0x7E : 0x7B;
  if (std::isinf(magnitude)) return static_cast<uint64_t>(largest);
  int best = 0;
  for (int code = 1; code <= largest; ++code) {
    const double now = std::fabs(Fp8Value(e4m3, code) - magnitude),
                 before = std::fabs(Fp8Value(e4m3, best) - magnitude);
    if (now < before || (now == before && code % 2 == 0)) best = code;
  }
  return static_cast<uint64_t>(best);
}

TEST_F(ConvertOracleTest, Fp8) {
  for (const bool e4m3 : {true, false}) {
    const std::string name = e4m3 ? "e4m3x2" : "e5m2x2";
    std::vector<Row> rows;
    Prng random(TestSeed());
    for (int i = 0; i < 3000; ++i) {
      const double scale = std::pow(2.0, static_cast<int>(random.Next() % 40) - 22);
      const float value =
          static_cast<float>((1 + static_cast<double>(random.Next() % 64) / 64) * scale);
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      rows.push_back({bits ^ (random.Next() % 2 << 31)});
    }
    for (const uint32_t bits : {0u, 0x80000000u, 0x7F800000u, 0xFF800000u, 0x7FC00000u, 0x43E00000u,
                                0x43E80000u, 0x43F00000u, 0x47600000u}) {
      rows.push_back({bits});
    }
    ExpectRows(
        runner_,
        ".reg .f32 %one; mov.f32 %one, 0f3F800000; cvt.rn.satfinite." + name + ".f32 %0, $0, %one;",
        {"f32"}, "b16", rows, [&](const Row& r) -> uint64_t {
          float value;
          const uint32_t bits = static_cast<uint32_t>(r[0]);
          std::memcpy(&value, &bits, 4);
          const uint64_t low = e4m3 ? 0x38 : 0x3C;
          if (std::isnan(value)) return 0x7F00 | low;
          const uint64_t high = NearestFp8(e4m3, std::fabs(double{value})) | (bits >> 31) << 7;
          return high << 8 | low;
        });
    std::vector<Row> codes;
    for (uint64_t code = 0; code < 256; ++code) codes.push_back({code << 8 | 1});
    ExpectRows(runner_, "cvt.rn.f16x2." + name + " %0, $0;", {"b16"}, "b32", codes,
               [&](const Row& r) -> uint64_t {
                 const int code = static_cast<int>(r[0] >> 8 & 0x7F);
                 const uint64_t sign = r[0] >> 15 << 31;
                 const uint64_t low = e4m3 ? 0x1800 : 0x0100;  // 2^-9 and 2^-16
                 if (!e4m3 && code == 0x7C) return sign | 0x7C000000 | low;
                 if (e4m3 ? code == 0x7F : code > 0x7C) return 0x7FFF0000 | low;
                 Value value;
                 mpfr_set_d(value, Fp8Value(e4m3, code), MPFR_RNDN);
                 return sign | Encode(value, kBinary16, 0) << 16 | low;
               });
  }
}

TEST_F(ConvertOracleTest, Tf32) {
  std::vector<Row> rows = Every(kBinary32);
  std::erase_if(rows, [](const Row& r) { return kBinary32.is_nan(r[0]); });
  // tf32 is f32 with 10 mantissa bits; a format of 19 bits, in the upper bits of 32.
  const Format tf32{19, 10};
  const auto want = [&](mpfr_rnd_t mode, bool away) {
    return [&, mode, away](const Row& r) {
      Value value;
      Set(value, kBinary32, r[0]);
      return Rounded(tf32, mode, 0,
                     [&](mpfr_ptr d, mpfr_rnd_t m) {
                       if (!away || !mpfr_regular_p(value)) return mpfr_set(d, value, m);
                       // Ties away: nudge an exact tie outwards. Subnormals keep the quantum
                       // 2^-136.
                       Value unit, scaled;
                       const mpfr_exp_t exponent =
                           std::max<mpfr_exp_t>(mpfr_get_exp(value) - 1, -126);
                       mpfr_div_2si(scaled, value, exponent - 10, MPFR_RNDN);
                       mpfr_round(scaled, scaled);
                       mpfr_mul_2si(scaled, scaled, exponent - 10, MPFR_RNDN);
                       return mpfr_set(d, scaled, m);
                     })
             << 13;
    };
  };
  ExpectRows(runner_, "cvt.rna.tf32.f32 %0, $0;", {"f32"}, "b32", rows, want(MPFR_RNDN, true));
  ExpectRows(runner_, "cvt.rn.tf32.f32 %0, $0;", {"f32"}, "b32", rows, want(MPFR_RNDN, false));
  ExpectRows(runner_, "cvt.rz.tf32.f32 %0, $0;", {"f32"}, "b32", rows, want(MPFR_RNDZ, false));
}

TEST_F(ConvertOracleTest, PackedIntegers) {
  std::vector<Row> rows;
  Prng random(TestSeed());
  for (int i = 0; i < 2000; ++i) {
    const auto any = [&] {
      return static_cast<uint64_t>(
          static_cast<uint32_t>(static_cast<int32_t>(random.Next()) >> random.Next() % 32));
    };
    rows.push_back({any(), any(), random.Next() & 0xFFFFFFFF});
  }
  for (const IntegerType& to : {kIntegers[0], kIntegers[1], kIntegers[2], kIntegers[3]}) {
    const bool wide = to.bits == 16;
    ExpectRows(runner_,
               "cvt.pack.sat." + to.name + (wide ? ".s32 %0, $0, $1;" : ".s32.b32 %0, $0, $1, $2;"),
               {"b32", "b32", "b32"}, "b32", rows, [&](const Row& r) {
                 const int64_t low = to.is_signed ? -(1ll << (to.bits - 1)) : 0;
                 const int64_t high = low + (1ll << to.bits) - 1;
                 const auto part = [&](uint64_t word) {
                   return static_cast<uint64_t>(
                              std::clamp<int64_t>(static_cast<int32_t>(word), low, high)) &
                          ((1ull << to.bits) - 1);
                 };
                 const uint64_t pair = part(r[0]) << to.bits | part(r[1]);
                 return wide ? pair : ((r[2] << 16) | pair) & 0xFFFFFFFF;
               });
  }
}

}  // namespace
}  // namespace cupola::sim
