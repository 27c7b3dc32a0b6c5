// The tokens of PTX text [4]. Internal to this folder. A Lexer is a cursor over text that it does
// not own: copy it to look ahead, and assign the copy back to return. One thread uses a Lexer.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

struct Token {
  enum class Kind : uint8_t {
    kEnd,
    kIdentifier,  ///< "add", "%r1", "$L__BB0_1", "_"
    kDotWord,     ///< ".global", ".shared::cta", ".2d": a dot and the word stuck to it
    kInteger,     ///< 12, 0x1fU, 017, 0b101
    kFloat,       ///< 0f3F800000, 0d..., 1.5, 1e3
    kString,      ///< "nounroll", with its quotes
    kPunctuation, ///< one or two characters: { } ( ) [ ] , ; : + - << && ...
    kHashLine,  ///< a preprocessor line, from '#' to the end of the line
    kBad,       ///< not a token: `problem` says why
  };
  Kind kind = Kind::kEnd;
  bool spaced = false;      ///< white space or a comment stands before the token
  bool starts_line = false; ///< the token is the first of its line
  std::string_view text;  ///< the spelling, a slice of the source
  std::string_view mark;  ///< "callseq 0, 0" of the first such comment before the token, or empty
  SourcePos pos;
  const char* problem = nullptr;  ///< why a kBad token is none

  bool Is(std::string_view punctuation) const {
    return kind == Kind::kPunctuation && text == punctuation;
  }
  bool Is(char punctuation) const {
    return kind == Kind::kPunctuation && text.size() == 1 && text[0] == punctuation;
  }
  /// Whether the word may open a declaration, directive or attribute. ".2d" may not: it can only be
  /// the continuation of an instruction or a number.
  bool IsDirective() const {
    return kind == Kind::kDotWord && (text[1] < '0' || text[1] > '9');
  }
  bool IsDot(std::string_view word) const {
    return kind == Kind::kDotWord && text.substr(1) == word;
  }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { Advance(); }

  /// The token under the cursor; kEnd at the end of the text and ever after.
  const Token& Peek() const { return token_; }
  /// Moves on to the next token. The cursor never passes a kBad token: the text ends there.
  void Advance();
  /// Skips the rest of the line on which the current token stands. Returns the text from the start
  /// of that token to the end of the line, without trailing blanks.
  std::string_view TakeLine();
  /// The text between a token's start and the end of the token that the cursor passed last.
  std::string_view SliceFrom(const Token& first) const {
    const char* begin = first.text.data();
    return {begin, static_cast<size_t>(last_end_ - begin)};
  }

 private:
  bool SkipBlanks();
  void SkipLineComment();
  bool TakeFraction();
  bool SkipBlockComment();
  void Take(Token::Kind kind, size_t length);
  void TakeDotWord();
  void TakeNumber();
  void TakeString();
  void TakePunctuation();
  void Bad(const char* problem);
  char At(size_t offset) const {
    return offset < text_.size() ? text_[offset] : '\0';
  }
  SourcePos Here() const {
    return {line_, static_cast<uint32_t>(cursor_ - line_start_ + 1)};
  }

  std::string_view text_;
  size_t cursor_ = 0;
  size_t line_start_ = 0;
  uint32_t line_ = 1;
  const char* last_end_ = nullptr;
  Token token_;
};

}  // namespace cupola::ptx
