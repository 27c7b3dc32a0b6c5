// f32, f64, f16 and bf16 arithmetic against MPFR: every rounding, .ftz, .sat, .relu, min and max
// with their modifiers. Pairs of special values, seeded random operands, near and far exponents.
#include <gtest/gtest.h>

#include "base/prng.h"
#include "tests/unit/sim/oracle/instruction_runner.h"
#include "tests/unit/sim/oracle/mpfr_oracle.h"

namespace cupola::sim {
namespace {

struct Rounding {
  const char* name;
  mpfr_rnd_t mode;
};
constexpr Rounding kRoundings[] = {
    {"rn", MPFR_RNDN}, {"rz", MPFR_RNDZ}, {"rm", MPFR_RNDD}, {"rp", MPFR_RNDU}};

using Operation = int (*)(mpfr_ptr, mpfr_ptr, mpfr_ptr, mpfr_ptr, mpfr_rnd_t);

struct Instruction {
  const char* opcode;
  size_t operands;
  Operation apply;
};
const Instruction kArithmetic[] = {
    {"add", 2,
     [](mpfr_ptr r, mpfr_ptr a, mpfr_ptr b, mpfr_ptr, mpfr_rnd_t m) {
       return mpfr_add(r, a, b, m);
     }},
    {"sub", 2,
     [](mpfr_ptr r, mpfr_ptr a, mpfr_ptr b, mpfr_ptr, mpfr_rnd_t m) {
       return mpfr_sub(r, a, b, m);
     }},
    {"mul", 2,
     [](mpfr_ptr r, mpfr_ptr a, mpfr_ptr b, mpfr_ptr, mpfr_rnd_t m) {
       return mpfr_mul(r, a, b, m);
     }},
    {"fma", 3,
     [](mpfr_ptr r, mpfr_ptr a, mpfr_ptr b, mpfr_ptr c, mpfr_rnd_t m) {
       return mpfr_fma(r, a, b, c, m);
     }},
    {"div", 2,
     [](mpfr_ptr r, mpfr_ptr a, mpfr_ptr b, mpfr_ptr, mpfr_rnd_t m) {
       return mpfr_div(r, a, b, m);
     }},
    {"rcp", 1,
     [](mpfr_ptr r, mpfr_ptr a, mpfr_ptr, mpfr_ptr, mpfr_rnd_t m) {
       return mpfr_ui_div(r, 1, a, m);
     }},
    {"sqrt", 1,
     [](mpfr_ptr r, mpfr_ptr a, mpfr_ptr, mpfr_ptr, mpfr_rnd_t m) { return mpfr_sqrt(r, a, m); }}};

std::vector<Row> Operands(const Format& f, size_t count, size_t extra) {
  std::vector<uint64_t> specials = SpecialValues(f);
  if (count == 3) specials.resize(specials.size() / 2 + 3);  // a third of the signs is enough
  std::vector<Row> rows = AllTuples(specials, count);
  Prng random(TestSeed());
  const uint64_t mask = f.sign() | (f.sign() - 1);
  for (size_t i = 0; i < extra; ++i) {
    Row row;
    for (size_t k = 0; k < count; ++k) row.push_back(random.Next() & mask);
    if (i % 2 == 0) {  // near exponents, so that sums cancel and products meet the addend
      const uint64_t keep = (1ull << f.mantissa) - 1, one = static_cast<uint64_t>(f.bias());
      for (uint64_t& word : row)
        word = (word & (keep | f.sign())) | ((one - 2 + random.Next() % 5) << f.mantissa);
    }
    if (i % 5 == 0) row[0] &= (1ull << (f.mantissa + 3)) - 1;  // small: subnormal results
    rows.push_back(row);
  }
  return rows;
}

uint64_t Exact(const Format& f, const Instruction& in, const Row& row, mpfr_rnd_t mode,
               uint64_t nan) {
  Value a, b, c;
  Set(a, f, row[0]);
  if (row.size() > 1) Set(b, f, row[1]);
  if (row.size() > 2) Set(c, f, row[2]);
  return Rounded(f, mode, nan, [&](mpfr_ptr r, mpfr_rnd_t m) { return in.apply(r, a, b, c, m); });
}

/// [0, 1], NaN and -0 to +0.
uint64_t Saturated(const Format& f, uint64_t word) {
  const uint64_t one = static_cast<uint64_t>(f.bias()) << f.mantissa;
  if (f.is_nan(word) || (word & f.sign()) != 0) return 0;
  return std::min(word, one);
}

std::string Code(const std::string& opcode, size_t operands) {
  std::string code = opcode + " %0";
  for (size_t i = 0; i < operands; ++i) code += ", $" + std::to_string(i);
  return code + ";";
}

class FloatOracleTest : public testing::Test {
 protected:
  InstructionRunner runner_;
};

TEST_F(FloatOracleTest, SingleInEveryRounding) {
  constexpr uint64_t kNan = 0x7FFFFFFF;
  for (const Instruction& in : kArithmetic) {
    const auto rows = Operands(kBinary32, in.operands, 3000);
    for (const Rounding& rounding : kRoundings) {
      for (const bool ftz : {false, true}) {
        for (const bool sat : {false, true}) {
          if (sat && (in.operands == 1 || std::string(in.opcode) == "div")) continue;
          const std::string name = std::string(in.opcode) + "." + rounding.name +
                                   (ftz ? ".ftz" : "") + (sat ? ".sat" : "") + ".f32";
          ExpectRows(runner_, Code(name, in.operands), std::vector<std::string>(in.operands, "f32"),
                     "f32", rows, [&](Row row) {
                       if (ftz) {
                         for (uint64_t& word : row) word = Flushed(kBinary32, word);
                       }
                       uint64_t want = Exact(kBinary32, in, row, rounding.mode, kNan);
                       if (ftz) want = Flushed(kBinary32, want);
                       return sat ? Saturated(kBinary32, want) : want;
                     });
        }
      }
    }
  }
}

TEST_F(FloatOracleTest, DoubleInEveryRounding) {
  for (const Instruction& in : kArithmetic) {
    const auto rows = Operands(kBinary64, in.operands, 3000);
    for (const Rounding& rounding : kRoundings) {
      const std::string name = std::string(in.opcode) + "." + rounding.name + ".f64";
      // Which NaN is left open [9.7.3]: any counts as the one of MPFR.
      const std::string any_nan =
          " .reg .pred %q; setp.nan.f64 %q, %0, %0; selp.f64 %0, 0d7FFFFFFFFFFFFFFF, %0, %q;";
      ExpectRows(runner_, Code(name, in.operands) + any_nan,
                 std::vector<std::string>(in.operands, "f64"), "f64", rows, [&](const Row& row) {
                   return Exact(kBinary64, in, row, rounding.mode, 0x7FFFFFFFFFFFFFFFull);
                 });
    }
  }
}

TEST_F(FloatOracleTest, HalvesAndBfloats) {
  constexpr uint64_t kNan = 0x7FFF;
  for (const auto& [format, type] : {std::pair{kBinary16, "f16"}, std::pair{kBfloat16, "bf16"}}) {
    for (size_t n = 0; n < 4; ++n) {
      const Instruction& in = kArithmetic[n];
      const bool half = std::string(type) == "f16";
      const auto rows = Operands(format, in.operands, 20000);
      for (const std::string modifier : {"", ".ftz", ".sat", ".ftz.sat", ".relu"}) {
        if (modifier == ".relu" && in.operands != 3) continue;
        if (!half && modifier != "" && modifier != ".relu") continue;
        const bool ftz = modifier.find("ftz") != std::string::npos,
                   sat = modifier.find("sat") != std::string::npos;
        const auto want = [&, f = format](Row row) {
          if (ftz) {
            for (uint64_t& word : row) word = Flushed(f, word);
          }
          uint64_t word = Exact(f, in, row, MPFR_RNDN, kNan);
          if (ftz) word = Flushed(f, word);
          if (sat) word = Saturated(f, word);
          if (modifier == ".relu" && !f.is_nan(word) && (word & f.sign()) != 0) word = 0;
          return word;
        };
        const std::string name = std::string(in.opcode) + ".rn" + modifier + "." + type;
        const std::vector<std::string> sources(in.operands, "b16");
        ExpectRows(runner_, Code(name, in.operands), sources, "b16", rows, want);
        // Pairs: the operands in the upper halves, 1.0 in the lower ones.
        std::string pair;
        for (size_t i = 0; i < in.operands; ++i) {
          pair += ".reg .b32 %x" + std::to_string(i) + "; .reg .b16 %o" + std::to_string(i) +
                  "; mov.b16 %o" + std::to_string(i) + ", 0x3C00; mov.b32 %x" + std::to_string(i) +
                  ", {%o" + std::to_string(i) + ", $" + std::to_string(i) + "}; ";
        }
        pair += ".reg .b32 %w; .reg .b16 %l; " + name + "x2 %w";
        for (size_t i = 0; i < in.operands; ++i) pair += ", %x" + std::to_string(i);
        ExpectRows(runner_, pair + "; mov.b32 {%l, %0}, %w;", sources, "b16", rows, want);
      }
    }
  }
}

/// min and max [9.7.3.11, 9.7.4.6]: -0 is less than +0; a NaN loses unless .NaN.
uint64_t MinMax(const Format& f, const Row& row, bool max, bool nan_wins, bool xorsign,
                uint64_t nan) {
  uint64_t sign = 0, best = 0;
  bool have = false, any_nan = false;
  for (uint64_t word : row) {
    sign ^= word & f.sign();
    if (xorsign) word &= ~f.sign();
    if (f.is_nan(word)) {
      any_nan = true;
      continue;
    }
    // Bits as sign and magnitude order like numbers.
    const auto order = [&](uint64_t w) {
      const int64_t m = static_cast<int64_t>(f.magnitude(w));
      return (w & f.sign()) != 0 ? -m - 1 : m;
    };
    if (!have || (max ? order(word) > order(best) : order(word) < order(best))) best = word;
    have = true;
  }
  if (!have || (any_nan && nan_wins)) return nan;
  return xorsign ? best | sign : best;
}

TEST_F(FloatOracleTest, MinimumAndMaximum) {
  struct Kind {
    Format format;
    std::string type, reg;
    uint64_t nan;
  };
  const Kind kinds[] = {{kBinary32, "f32", "f32", 0x7FFFFFFF},
                        {kBinary16, "f16", "b16", 0x7FFF},
                        {kBfloat16, "bf16", "b16", 0x7FFF}};
  for (const Kind& kind : kinds) {
    for (const bool max : {false, true}) {
      for (const bool nan_wins : {false, true}) {
        for (const bool xorsign : {false, true}) {
          const std::string name = std::string(max ? "max" : "min") + (nan_wins ? ".NaN" : "") +
                                   (xorsign ? ".xorsign.abs" : "") + "." + kind.type;
          ExpectRows(runner_, Code(name, 2), {kind.reg, kind.reg}, kind.reg,
                     Operands(kind.format, 2, 2000), [&](const Row& row) {
                       return MinMax(kind.format, row, max, nan_wins, xorsign, kind.nan);
                     });
        }
      }
    }
  }
  for (const bool max : {false, true}) {
    ExpectRows(
        runner_, Code(max ? "max.f64" : "min.f64", 2), {"f64", "f64"}, "f64",
        [] {
          std::vector<Row> rows = Operands(kBinary64, 2, 2000);
          std::erase_if(
              rows, [](const Row& r) { return kBinary64.is_nan(r[0]) && kBinary64.is_nan(r[1]); });
          return rows;
        }(),
        [&](const Row& row) { return MinMax(kBinary64, row, max, false, false, 0); });
    ExpectRows(runner_, Code(max ? "max.NaN.f32" : "min.NaN.f32", 3), {"f32", "f32", "f32"}, "f32",
               Operands(kBinary32, 3, 500), [&](const Row& row) {
                 return MinMax(kBinary32, row, max, true, false, 0x7FFFFFFF);
               });
  }
}

TEST_F(FloatOracleTest, Comparisons) {
  struct Comparison {
    const char* name;
    bool less, equal, greater, unordered;
  };
  const Comparison all[] = {{"eq", 0, 1, 0, 0},  {"ne", 1, 0, 1, 0},  {"lt", 1, 0, 0, 0},
                            {"le", 1, 1, 0, 0},  {"gt", 0, 0, 1, 0},  {"ge", 0, 1, 1, 0},
                            {"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1}, {"ltu", 1, 0, 0, 1},
                            {"leu", 1, 1, 0, 1}, {"gtu", 0, 0, 1, 1}, {"geu", 0, 1, 1, 1},
                            {"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1}};
  struct Kind {
    Format format;
    std::string type, reg;
  };
  for (const Kind& kind : {Kind{kBinary16, "f16", "b16"}, Kind{kBfloat16, "bf16", "b16"},
                           Kind{kBinary32, "f32", "f32"}, Kind{kBinary64, "f64", "f64"}}) {
    for (const Comparison& c : all) {
      const auto want = [&](const Row& row) {
        Value a, b;
        Set(a, kind.format, row[0]);
        Set(b, kind.format, row[1]);
        if (mpfr_unordered_p(a, b)) return uint64_t{c.unordered};
        const int order = mpfr_cmp(a, b);
        return uint64_t{order < 0 ? c.less : order > 0 ? c.greater : c.equal};
      };
      ExpectRows(runner_, std::string("setp.") + c.name + "." + kind.type + " %0, $0, $1;",
                 {kind.reg, kind.reg}, "pred", Operands(kind.format, 2, 500), want);
    }
  }
}

TEST_F(FloatOracleTest, SignsAndTests) {
  const std::vector<std::string> two = {"f32", "f32"};
  const auto rows = Operands(kBinary32, 2, 500);
  // copysign.f32 d, a, b: the sign of a, the magnitude of b.
  ExpectRows(runner_, "copysign.f32 %0, $0, $1;", two, "f32", rows,
             [](const Row& r) { return (r[0] & 0x80000000u) | (r[1] & 0x7FFFFFFFu); });
  struct Probe {
    const char* name;
    bool (*holds)(uint64_t magnitude);
  };
  const Probe tests[] = {
      {"finite", [](uint64_t m) { return m < 0x7F800000; }},
      {"infinite", [](uint64_t m) { return m == 0x7F800000; }},
      {"number", [](uint64_t m) { return m <= 0x7F800000; }},
      {"notanumber", [](uint64_t m) { return m > 0x7F800000; }},
      {"normal", [](uint64_t m) { return m == 0 || (m >= 0x800000 && m < 0x7F800000); }},
      {"subnormal", [](uint64_t m) { return m != 0 && m < 0x800000; }}};
  for (const Probe& test : tests) {
    ExpectRows(runner_, std::string("testp.") + test.name + ".f32 %0, $0;", {"f32"}, "pred",
               Operands(kBinary32, 1, 500),
               [&](const Row& r) { return uint64_t{test.holds(r[0] & 0x7FFFFFFF)}; });
  }
  for (const auto& [type, format] : {std::pair{"f16", kBinary16}, std::pair{"bf16", kBfloat16}}) {
    for (const bool negate : {false, true}) {
      std::vector<Row> every;
      for (uint64_t word = 0; word < 65536; ++word) every.push_back({word});
      ExpectRows(runner_, std::string(negate ? "neg." : "abs.") + type + " %0, $0;", {"b16"}, "b16",
                 every, [&, f = format](const Row& r) -> uint64_t {
                   if (f.is_nan(r[0])) return 0x7FFF;
                   return negate ? r[0] ^ 0x8000 : r[0] & 0x7FFF;
                 });
    }
  }
}

}  // namespace
}  // namespace cupola::sim
