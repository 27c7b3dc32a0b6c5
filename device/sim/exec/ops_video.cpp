// The SIMD video instructions that nvcc still emits (__vabsdiffu4, __vsadu4...): operations on the
// bytes or halves of registers, without byte selectors [PTX ISA 9.7.17]. The scalar ones are not
// supported.
#include <algorithm>
#include <cstdlib>

#include "device/sim/exec/lanes.h"

namespace cupola::sim {
namespace {

enum class VideoOp : uint16_t { kAdd, kSub, kAverage, kAbsDiff, kMin, kMax };

constexpr uint8_t kSignedD = 1, kSignedA = 2, kSignedB = 4, kSaturate = 8, kAccumulate = 16;

int64_t Apply(VideoOp op, int64_t a, int64_t b) {
  switch (op) {
    case VideoOp::kAdd:
      return a + b;
    case VideoOp::kSub:
      return a - b;
    case VideoOp::kAverage:  // rounded away from zero
      return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
    case VideoOp::kAbsDiff:
      return std::abs(a - b);
    case VideoOp::kMin:
      return std::min(a, b);
    case VideoOp::kMax:
      return std::max(a, b);
  }
  return 0;
}

/// small: VideoOp; imm: bits of a part; c: a value that is added to the sum of the parts in the
/// forms with kAccumulate.
void Video(Warp& warp, const Insn& in, uint32_t active) {
  uint32_t* d = warp.Row<uint32_t>(in.d);
  const uint32_t* a = warp.Row<uint32_t>(in.a);
  const uint32_t* b = warp.Row<uint32_t>(in.b);
  const uint32_t* c = warp.Row<uint32_t>(in.c);
  const uint32_t bits = static_cast<uint32_t>(in.imm), mask = (1u << bits) - 1;
  const auto part = [=](uint32_t word, uint32_t at, bool is_signed) -> int64_t {
    const uint32_t up = word << (32 - bits - at);
    return is_signed ? static_cast<int32_t>(up) >> (32 - bits) : int64_t{up >> (32 - bits)};
  };
  const bool is_signed = (in.flags & kSignedD) != 0;
  const int64_t high = is_signed ? mask >> 1 : mask, low = is_signed ? -high - 1 : 0;
  ForLanes(active, [&](uint32_t lane) {
    uint32_t word = 0, sum = c[lane];
    for (uint32_t at = 0; at < 32; at += bits) {
      int64_t value =
          Apply(static_cast<VideoOp>(in.small), part(a[lane], at, (in.flags & kSignedA) != 0),
                part(b[lane], at, (in.flags & kSignedB) != 0));
      if ((in.flags & kSaturate) != 0) value = std::clamp(value, low, high);
      word |= (static_cast<uint32_t>(value) & mask) << at;
      sum += static_cast<uint32_t>(value);
    }
    d[lane] = (in.flags & kAccumulate) != 0 ? sum : word;
  });
}

template <VideoOp kOp>
bool DecodeVideo(Decoder& decoder) {
  if (decoder.OperandCount() != 4 || !Simple(decoder, Type::kB32, Video)) return false;
  Insn& out = decoder.out;
  out.small = static_cast<uint16_t>(kOp);
  out.imm = decoder.in().opcode.back() == '4' ? 8 : 16;
  out.flags = static_cast<uint8_t>(
      (IsSigned(decoder.TypeAt(0)) ? kSignedD : 0) | (IsSigned(decoder.TypeAt(1)) ? kSignedA : 0) |
      (IsSigned(decoder.TypeAt(2)) ? kSignedB : 0) | (decoder.Has("sat") ? kSaturate : 0) |
      (decoder.Has("add") ? kAccumulate : 0));
  return (out.flags & (kSaturate | kAccumulate)) != (kSaturate | kAccumulate);
}

}  // namespace

void AddVideoOps(OpTable& table) {
  table["vadd2"] = table["vadd4"] = DecodeVideo<VideoOp::kAdd>;
  table["vsub2"] = table["vsub4"] = DecodeVideo<VideoOp::kSub>;
  table["vavrg2"] = table["vavrg4"] = DecodeVideo<VideoOp::kAverage>;
  table["vabsdiff2"] = table["vabsdiff4"] = DecodeVideo<VideoOp::kAbsDiff>;
  table["vmin2"] = table["vmin4"] = DecodeVideo<VideoOp::kMin>;
  table["vmax2"] = table["vmax4"] = DecodeVideo<VideoOp::kMax>;
}

}  // namespace cupola::sim
