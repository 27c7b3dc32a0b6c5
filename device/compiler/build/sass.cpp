#include "device/compiler/build/sass.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device/compiler/fatbin/cubin.h"
#include "device/compiler/fatbin/elf_file.h"

namespace cupola::build {
namespace {

using fatbin::Bytes;

constexpr size_t kInstructionBytes = 16;
constexpr std::string_view kText = ".text.";

constexpr uint32_t kMufu = 0x108, kF2i = 0x105, kF2i64 = 0x111, kI2f = 0x106, kI2f64 = 0x112;
constexpr uint32_t kHfma2 = 0x031, kHfma2Mma = 0x035, kFfma = 0x023, kDfma = 0x02B;
constexpr uint32_t kZeroRegister = 255;

constexpr auto MakeNames() {
  std::array<const char*, 512> names{};
#define CUPOLA_SASS(code, name) names[code] = name;
#include "device/compiler/build/sass_opcodes.def"
#undef CUPOLA_SASS
  return names;
}
constexpr std::array<const char*, 512> kNames = MakeNames();

// The functions of MUFU, by bits 74 to 77.
constexpr std::array<const char*, 10> kMufuNames = {
    "MUFU.COS", "MUFU.SIN",    "MUFU.EX2",    "MUFU.LG2",  "MUFU.RCP",
    "MUFU.RSQ", "MUFU.RCP64H", "MUFU.RSQ64H", "MUFU.SQRT", "MUFU.TANH"};
constexpr uint32_t kMufuRcp = 4;

struct SassInstruction {
  uint64_t low, high;

  uint32_t code() const { return low & 0x1FF; }
  uint32_t form() const { return (low >> 9) & 7; }
  uint32_t source_a() const { return (low >> 24) & 0xFF; }
  uint32_t source_b() const { return (low >> 32) & 0xFF; }
  uint32_t high_register() const { return high & 0xFF; }
  uint32_t rounding() const { return (high >> 14) & 3; }  // of conversions: RN, RM, RP, RZ
  uint32_t mufu() const { return (high >> 10) & 15; }
};

// Whether it is HFMA2 R, -RZ, RZ, constant: ptxas loads constants so when that pipe is free.
bool LoadsConstant(const SassInstruction& at) {
  constexpr uint32_t kConstantAdded = 2;
  return (at.code() == kHfma2 || at.code() == kHfma2Mma) && at.form() == kConstantAdded &&
         at.source_a() == kZeroRegister && at.high_register() == kZeroRegister;
}

// Integer division begins with a conversion that rounds up. Its result is exact whatever the
// instructions behind it do.
bool BeginsIntegerDivision(const SassInstruction& at) {
  constexpr uint32_t kRoundsUp = 2;
  return (at.code() == kI2f || at.code() == kI2f64) && at.rounding() == kRoundsUp;
}

// The banks are the even and the odd registers, and each can be read twice a cycle. Operands that
// are kept from the instruction before (".reuse") count like others.
bool ReadsOneBank(const SassInstruction& at) {
  constexpr uint32_t kRegistersOnly = 1;
  if (at.code() != kFfma && at.code() != kDfma && at.code() != kHfma2) return false;
  if (at.form() != kRegistersOnly) return false;
  const uint32_t a = at.source_a(), b = at.source_b(), c = at.high_register();
  if (a == b || b == c || a == c) return false;
  if (a == kZeroRegister || b == kZeroRegister || c == kZeroRegister) return false;
  return a % 2 == b % 2 && b % 2 == c % 2;
}

std::string NameOf(const SassInstruction& at) {
  if (at.code() != kMufu) return kNames[at.code()];
  if (at.mufu() < kMufuNames.size()) return kMufuNames[at.mufu()];
  return fmt::format("MUFU.{}", at.mufu());
}

// Subtracts `count` from a counter, but not below 0.
void TakeOff(FloatCounts& counts, std::string_view name, uint32_t count) {
  const auto at = counts.find(name);
  if (at == counts.end()) return;
  at->second -= std::min(at->second, count);
  if (at->second == 0) counts.erase(at);
}

SassFunction Count(std::string_view name, Bytes code) {
  SassFunction function{.name = std::string(name)};
  std::array<uint32_t, 512> plain{};
  std::array<uint32_t, 16> mufu{};
  uint32_t divisions = 0, wide_divisions = 0;
  for (size_t at = 0; at + kInstructionBytes <= code.size(); at += kInstructionBytes) {
    const SassInstruction instruction{*fatbin::ReadAt<uint64_t>(code, at),
                                  *fatbin::ReadAt<uint64_t>(code, at + 8)};
    ++function.instructions;
    if (ReadsOneBank(instruction)) ++function.bank_conflicts;
    if (kNames[instruction.code()] == nullptr || LoadsConstant(instruction)) continue;
    if (BeginsIntegerDivision(instruction)) {
      ++(instruction.code() == kI2f ? divisions : wide_divisions);
    } else if (instruction.code() == kMufu) {
      ++mufu[instruction.mufu()];
    } else {
      ++plain[instruction.code()];
    }
  }
  for (uint32_t i = 0; i < plain.size(); ++i) {
    if (plain[i] != 0) function.floats[kNames[i]] += plain[i];
  }
  for (uint32_t i = 0; i < mufu.size(); ++i) {
    const SassInstruction instruction{kMufu, uint64_t{i} << 10};
    if (mufu[i] != 0) function.floats[NameOf(instruction)] += mufu[i];
  }
  TakeOff(function.floats, kMufuNames[kMufuRcp], divisions + wide_divisions);
  TakeOff(function.floats, kNames[kF2i], divisions);
  TakeOff(function.floats, kNames[kF2i64], wide_divisions);
  return function;
}

}  // namespace

Result<std::vector<SassFunction>> CountFloats(Bytes cubin) {
  const Result<fatbin::Cubin> facts = fatbin::ReadCubin(cubin);
  if (!facts) return facts.error();
  if (facts->arch < 70) {
    return MakeError(ErrorCode::kUnsupported,
                     fmt::format("machine code of sm_{} is not understood", facts->arch));
  }
  const Result<fatbin::ElfFile> elf = fatbin::ElfFile::Open(cubin);
  if (!elf) return elf.error();
  std::vector<SassFunction> functions;
  for (const fatbin::ElfSection& section : elf->sections()) {
    if (!section.name.starts_with(kText)) continue;
    functions.push_back(Count(section.name.substr(kText.size()), section.contents));
  }
  return functions;
}

std::string FloatDifference(const FloatCounts& original, const FloatCounts& variant) {
  std::string text;
  const auto count = [](const FloatCounts& counts, const std::string& name) {
    const auto at = counts.find(name);
    return at == counts.end() ? 0 : at->second;
  };
  FloatCounts all = original;
  all.insert(variant.begin(), variant.end());
  for (const auto& [name, ignored] : all) {
    const uint32_t before = count(original, name), after = count(variant, name);
    if (before == after) continue;
    text += fmt::format("{}{} {} (original {})", text.empty() ? "" : ", ", name, after, before);
  }
  return text;
}

}  // namespace cupola::build
