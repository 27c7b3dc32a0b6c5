// Approximate functions: seeded arguments within the error that the PTX ISA states for each
// [9.7.3, 9.7.4], measured against MPFR, and the special cases of its tables.
#include <gtest/gtest.h>

#include <limits>

#include "base/prng.h"
#include "tests/unit/sim/oracle/instruction_runner.h"
#include "tests/unit/sim/oracle/mpfr_oracle.h"

namespace cupola::sim {
namespace {

float Single(uint64_t word) {
  float value;
  const uint32_t bits = static_cast<uint32_t>(word);
  std::memcpy(&value, &bits, 4);
  return value;
}
uint64_t Word(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

using Function = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

class ApproximateOracleTest : public testing::Test {
 protected:
  /// `bound`: largest relative error, or largest absolute one where `absolute`.
  void Check(const std::string& code, Function exact, double low, double high, double bound,
             bool absolute) {
    Prng random(TestSeed());
    std::vector<Row> rows;
    for (int i = 0; i < 20000; ++i)
      rows.push_back({Word(static_cast<float>(random.Uniform(low, high)))});
    const auto results = runner_.Run(code, {"f32"}, {"f32"}, rows);
    double worst = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      Value value, want;
      mpfr_set_flt(value, Single(rows[i][0]), MPFR_RNDN);
      exact(want, value, MPFR_RNDN);
      Value error;
      mpfr_set_flt(error, Single(results[i][0]), MPFR_RNDN);
      mpfr_sub(error, error, want, MPFR_RNDN);
      if (!absolute) mpfr_div(error, error, want, MPFR_RNDN);
      worst = std::max(worst, std::fabs(mpfr_get_d(error, MPFR_RNDN)));
    }
    EXPECT_LE(worst, bound) << code << " (CUPOLA_SEED=" << TestSeed() << ")";
  }

  void Special(const std::string& code, std::vector<std::pair<float, float>> cases) {
    std::vector<Row> rows;
    for (const auto& [in, out] : cases) rows.push_back({Word(in)});
    const auto results = runner_.Run(code, {"f32"}, {"f32"}, rows);
    for (size_t i = 0; i < results.size(); ++i) {
      const uint64_t want = std::isnan(cases[i].second) ? 0x7FFFFFFFu : Word(cases[i].second);
      EXPECT_EQ(results[i][0], want) << code << " of " << cases[i].first;
    }
  }
  InstructionRunner runner_;
};

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int Reciprocal(mpfr_ptr r, mpfr_srcptr a, mpfr_rnd_t m) { return mpfr_ui_div(r, 1, a, m); }

TEST_F(ApproximateOracleTest, WithinTheBoundsOfTheIsa) {
  const double ulp = std::ldexp(1.0, -23);
  Check("ex2.approx.f32 %0, $0;", mpfr_exp2, -120, 120, 2 * ulp, false);
  Check("ex2.approx.ftz.f32 %0, $0;", mpfr_exp2, -120, 120, 2 * ulp, false);
  Check("lg2.approx.f32 %0, $0;", mpfr_log2, 0.5, 2, std::ldexp(1.0, -22), true);
  Check("lg2.approx.f32 %0, $0;", mpfr_log2, 2, 1e30, std::ldexp(1.0, -22), false);
  Check("sin.approx.f32 %0, $0;", mpfr_sin, -3.1415, 3.1415, std::ldexp(1.0, -20.5), true);
  Check("cos.approx.f32 %0, $0;", mpfr_cos, -3.1415, 3.1415, std::ldexp(1.0, -20.5), true);
  Check("tanh.approx.f32 %0, $0;", mpfr_tanh, -8, 8, std::ldexp(1.0, -11), false);
  Check("rcp.approx.f32 %0, $0;", Reciprocal, 1e-30, 1e30, ulp, false);
  Check("sqrt.approx.f32 %0, $0;", mpfr_sqrt, 1e-30, 1e30, std::ldexp(1.0, -23), false);
  Check("rsqrt.approx.f32 %0, $0;", mpfr_rec_sqrt, 1e-30, 1e30, std::ldexp(1.0, -22.9), false);
  Check(".reg .f32 %c; mov.f32 %c, 0f3F800000; div.approx.f32 %0, %c, $0;", Reciprocal, 1e-30, 1e30,
        2 * ulp, false);
  Check(".reg .f32 %c; mov.f32 %c, 0f3F800000; div.full.f32 %0, %c, $0;", Reciprocal, 1e-30, 1e30,
        2 * ulp, false);
}

TEST_F(ApproximateOracleTest, SpecialCasesOfTheTables) {
  const float small = 1e-40f;  // subnormal
  Special("ex2.approx.ftz.f32 %0, $0;",
          {{-kInf, 0.f}, {small, 1.f}, {-0.f, 1.f}, {0.f, 1.f}, {kInf, kInf}, {kNan, kNan}});
  Special("lg2.approx.ftz.f32 %0, $0;", {{-kInf, kNan},
                                         {-1.f, kNan},
                                         {small, -kInf},
                                         {-0.f, -kInf},
                                         {0.f, -kInf},
                                         {kInf, kInf},
                                         {kNan, kNan},
                                         {1.f, 0.f}});
  Special("sin.approx.ftz.f32 %0, $0;",
          {{-kInf, kNan}, {-small, -0.f}, {-0.f, -0.f}, {0.f, 0.f}, {kInf, kNan}, {kNan, kNan}});
  Special("cos.approx.ftz.f32 %0, $0;",
          {{-kInf, kNan}, {-small, 1.f}, {-0.f, 1.f}, {0.f, 1.f}, {kInf, kNan}, {kNan, kNan}});
  Special("tanh.approx.f32 %0, $0;",
          {{-kInf, -1.f}, {-0.f, -0.f}, {0.f, 0.f}, {kInf, 1.f}, {kNan, kNan}});
  Special("rcp.approx.ftz.f32 %0, $0;",
          {{-kInf, -0.f}, {-small, -kInf}, {-0.f, -kInf}, {0.f, kInf}, {kInf, 0.f}, {kNan, kNan}});
  Special("sqrt.approx.ftz.f32 %0, $0;",
          {{-kInf, kNan}, {-1.f, kNan}, {-0.f, -0.f}, {0.f, 0.f}, {kInf, kInf}, {kNan, kNan}});
  Special("rsqrt.approx.ftz.f32 %0, $0;",
          {{-kInf, kNan}, {-1.f, kNan}, {-0.f, -kInf}, {0.f, kInf}, {kInf, 0.f}, {kNan, kNan}});
}

TEST_F(ApproximateOracleTest, HalvesEveryValue) {
  // ex2.approx.f16: 2^-9.9 relative; ex2.approx.ftz.bf16: 2^-7; tanh: 2^-10.987 and 2^-8 absolute.
  struct Case {
    const char* code;
    Format format;
    Function exact;
    double bound;
    bool absolute;
  };
  const Case cases[] = {
      {"ex2.approx.f16 %0, $0;", kBinary16, mpfr_exp2, std::pow(2, -9.9), false},
      {"ex2.approx.ftz.bf16 %0, $0;", kBfloat16, mpfr_exp2, std::pow(2, -7), false},
      {"tanh.approx.f16 %0, $0;", kBinary16, mpfr_tanh, std::pow(2, -10.987), true},
      {"tanh.approx.bf16 %0, $0;", kBfloat16, mpfr_tanh, std::pow(2, -8), true}};
  for (const Case& c : cases) {
    std::vector<Row> rows;
    for (uint64_t word = 0; word < 65536; ++word) {
      if (!c.format.is_nan(word)) rows.push_back({word});
    }
    const auto results = runner_.Run(c.code, {"b16"}, {"b16"}, rows);
    double worst = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      Value value, want, got;
      Set(value, c.format, rows[i][0]);
      c.exact(want, value, MPFR_RNDN);
      Set(got, c.format, results[i][0]);
      const double w = mpfr_get_d(want, MPFR_RNDN), g = mpfr_get_d(got, MPFR_RNDN);
      // Outside the normal range the bound of a relative error says nothing.
      const double least = std::pow(2.0, 1 - c.format.bias());
      if (std::isinf(g) || std::isinf(w) || (!c.absolute && std::fabs(w) < least)) continue;
      worst = std::max(worst, std::fabs(c.absolute ? g - w : (g - w) / w));
    }
    EXPECT_LE(worst, c.bound) << c.code;
  }
}

}  // namespace
}  // namespace cupola::sim
