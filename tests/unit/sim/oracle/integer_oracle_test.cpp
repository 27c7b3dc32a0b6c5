// Integer and bit instructions against arithmetic of 128 bits written here from the PTX ISA's text
// (9.7.1, 9.7.2, 9.7.8): pairs of special values, and seeded random ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/prng.h"
#include "tests/unit/sim/oracle/instruction_runner.h"

namespace cupola::sim {
namespace {

using Int = __int128;

/// A value of `bits` bits, as a number.
Int Number(uint64_t word, int bits, bool is_signed) {
  const Int unsigned_value = bits == 64 ? Int{word} : Int(word & ((1ull << bits) - 1));
  if (!is_signed || ((word >> (bits - 1)) & 1) == 0) return unsigned_value;
  return unsigned_value - (Int{1} << bits);
}

uint64_t Low(Int value, int bits) {
  return static_cast<uint64_t>(value) & (bits == 64 ? ~0ull : (1ull << bits) - 1);
}

std::vector<uint64_t> Specials(int bits) {
  const uint64_t top = 1ull << (bits - 1);
  return {0,
          1,
          2,
          3,
          7,
          31,
          32,
          33,
          63,
          64,
          100,
          top - 1,
          top,
          top + 1,
          Low(-1, bits),
          Low(-2, bits),
          Low(-7, bits),
          0x5555555555555555ull & (top | (top - 1))};
}

std::vector<Row> Rows(int bits, size_t operands, size_t count = 3000) {
  std::vector<Row> rows = AllTuples(Specials(bits), operands);
  Prng random(TestSeed());
  for (size_t i = 0; i < count; ++i) {
    Row row;
    // All magnitudes occur, not only values with their highest bits set.
    for (size_t k = 0; k < operands; ++k)
      row.push_back(Low(Int(random.Next() >> random.Next() % 64), bits));
    rows.push_back(row);
  }
  return rows;
}

struct IntegerType {
  std::string name;
  int bits;
  bool is_signed;
  std::string reg() const { return "b" + std::to_string(bits); }
};

const IntegerType kTypes[] = {{"u16", 16, false}, {"s16", 16, true},  {"u32", 32, false},
                              {"s32", 32, true},  {"u64", 64, false}, {"s64", 64, true}};

class IntegerOracleTest : public testing::Test {
 protected:
  template <typename Expected>
  void Check(const std::string& opcode, const IntegerType& type, size_t operands,
             Expected expected) {
    std::string code = opcode + "." + type.name + " %0";
    for (size_t i = 0; i < operands; ++i) code += ", $" + std::to_string(i);
    ExpectRows(runner_, code + ";", std::vector<std::string>(operands, type.reg()), type.reg(),
               Rows(type.bits, operands, operands == 3 ? 1000 : 3000), [&](const Row& row) {
                 Int n[3] = {0, 0, 0};
                 for (size_t i = 0; i < operands; ++i)
                   n[i] = Number(row[i], type.bits, type.is_signed);
                 return Low(expected(n[0], n[1], n[2]), type.bits);
               });
  }
  InstructionRunner runner_;
};

TEST_F(IntegerOracleTest, Arithmetic) {
  for (const IntegerType& t : kTypes) {
    const auto high = [&](Int a, Int b) {
      if (t.bits == 64 && !t.is_signed) {
        return static_cast<Int>(
            (static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b)) >> 64);
      }
      return (a * b) >> t.bits;
    };
    const Int ones = -1;
    Check("add", t, 2, [](Int a, Int b, Int) { return a + b; });
    Check("sub", t, 2, [](Int a, Int b, Int) { return a - b; });
    Check("mul.lo", t, 2, [](Int a, Int b, Int) {
      return static_cast<Int>(static_cast<unsigned __int128>(a) *
                              static_cast<unsigned __int128>(b));
    });
    Check("mul.hi", t, 2, [&](Int a, Int b, Int) { return high(a, b); });
    Check("mad.hi", t, 3, [&](Int a, Int b, Int c) { return high(a, b) + c; });
    Check("sad", t, 3, [](Int a, Int b, Int c) { return c + (a < b ? b - a : a - b); });
    // Division by zero is "machine-specific" [9.7.1.8]; a GPU gives all ones and the dividend.
    Check("div", t, 2, [&](Int a, Int b, Int) { return b == 0 ? ones : a / b; });
    Check("rem", t, 2, [](Int a, Int b, Int) { return b == 0 ? a : a % b; });
    Check("min", t, 2, [](Int a, Int b, Int) { return std::min(a, b); });
    Check("max", t, 2, [](Int a, Int b, Int) { return std::max(a, b); });
    if (!t.is_signed) continue;
    Check("abs", t, 1, [](Int a, Int, Int) { return a < 0 ? -a : a; });
    Check("neg", t, 1, [](Int a, Int, Int) { return -a; });
  }
}

TEST_F(IntegerOracleTest, Saturation) {
  const IntegerType s32{"s32", 32, true};
  const auto clamp = [](Int value) { return std::clamp<Int>(value, INT32_MIN, INT32_MAX); };
  const auto high24 = [](Int a, Int b) {
    const auto low24 = [](Int n) { return Number(static_cast<uint64_t>(n), 24, true); };
    return (low24(a) * low24(b)) >> 16;
  };
  Check("add.sat", s32, 2, [&](Int a, Int b, Int) { return clamp(a + b); });
  Check("sub.sat", s32, 2, [&](Int a, Int b, Int) { return clamp(a - b); });
  Check("mad.hi.sat", s32, 3, [&](Int a, Int b, Int c) { return clamp(((a * b) >> 32) + c); });
  Check("mul24.hi", s32, 2, [&](Int a, Int b, Int) { return high24(a, b); });
  Check("mad24.hi.sat", s32, 3, [&](Int a, Int b, Int c) { return clamp(high24(a, b) + c); });
  const IntegerType u32{"u32", 32, false};
  Check("mul24.lo", u32, 2, [](Int a, Int b, Int) { return (a & 0xFFFFFF) * (b & 0xFFFFFF); });
  Check("min.relu", s32, 2, [](Int a, Int b, Int) { return std::max<Int>(0, std::min(a, b)); });
  Check("max.relu", s32, 2, [](Int a, Int b, Int) { return std::max<Int>(0, std::max(a, b)); });
}

TEST_F(IntegerOracleTest, WideProducts) {
  for (const IntegerType& t : {kTypes[0], kTypes[1], kTypes[2], kTypes[3]}) {
    const std::string wide = "b" + std::to_string(2 * t.bits);
    ExpectRows(runner_, "mul.wide." + t.name + " %0, $0, $1;", {t.reg(), t.reg()}, wide,
               Rows(t.bits, 2), [&](const Row& r) {
                 return Low(Number(r[0], t.bits, t.is_signed) * Number(r[1], t.bits, t.is_signed),
                            2 * t.bits);
               });
    ExpectRows(runner_, "mad.wide." + t.name + " %0, $0, $1, $2;", {t.reg(), t.reg(), wide}, wide,
               Rows(t.bits, 3, 1000), [&](const Row& r) {
                 return Low(Number(r[0], t.bits, t.is_signed) * Number(r[1], t.bits, t.is_signed) +
                                Number(r[2], t.bits, false),
                            2 * t.bits);
               });
  }
}

/// The 16-bit halves of a word, one after the other.
template <typename Op>
uint64_t Halves(const Row& row, bool is_signed, Op op) {
  uint64_t result = 0;
  for (int at = 0; at < 32; at += 16) {
    const Int a = Number(row[0] >> at, 16, is_signed), b = Number(row[1] >> at, 16, is_signed);
    result |= Low(op(a, b), 16) << at;
  }
  return result;
}

TEST_F(IntegerOracleTest, PairsOf16Bits) {
  const auto check = [&](const std::string& opcode, bool is_signed, auto op) {
    ExpectRows(runner_, opcode + " %0, $0, $1;", {"b32", "b32"}, "b32", Rows(32, 2),
               [&](const Row& row) { return Halves(row, is_signed, op); });
  };
  check("add.u16x2", false, [](Int a, Int b) { return a + b; });
  check("add.s16x2", true, [](Int a, Int b) { return a + b; });
  check("min.u16x2", false, [](Int a, Int b) { return std::min(a, b); });
  check("max.u16x2", false, [](Int a, Int b) { return std::max(a, b); });
  check("min.s16x2", true, [](Int a, Int b) { return std::min(a, b); });
  check("max.s16x2", true, [](Int a, Int b) { return std::max(a, b); });
  check("min.s16x2.relu", true, [](Int a, Int b) { return std::max<Int>(0, std::min(a, b)); });
  check("max.s16x2.relu", true, [](Int a, Int b) { return std::max<Int>(0, std::max(a, b)); });
}

TEST_F(IntegerOracleTest, CarryChains) {
  // Numbers of 128 bits in two parts of 64: the low part sets the carry, the high part uses it.
  const auto join = [](uint64_t high, uint64_t low) {
    return static_cast<unsigned __int128>(high) << 64 | low;
  };
  const std::vector<Row> rows = [] {
    std::vector<Row> all = AllTuples({0, 1, ~0ull, 1ull << 63}, 4);
    Prng random(TestSeed());
    for (int i = 0; i < 2000; ++i)
      all.push_back({random.Next(), random.Next(), random.Next(), random.Next()});
    return all;
  }();
  const std::vector<std::string> four(4, "b64");
  ExpectRows(runner_, "add.cc.u64 %0, $0, $2; addc.u64 %0, $1, $3;", four, "b64", rows,
             [&](const Row& r) {
               return static_cast<uint64_t>((join(r[1], r[0]) + join(r[3], r[2])) >> 64);
             });
  ExpectRows(runner_, "sub.cc.u64 %0, $0, $2; subc.u64 %0, $1, $3;", four, "b64", rows,
             [&](const Row& r) {
               return static_cast<uint64_t>((join(r[1], r[0]) - join(r[3], r[2])) >> 64);
             });
  // The carry itself: 0 + 0 + CF.
  ExpectRows(
      runner_, "mad.lo.cc.u64 %0, $0, $1, $2; addc.u64 %0, 0, 0;", four, "b64", rows,
      [&](const Row& r) {
        return static_cast<uint64_t>((static_cast<unsigned __int128>(r[0] * r[1]) + r[2]) >> 64);
      });
  ExpectRows(runner_, "add.cc.u64 %0, $0, $1; madc.hi.u64 %0, $1, $2, $3;", four, "b64", rows,
             [&](const Row& r) {
               const uint64_t carry =
                   static_cast<uint64_t>((static_cast<unsigned __int128>(r[0]) + r[1]) >> 64);
               const auto product = static_cast<unsigned __int128>(r[1]) * r[2];
               return static_cast<uint64_t>(product >> 64) + r[3] + carry;
             });
}

TEST_F(IntegerOracleTest, ShiftsBeyondTheWidth) {
  for (const IntegerType& t : kTypes) {
    std::vector<Row> rows;
    for (const Row& row : Rows(t.bits, 1, 500)) {
      for (const uint64_t amount : {0ull, 1ull, 7ull, 15ull, 16ull, 31ull, 32ull, 33ull, 63ull,
                                    64ull, 65ull, 0x80000000ull, 0xFFFFFFFFull}) {
        rows.push_back({row[0], amount});
      }
    }
    const std::string bits = "b" + std::to_string(t.bits);
    ExpectRows(runner_, "shl." + bits + " %0, $0, $1;", {t.reg(), "b32"}, t.reg(), rows,
               [&](const Row& r) {
                 return r[1] >= static_cast<uint64_t>(t.bits) ? 0 : Low(Int(r[0]) << r[1], t.bits);
               });
    ExpectRows(runner_, "shr." + t.name + " %0, $0, $1;", {t.reg(), "b32"}, t.reg(), rows,
               [&](const Row& r) {
                 const Int value = Number(r[0], t.bits, t.is_signed);
                 return Low(value >> std::min<uint64_t>(r[1], 100), t.bits);
               });
  }
  const auto check = [&](const std::string& code, auto expected) {
    std::vector<Row> rows = Rows(32, 2, 300), all;
    for (const Row& row : rows) {
      for (const uint64_t amount : {0ull, 1ull, 17ull, 31ull, 32ull, 33ull, 40ull, 0xFFFFFFE1ull})
        all.push_back({row[0], row[1], amount});
    }
    ExpectRows(runner_, code, {"b32", "b32", "b32"}, "b32", all, expected);
  };
  const auto both = [](const Row& r) { return r[1] << 32 | r[0]; };
  check("shf.l.clamp.b32 %0, $0, $1, $2;", [&](const Row& r) -> uint64_t {
    const uint64_t n = std::min<uint64_t>(r[2], 32);
    return n == 32 ? r[0] : (both(r) << n) >> 32;
  });
  check("shf.r.clamp.b32 %0, $0, $1, $2;", [&](const Row& r) -> uint64_t {
    const uint64_t n = std::min<uint64_t>(r[2], 32);
    return Low(Int(both(r)) >> n, 32);
  });
  check("shf.l.wrap.b32 %0, $0, $1, $2;",
        [&](const Row& r) -> uint64_t { return (both(r) << (r[2] & 31)) >> 32; });
  check("shf.r.wrap.b32 %0, $0, $1, $2;",
        [&](const Row& r) -> uint64_t { return Low(Int(both(r)) >> (r[2] & 31), 32); });
}

TEST_F(IntegerOracleTest, BitsOneByOne) {
  const auto bit = [](uint64_t word, int i) { return (word >> i) & 1; };
  for (const int bits : {32, 64}) {
    const std::string b = "b" + std::to_string(bits);
    const auto rows = Rows(bits, 1);
    ExpectRows(runner_, "popc." + b + " %0, $0;", {b}, "b32", rows, [&](const Row& r) {
      uint64_t count = 0;
      for (int i = 0; i < bits; ++i) count += bit(r[0], i);
      return count;
    });
    ExpectRows(runner_, "clz." + b + " %0, $0;", {b}, "b32", rows, [&](const Row& r) {
      uint64_t count = 0;
      for (int i = bits - 1; i >= 0 && bit(r[0], i) == 0; --i) ++count;
      return count;
    });
    ExpectRows(runner_, "brev." + b + " %0, $0;", {b}, b, rows, [&](const Row& r) {
      uint64_t result = 0;
      for (int i = 0; i < bits; ++i) result |= bit(r[0], i) << (bits - 1 - i);
      return result;
    });
    for (const bool is_signed : {false, true}) {
      const std::string t = (is_signed ? "s" : "u") + std::to_string(bits);
      const auto top = [&](uint64_t word) {
        const uint64_t skip = is_signed ? bit(word, bits - 1) : 0;
        for (int i = bits - 1; i >= 0; --i) {
          if (bit(word, i) != skip) return i;
        }
        return -1;
      };
      ExpectRows(runner_, "bfind." + t + " %0, $0;", {b}, "b32", rows,
                 [&](const Row& r) { return Low(top(r[0]), 32); });
      ExpectRows(runner_, "bfind.shiftamt." + t + " %0, $0;", {b}, "b32", rows, [&](const Row& r) {
        return top(r[0]) < 0 ? 0xFFFFFFFFull : static_cast<uint64_t>(bits - 1 - top(r[0]));
      });
      std::vector<Row> fields;
      for (const Row& row : Rows(bits, 1, 60)) {
        for (uint64_t pos = 0; pos < 80; pos += 3) {
          // bfe.s32 with a position beyond the word is where a GPU and the ISA disagree.
          if (is_signed && pos >= static_cast<uint64_t>(bits)) continue;
          for (uint64_t len = 0; len < 80; len += 4) fields.push_back({row[0], pos, len});
        }
      }
      ExpectRows(runner_, "bfe." + t + " %0, $0, $1, $2;", {b, "b32", "b32"}, b, fields,
                 [&](const Row& r) {
                   const int pos = static_cast<int>(r[1]), len = static_cast<int>(r[2]);
                   const int msb = bits - 1;
                   const uint64_t sign =
                       !is_signed || len == 0 ? 0 : bit(r[0], std::min(pos + len - 1, msb));
                   uint64_t result = 0;
                   for (int i = 0; i <= msb; ++i) {
                     const uint64_t value = i < len && pos + i <= msb ? bit(r[0], pos + i) : sign;
                     result |= value << i;
                   }
                   return result;
                 });
    }
    std::vector<Row> inserts;
    for (const Row& row : Rows(bits, 2, 60)) {
      for (uint64_t pos = 0; pos < 70; pos += 9) {
        for (uint64_t len = 0; len < 70; len += 8) inserts.push_back({row[0], row[1], pos, len});
      }
    }
    ExpectRows(runner_, "bfi." + b + " %0, $0, $1, $2, $3;", {b, b, "b32", "b32"}, b, inserts,
               [&](const Row& r) {
                 uint64_t result = r[1];
                 for (uint64_t i = 0; i < r[3] && r[2] + i < static_cast<uint64_t>(bits); ++i) {
                   result = (result & ~(1ull << (r[2] + i))) | bit(r[0], static_cast<int>(i))
                                                                   << (r[2] + i);
                 }
                 return result;
               });
  }
}

TEST_F(IntegerOracleTest, LogicOfThree) {
  Prng random(TestSeed());
  const auto rows = Rows(32, 3, 200);
  for (int n = 0; n < 24; ++n) {
    const uint32_t table = random.Next() & 0xFF;
    const auto result = [&](const Row& r) {
      uint64_t word = 0;
      for (int i = 0; i < 32; ++i) {
        const uint32_t at =
            static_cast<uint32_t>((r[0] >> i & 1) << 2 | (r[1] >> i & 1) << 1 | (r[2] >> i & 1));
        word |= static_cast<uint64_t>(table >> at & 1) << i;
      }
      return word;
    };
    const std::string t = std::to_string(table);
    ExpectRows(runner_, "lop3.b32 %0, $0, $1, $2, " + t + ";", {"b32", "b32", "b32"}, "b32", rows,
               result);
    const std::string predicate = ".reg .pred %q; .reg .b32 %w; setp.lt.u32 %q, $0, $1; lop3.";
    ExpectRows(runner_, predicate + "or.b32 %w|%0, $0, $1, $2, " + t + ", %q;",
               {"b32", "b32", "b32"}, "pred", rows,
               [&](const Row& r) { return uint64_t{result(r) != 0 || r[0] < r[1]}; });
    ExpectRows(runner_, predicate + "and.b32 _|%0, $0, $1, $2, " + t + ", %q;",
               {"b32", "b32", "b32"}, "pred", rows,
               [&](const Row& r) { return uint64_t{result(r) != 0 && r[0] < r[1]}; });
  }
}

TEST_F(IntegerOracleTest, BytesAndDotProducts) {
  const auto byte = [](const Row& r, uint64_t pick) {
    const uint64_t value = ((r[1] << 32 | r[0]) >> (8 * (pick & 7))) & 0xFF;
    return (pick & 8) == 0 ? value : (value & 0x80) != 0 ? 0xFFull : 0ull;
  };
  const auto rows = Rows(32, 3, 2000);
  const std::vector<std::string> three(3, "b32");
  ExpectRows(runner_, "prmt.b32 %0, $0, $1, $2;", three, "b32", rows, [&](const Row& r) {
    uint64_t word = 0;
    for (int i = 0; i < 4; ++i) word |= byte(r, r[2] >> (4 * i) & 15) << (8 * i);
    return word;
  });
  // The table of [9.7.9.7]: the source bytes of the result, from the highest to the lowest.
  struct Mode {
    const char* name;
    const char* picks[4];
  };
  const Mode modes[] = {
      {"f4e", {"3210", "4321", "5432", "6543"}}, {"b4e", {"5670", "6701", "7012", "0123"}},
      {"rc8", {"0000", "1111", "2222", "3333"}}, {"ecl", {"3210", "3211", "3222", "3333"}},
      {"ecr", {"0000", "1110", "2210", "3210"}}, {"rc16", {"1010", "3232", "1010", "3232"}}};
  for (const Mode& mode : modes) {
    ExpectRows(runner_, std::string("prmt.b32.") + mode.name + " %0, $0, $1, $2;", three, "b32",
               rows, [&](const Row& r) {
                 uint64_t word = 0;
                 for (int i = 0; i < 4; ++i) {
                   const uint64_t pick = static_cast<uint64_t>(mode.picks[r[2] & 3][3 - i] - '0');
                   word |= byte(r, pick) << (8 * i);
                 }
                 return word;
               });
  }
  for (const bool as : {false, true}) {
    for (const bool bs : {false, true}) {
      const std::string types = std::string(as ? ".s32" : ".u32") + (bs ? ".s32" : ".u32");
      ExpectRows(runner_, "dp4a" + types + " %0, $0, $1, $2;", three, "b32", rows,
                 [&](const Row& r) {
                   Int sum = Int(r[2]);
                   for (int i = 0; i < 32; i += 8)
                     sum += Number(r[0] >> i, 8, as) * Number(r[1] >> i, 8, bs);
                   return Low(sum, 32);
                 });
      for (const bool high : {false, true}) {
        ExpectRows(runner_,
                   std::string("dp2a.") + (high ? "hi" : "lo") + types + " %0, $0, $1, $2;", three,
                   "b32", rows, [&](const Row& r) {
                     Int sum = Int(r[2]);
                     for (int i = 0; i < 2; ++i) {
                       sum += Number(r[0] >> (16 * i), 16, as) *
                              Number(r[1] >> (8 * i + (high ? 16 : 0)), 8, bs);
                     }
                     return Low(sum, 32);
                   });
      }
    }
  }
}

TEST_F(IntegerOracleTest, RareOnes) {
  const auto rows = Rows(32, 3, 2000);
  const std::vector<std::string> three(3, "b32");
  ExpectRows(runner_, "cnot.b32 %0, $0;", {"b32"}, "b32", Rows(32, 1),
             [](const Row& r) { return uint64_t{r[0] == 0}; });
  ExpectRows(
      runner_, "fns.b32 %0, $0, $1, $2;", three, "b32",
      [&] {
        std::vector<Row> cases;
        for (const Row& r : rows) {
          cases.push_back({r[0], r[1] & 31, Low(Int(r[2] % 9) - 4, 32)});
        }
        return cases;
      }(),
      [](const Row& r) -> uint64_t {
        const int base = static_cast<int>(r[1]), offset = static_cast<int32_t>(r[2]);
        const auto set = [&](int i) { return (r[0] >> i & 1) != 0; };
        if (offset == 0) return set(base) ? static_cast<uint64_t>(base) : 0xFFFFFFFFull;
        int seen = 0;
        for (int i = base; i >= 0 && i<32; i += offset> 0 ? 1 : -1) {
          if (set(i) && ++seen == std::abs(offset)) return static_cast<uint64_t>(i);
        }
        return 0xFFFFFFFFull;
      });
  const auto mask = [](const Row& r, bool wrap) -> uint64_t {
    const uint64_t pos = wrap ? r[0] & 31 : r[0], len = wrap ? r[1] & 31 : r[1];
    uint64_t word = 0;
    for (uint64_t i = pos; i < 32 && i - pos < len; ++i) word |= 1ull << i;
    return word;
  };
  ExpectRows(runner_, "bmsk.clamp.b32 %0, $0, $1;", {"b32", "b32"}, "b32", Rows(32, 2),
             [&](const Row& r) { return mask(r, false); });
  ExpectRows(runner_, "bmsk.wrap.b32 %0, $0, $1;", {"b32", "b32"}, "b32", Rows(32, 2),
             [&](const Row& r) { return mask(r, true); });
  for (const bool is_signed : {false, true}) {
    for (const bool wrap : {false, true}) {
      ExpectRows(runner_,
                 std::string("szext.") + (wrap ? "wrap" : "clamp") + (is_signed ? ".s32" : ".u32") +
                     " %0, $0, $1;",
                 {"b32", "b32"}, "b32", Rows(32, 2), [&](const Row& r) -> uint64_t {
                   const uint64_t n = wrap ? r[1] & 31 : r[1];
                   if (n >= 32) return r[0];
                   if (n == 0) return 0;
                   return Low(Number(r[0], static_cast<int>(n), is_signed), 32);
                 });
    }
  }
  ExpectRows(runner_, "vabsdiff4.u32.u32.u32.add %0, $0, $1, $2;", three, "b32", rows,
             [](const Row& r) {
               Int sum = Int(r[2]);
               for (int i = 0; i < 32; i += 8) {
                 const Int d = Number(r[0] >> i, 8, false) - Number(r[1] >> i, 8, false);
                 sum += d < 0 ? -d : d;
               }
               return Low(sum, 32);
             });
}

}  // namespace
}  // namespace cupola::sim
