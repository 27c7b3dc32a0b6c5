#include "device/compiler/ptx/target.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace cupola::ptx {
namespace {

constexpr uint32_t kKnownMajor = 9;
constexpr uint32_t kKnownMinor = 0;

struct Architecture {
  std::string_view name;
  uint32_t major, minor;  ///< the first version of PTX that knows the target
};

// The table of targets [11.1.2]. Targets before sm_20 are left out, since no version rejects them.
constexpr Architecture kArchitectures[] = {
    {"sm_20", 2, 0},  {"sm_21", 2, 0},   {"sm_30", 3, 0},   {"sm_32", 4, 0},   {"sm_35", 3, 1},
    {"sm_37", 4, 1},  {"sm_50", 4, 0},   {"sm_52", 4, 1},   {"sm_53", 4, 2},   {"sm_60", 5, 0},
    {"sm_61", 5, 0},  {"sm_62", 5, 0},   {"sm_70", 6, 0},   {"sm_72", 6, 1},   {"sm_75", 6, 3},
    {"sm_80", 7, 0},  {"sm_86", 7, 1},   {"sm_87", 7, 4},   {"sm_88", 7, 4},   {"sm_89", 7, 8},
    {"sm_90", 7, 8},  {"sm_90a", 8, 0},  {"sm_100", 8, 6},  {"sm_100a", 8, 6}, {"sm_100f", 8, 8},
    {"sm_101", 8, 6}, {"sm_101a", 8, 6}, {"sm_101f", 8, 8}, {"sm_103", 8, 8},  {"sm_103a", 8, 8},
    {"sm_103f", 8, 8}, {"sm_110", 9, 0}, {"sm_110a", 9, 0}, {"sm_110f", 9, 0}, {"sm_120", 8, 7},
    {"sm_120a", 8, 7}, {"sm_120f", 8, 8}, {"sm_121", 8, 8}, {"sm_121a", 8, 8}, {"sm_121f", 8, 8},
    {"sm_10", 1, 0},  {"sm_11", 1, 0},   {"sm_12", 1, 2},   {"sm_13", 1, 2},
};

constexpr std::string_view kOptions[] = {"texmode_unified", "texmode_independent", "debug",
                                         "map_f64_to_f32"};

bool IsOlder(uint32_t major, uint32_t minor, const Architecture& architecture) {
  return major != architecture.major ? major < architecture.major : minor < architecture.minor;
}

std::string Dotted(uint32_t major, uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace

bool IsNewerIsa(uint32_t major, uint32_t minor) {
  return major != kKnownMajor ? major > kKnownMajor : minor > kKnownMinor;
}

TargetCheck CheckTarget(std::string_view target, uint32_t version_major, uint32_t version_minor) {
  if (std::find(std::begin(kOptions), std::end(kOptions), target) != std::end(kOptions)) return {};
  const std::string quoted = "'" + std::string(target) + "'";
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name != target) continue;
    if (version_major == 0 || !IsOlder(version_major, version_minor, architecture)) return {};
    return {true, "the target " + quoted + " needs PTX ISA " +
                      Dotted(architecture.major, architecture.minor) + ", the module is " +
                      Dotted(version_major, version_minor)};
  }
  if (target.starts_with("sm_")) return {false, "unknown target " + quoted};
  return {true, "unknown target option " + quoted};
}

bool IsTypeWord(std::string_view word) {
  static constexpr std::array<std::string_view, 33> kTypes = {
      "b32",  "b64",  "pred", "u32",  "u64",    "s32",    "s64",        "f32",      "f64",
      "b8",   "b16",  "b128", "u8",   "u16",    "s8",     "s16",        "f16",      "f16x2",
      "bf16", "bf16x2", "tf32", "e4m3", "e5m2", "e4m3x2", "e5m2x2",     "e2m3",     "e3m2",
      "e2m1", "ue8m0", "f128", "texref", "samplerref", "surfref"};
  return std::find(kTypes.begin(), kTypes.end(), word) != kTypes.end();
}

uint64_t TypeBytes(std::string_view type) {
  struct Size {
    std::string_view type;
    uint64_t bytes;
  };
  static constexpr Size kSizes[] = {
      {"b8", 1},   {"u8", 1},    {"s8", 1},     {"b16", 2},  {"u16", 2}, {"s16", 2}, {"f16", 2},
      {"bf16", 2}, {"b32", 4},   {"u32", 4},    {"s32", 4},  {"f32", 4}, {"f16x2", 4},
      {"bf16x2", 4}, {"tf32", 4}, {"b64", 8},   {"u64", 8},  {"s64", 8}, {"f64", 8}, {"b128", 16},
  };
  for (const Size& size : kSizes) {
    if (size.type == type) return size.bytes;
  }
  return 0;
}

}  // namespace cupola::ptx
