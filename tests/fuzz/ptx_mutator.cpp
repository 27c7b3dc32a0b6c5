// A mutator that knows what PTX is made of: besides libFuzzer's own changes of bytes it drops,
// doubles, swaps, moves and replaces tokens and lines, so that what comes out often still parses.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

constexpr std::string_view kWords[] = {
#define PTX_OPCODE(name, ...) #name,
#include "device/compiler/ptx/opcodes.def"
#undef PTX_OPCODE
    ".version", "9.0", ".target", "sm_90", ".address_size", "64", ".visible", ".extern", ".weak",
    ".entry", ".func", ".param", ".reg", ".shared", ".global", ".const", ".local", ".align", ".b8",
    ".b16", ".b32", ".b64", ".b128", ".u32", ".s32", ".s64", ".f32", ".f64", ".pred", ".v2", ".v4",
    ".loc", ".file", ".section", ".pragma", ".maxntid", ".reqntid", ".minnctapersm", ".noreturn",
    ".alias", ".branchtargets", ".callprototype", ".calltargets", ".attribute", ".managed",
    ".unified", ".ptr", "%r1", "%rd1", "%p1", "%f1", "%tid.x", "%r<9>", "@%p1", "@!%p1", "$L_1:",
    "$L_1", "_", "{", "}", "(", ")", "[", "]", "<", ">", ";", ",", ":", "|", "!", "+", "-", "*",
    "/", "%", "?", "=", "0x7f", "0b101", "017", "0f3F800000", "0d3FF0000000000000", "1.5e3", ".5",
    "18446744073709551615", "-1", "\"text\"", "// note\n", "/* note */", "generic(x)",
    "mask(0xFF00(x))", "\r\n", "\t", "\\"};

bool IsWordByte(uint8_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '%' || c == '$' || c == '.';
}

// A token: a run of word bytes, or one other byte.
struct Span {
  size_t begin, end;
};

Span TokenAt(const std::string& text, size_t at) {
  size_t begin = at, end = at + 1;
  if (!IsWordByte(static_cast<uint8_t>(text[at]))) return {begin, end};
  while (begin > 0 && IsWordByte(static_cast<uint8_t>(text[begin - 1]))) --begin;
  while (end < text.size() && IsWordByte(static_cast<uint8_t>(text[end]))) ++end;
  return {begin, end};
}

Span LineAt(const std::string& text, size_t at) {
  const size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const size_t after = text.find('\n', at);
  return {before == std::string::npos ? 0 : before + 1,
          after == std::string::npos ? text.size() : after + 1};
}

void Change(std::string& text, cupola::Prng& prng) {
  const auto below = [&](size_t bound) { return static_cast<size_t>(prng.Below(bound)); };
  const std::string_view word = kWords[below(std::size(kWords))];
  if (text.empty()) {
    text = word;
    return;
  }
  const size_t kind = below(8);
  const bool lines = kind >= 5;
  const auto pick = [&] {
    const size_t at = below(text.size());
    return lines ? LineAt(text, at) : TokenAt(text, at);
  };
  const Span one = pick();
  const std::string copy = text.substr(one.begin, one.end - one.begin);
  switch (kind) {
    case 0: text.replace(one.begin, one.end - one.begin, word); break;
    case 1: text.insert(one.begin, std::string(word) + " "); break;
    case 2:
    case 5: text.erase(one.begin, one.end - one.begin); break;
    case 3:
    case 6: text.insert(below(text.size() + 1), copy); break;
    default: {  // 4, 7: over another one
      const Span other = pick();
      text.replace(other.begin, other.end - other.begin, copy);
    }
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  cupola::Prng prng(seed);
  if (prng.Below(4) == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text(reinterpret_cast<const char*>(data), size);
  for (uint64_t changes = 1 + prng.Below(4); changes > 0; --changes) Change(text, prng);
  size = std::min(text.size(), most);
  std::memcpy(data, text.data(), size);
  return size;
}
