// Approximate functions [PTX ISA 9.7.3.15-22]. They are computed in double and rounded once, which
// is more accurate than the ISA demands. sin and cos of a GPU lose accuracy for large arguments;
// these do not.
#include <cmath>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

constexpr uint8_t kFlushes = 1;

struct Ex2 {
  double operator()(double a) const { return std::exp2(a); }
};
struct Lg2 {
  double operator()(double a) const { return std::log2(a); }
};
struct Sin {
  double operator()(double a) const { return std::sin(a); }
};
struct Cos {
  double operator()(double a) const { return std::cos(a); }
};
struct Tanh {
  double operator()(double a) const { return std::tanh(a); }
};
struct Rsqrt {
  double operator()(double a) const { return 1.0 / std::sqrt(a); }
};

float Flush(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x7F800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : value;
}

template <typename Op>
void Single(Warp& warp, const Insn& in, uint32_t active) {
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const bool ftz = (in.flags & kFlushes) != 0;
  ForLanes(active, [=](uint32_t lane) {
    float value = ReadCell<float>(a, lane);
    if (ftz) value = Flush(value);
    float result = static_cast<float>(Op{}(value));
    if (ftz) result = Flush(result);
    d[lane] = std::isnan(result) ? 0x7FFFFFFFu : std::bit_cast<uint32_t>(result);
  });
}

template <typename Op>
void Double(Warp& warp, const Insn& in, uint32_t active) {
  double* d = warp.Row<double>(in.d);
  const double* a = warp.Row<double>(in.a);
  ForLanes(active, [=](uint32_t lane) {
    // The instruction reads and writes only the upper 32 bits of the values [9.7.3.16, 9.7.3.20].
    double value = a[lane];
    if (std::fabs(value) < 0x1p-1022) value = std::copysign(0.0, value);
    const uint64_t bits = std::bit_cast<uint64_t>(Op{}(value));
    d[lane] = std::bit_cast<double>(std::isnan(value) ? bits : bits & 0xFFFF'FFFF'0000'0000ull);
  });
}

struct Rcp {
  double operator()(double a) const { return 1.0 / a; }
};

template <typename Op>
bool DecodeApproximate(Decoder& decoder) {
  const Type type = decoder.TypeAt(0);
  if (type != Type::kF32 && type != Type::kF64) {
    const auto it = Opcodes().find("half " + decoder.in().opcode);
    return it != Opcodes().end() && it->second(decoder);
  }
  decoder.out.flags = decoder.Has("ftz") ? kFlushes : 0;
  return Simple(decoder, type, type == Type::kF64 ? Double<Op> : Single<Op>);
}

}  // namespace

void AddApproximateOps(OpTable& table) {
  table["ex2"] = DecodeApproximate<Ex2>;
  table["lg2"] = DecodeApproximate<Lg2>;
  table["sin"] = DecodeApproximate<Sin>;
  table["cos"] = DecodeApproximate<Cos>;
  table["tanh"] = DecodeApproximate<Tanh>;
  table["rcp approx f64"] = DecodeApproximate<Rcp>;
  table["rsqrt"] = DecodeApproximate<Rsqrt>;
}

}  // namespace cupola::sim
