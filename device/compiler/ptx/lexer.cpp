#include "device/compiler/ptx/lexer.h"

#include <array>

namespace cupola::ptx {
namespace {

enum : uint8_t { kBlank = 1, kStart = 2, kFollow = 4, kDigit = 8, kHex = 16 };

constexpr std::array<uint8_t, 256> MakeClasses() {
  std::array<uint8_t, 256> classes{};
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = kStart | kFollow;
  for (int c = 'A'; c <= 'Z'; ++c) classes[c] = kStart | kFollow;
  for (int c = '0'; c <= '9'; ++c) classes[c] = kFollow | kDigit | kHex;
  for (int c = 'a'; c <= 'f'; ++c) classes[c] |= kHex;
  for (int c = 'A'; c <= 'F'; ++c) classes[c] |= kHex;
  classes['_'] = kStart | kFollow;
  classes['$'] = kStart | kFollow;
  classes['%'] = kStart;
  for (char c : {' ', '\t', '\r', '\n', '\v', '\f'}) classes[static_cast<uint8_t>(c)] = kBlank;
  return classes;
}

constexpr std::array<uint8_t, 256> kClasses = MakeClasses();

bool Is(char c, uint8_t what) { return (kClasses[static_cast<uint8_t>(c)] & what) != 0; }

}  // namespace

void Lexer::Advance() {
  if (token_.kind == Token::Kind::kBad) return;
  last_end_ = token_.text.data() ? token_.text.data() + token_.text.size() : text_.data();
  token_.spaced = false;
  token_.starts_line = cursor_ == 0;
  token_.text = text_.substr(cursor_, 0);
  token_.mark = {};
  if (!SkipBlanks()) return;
  token_.pos = Here();
  if (cursor_ >= text_.size()) return Take(Token::Kind::kEnd, 0);
  const char c = text_[cursor_];
  if (Is(c, kDigit)) return TakeNumber();
  if (Is(c, kStart)) {
    size_t end = cursor_ + 1;
    while (Is(At(end), kFollow)) ++end;
    // "%" alone is the remainder operator of constant expressions.
    if (c == '%' && end == cursor_ + 1) return TakePunctuation();
    return Take(Token::Kind::kIdentifier, end - cursor_);
  }
  if (c == '.' && Is(At(cursor_ + 1), kDigit) && TakeFraction()) return;
  if (c == '.' && Is(At(cursor_ + 1), kFollow)) return TakeDotWord();
  if (c == '"') return TakeString();
  if (c == '#' && token_.starts_line) {
    size_t end = text_.find('\n', cursor_);
    if (end == std::string_view::npos) end = text_.size();
    return Take(Token::Kind::kHashLine, end - cursor_);
  }
  TakePunctuation();
}

bool Lexer::SkipBlanks() {
  for (;;) {
    const char c = At(cursor_);
    if (Is(c, kBlank)) {
      if (c == '\n') {
        ++line_;
        line_start_ = cursor_ + 1;
        token_.starts_line = true;
      }
      ++cursor_;
    } else if (c == '/' && At(cursor_ + 1) == '/') {
      SkipLineComment();
    } else if (c == '/' && At(cursor_ + 1) == '*') {
      if (!SkipBlockComment()) return false;
    } else {
      return true;
    }
    token_.spaced = true;
  }
}

void Lexer::SkipLineComment() {
  constexpr std::string_view kMark = "callseq ";
  const size_t begin = cursor_ + 2;
  const size_t end = text_.find('\n', cursor_);
  cursor_ = end == std::string_view::npos ? text_.size() : end;
  std::string_view comment = text_.substr(begin, cursor_ - begin);
  while (!comment.empty() && Is(comment.front(), kBlank)) comment.remove_prefix(1);
  while (!comment.empty() && Is(comment.back(), kBlank)) comment.remove_suffix(1);
  if (token_.mark.empty() && comment.starts_with(kMark)) token_.mark = comment;
}

bool Lexer::SkipBlockComment() {
  const size_t end = text_.find("*/", cursor_ + 2);
  if (end == std::string_view::npos) {
    token_.pos = Here();
    Bad("the comment that starts here is never closed with '*/'");
    return false;
  }
  for (; cursor_ < end + 2; ++cursor_) {
    if (text_[cursor_] != '\n') continue;
    ++line_;
    line_start_ = cursor_ + 1;
    token_.starts_line = true;
  }
  return true;
}

void Lexer::Take(Token::Kind kind, size_t length) {
  token_.kind = kind;
  token_.text = text_.substr(cursor_, length);
  cursor_ += length;
}

void Lexer::Bad(const char* problem) {
  token_.problem = problem;
  Take(Token::Kind::kBad, cursor_ < text_.size() ? 1 : 0);
}

void Lexer::TakeDotWord() {
  size_t end = cursor_ + 1;
  for (;;) {
    while (Is(At(end), kFollow)) ++end;
    if (At(end) != ':' || At(end + 1) != ':' || !Is(At(end + 2), kFollow)) break;
    end += 2;
  }
  Take(Token::Kind::kDotWord, end - cursor_);
}

// [4.4]: 0[fF] and eight, 0[dD] and sixteen hexadecimal digits; 0x, 0b, octal and decimal integers
// with an optional U; decimal floats as in C.
void Lexer::TakeNumber() {
  const char second = At(cursor_ + 1);
  if (At(cursor_) == '0' && (second == 'f' || second == 'F' || second == 'd' || second == 'D')) {
    const size_t digits = (second == 'f' || second == 'F') ? 8 : 16;
    size_t end = cursor_ + 2;
    while (Is(At(end), kFollow)) ++end;
    for (size_t i = cursor_ + 2; i < end; ++i) {
      if (!Is(At(i), kHex)) return Bad("a float literal holds a character that is no hex digit");
    }
    if (end - cursor_ != digits + 2) {
      return Bad(digits == 8 ? "a 0f literal needs exactly 8 hex digits"
                             : "a 0d literal needs exactly 16 hex digits");
    }
    return Take(Token::Kind::kFloat, end - cursor_);
  }
  size_t end = cursor_;
  if (At(cursor_) == '0' && (second == 'x' || second == 'X' || second == 'b' || second == 'B')) {
    end += 2;
    while (Is(At(end), kFollow)) ++end;
    return Take(Token::Kind::kInteger, end - cursor_);
  }
  while (Is(At(end), kDigit)) ++end;
  Token::Kind kind = Token::Kind::kInteger;
  if (At(end) == '.') {
    kind = Token::Kind::kFloat;
    ++end;
    while (Is(At(end), kDigit)) ++end;
  }
  if (At(end) == 'e' || At(end) == 'E') {
    const size_t sign = At(end + 1) == '+' || At(end + 1) == '-';
    if (Is(At(end + 1 + sign), kDigit)) {
      kind = Token::Kind::kFloat;
      end += 1 + sign;
      while (Is(At(end), kDigit)) ++end;
    }
  }
  while (Is(At(end), kFollow)) ++end;  // a U, or what makes the literal malformed
  Take(kind, end - cursor_);
}

// ".5" and ".5e-3" are floats where the token before is no word and nothing sticks to them (as in
// ".2d").
bool Lexer::TakeFraction() {
  // token_ is still the token before.
  if (token_.kind == Token::Kind::kIdentifier || token_.kind == Token::Kind::kDotWord) return false;
  size_t end = cursor_ + 1;
  while (Is(At(end), kDigit)) ++end;
  if (At(end) == 'e' || At(end) == 'E') {
    const size_t sign = At(end + 1) == '+' || At(end + 1) == '-';
    end += 1 + sign;
    if (!Is(At(end), kDigit)) return false;
    while (Is(At(end), kDigit)) ++end;
  }
  if (Is(At(end), kFollow) || At(end) == ':') return false;
  Take(Token::Kind::kFloat, end - cursor_);
  return true;
}

void Lexer::TakeString() {
  size_t end = cursor_ + 1;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
    end += text_[end] == '\\' && end + 1 < text_.size() && text_[end + 1] != '\n' ? 2 : 1;
  }
  if (At(end) != '"') return Bad("the string that starts here is not closed on its line");
  Take(Token::Kind::kString, end + 1 - cursor_);
}

void Lexer::TakePunctuation() {
  const char c = text_[cursor_];
  const char next = At(cursor_ + 1);
  static constexpr std::string_view kPairs[] = {"<<", ">>", "&&", "||", "<=", ">=", "==", "!="};
  for (std::string_view pair : kPairs) {
    if (c == pair[0] && next == pair[1]) return Take(Token::Kind::kPunctuation, 2);
  }
  static constexpr std::string_view kSingles = "{}()[],;:+-*/%<>=!~&|^?@";
  if (kSingles.find(c) != std::string_view::npos) return Take(Token::Kind::kPunctuation, 1);
  if (c == '\0') return Bad("a NUL byte stands in the text");
  if (static_cast<uint8_t>(c) >= 0x80) return Bad("a byte that is not ASCII stands in the text");
  Bad("a character that PTX does not use");
}

std::string_view Lexer::TakeLine() {
  const size_t begin = static_cast<size_t>(token_.text.data() - text_.data());
  size_t end = text_.find('\n', begin);
  if (end == std::string_view::npos) end = text_.size();
  cursor_ = end;
  std::string_view line = text_.substr(begin, end - begin);
  while (!line.empty() && Is(line.back(), kBlank)) line.remove_suffix(1);
  token_.kind = Token::Kind::kPunctuation;
  token_.text = line;
  Advance();
  return line;
}

}  // namespace cupola::ptx
