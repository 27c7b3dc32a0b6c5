// The Parser's functions for operands [6].
#include <algorithm>
#include <charconv>

#include "device/compiler/ptx/parser.h"

namespace cupola::ptx {
namespace {

bool IsNumber(const Token& token) {
  return token.kind == Token::Kind::kInteger || token.kind == Token::Kind::kFloat;
}

/// Whether the token is a word or a literal. Two of these never stand side by side.
bool IsValue(const Token& token) {
  return IsNumber(token) || token.kind == Token::Kind::kIdentifier ||
         token.kind == Token::Kind::kString;
}

bool IsOpener(const Token& token) { return token.Is('{') || token.Is('[') || token.Is('('); }
bool IsCloser(const Token& token) { return token.Is('}') || token.Is(']') || token.Is(')'); }

bool EndsOperand(const Token& token) {
  return token.Is(',') || token.Is(';') || token.kind == Token::Kind::kEnd || IsCloser(token);
}

/// Whether the tokens are those that the writer makes of an offset: "+8", "+-8", "+ 8".
bool IsPlusNumber(std::string_view text, int64_t number) {
  char digits[24];
  const char* end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  if (!text.starts_with('+')) return false;
  text.remove_prefix(std::min(text.find_first_not_of(" \t", 1), text.size()));
  return text == std::string_view(digits, static_cast<size_t>(end - digits));
}

char CloserOf(const Token& opener) { return opener.Is('{') ? '}' : opener.Is('[') ? ']' : ')'; }

}  // namespace

bool Parser::ParseOperand(Operand& operand, bool call_list, int depth) {
  if (EndsOperand(Peek())) return FailExpected("an operand");
  const Lexer start = lexer_;
  const Outcome outcome = ParseOperandStrictly(operand, call_list, depth);
  if (outcome != Outcome::kOdd) return outcome == Outcome::kOk;
  lexer_ = start;
  operand = Operand{.kind = Operand::Kind::kVerbatim};
  return TakeVerbatim(operand.text);
}

Parser::Outcome Parser::ParseOperandStrictly(Operand& operand, bool call_list, int depth) {
  Outcome outcome = ParsePrimary(operand, call_list, depth);
  if (outcome != Outcome::kOk) return outcome;
  if (TakeIf('|')) {
    Operand pair{.kind = Operand::Kind::kPair};
    pair.children.push_back(std::move(operand));
    outcome = ParsePrimary(pair.children.emplace_back(), false, depth);
    if (outcome != Outcome::kOk) return outcome;
    operand = std::move(pair);
  }
  return EndsOperand(Peek()) ? Outcome::kOk : Outcome::kOdd;
}

Parser::Outcome Parser::ParsePrimary(Operand& operand, bool call_list, int depth) {
  const Token first = Peek();
  if (depth > kMaxDepth) {
    Fail(first.pos, "an operand is nested more than 256 deep");
    return Outcome::kDamaged;
  }
  if (first.kind == Token::Kind::kBad) {
    FailExpected("an operand");
    return Outcome::kDamaged;
  }
  if (first.Is('[')) return ParseAddress(operand, depth);
  if (first.Is('{') || (first.Is('(') && call_list)) {
    Next();
    operand.kind = first.Is('{') ? Operand::Kind::kVector : Operand::Kind::kList;
    return ParseChildren(operand, CloserOf(first), first, depth) ? Outcome::kOk : Outcome::kDamaged;
  }
  if (first.kind == Token::Kind::kIdentifier && first.text != "WARP_SZ") return ParseName(operand);
  const bool minus = first.Is('-');
  if (first.Is('!') || minus) {
    const Lexer start = lexer_;
    Next();
    if (!minus && Peek().kind == Token::Kind::kIdentifier && Peek().text != "WARP_SZ") {
      operand.negated = true;
      return ParseName(operand);
    }
    if (Peek().kind != Token::Kind::kFloat) lexer_ = start;
  }
  if (Peek().kind == Token::Kind::kFloat) return ParseFloat(operand, first);
  ConstantValue value;
  const Outcome outcome = ParseExpression(value, 0, depth);
  if (outcome != Outcome::kOk) return outcome;
  operand.kind = Operand::Kind::kInteger;
  operand.integer = static_cast<int64_t>(value.bits);
  operand.text = lexer_.SliceFrom(first);
  return Outcome::kOk;
}

bool Parser::ParseChildren(Operand& operand, char closer, const Token& opener, int depth) {
  if (TakeIf(closer)) return true;
  for (;;) {
    if (!ParseOperand(operand.children.emplace_back(), false, depth + 1)) return false;
    if (TakeIf(closer)) return true;
    if (Peek().kind == Token::Kind::kEnd) return FailUnclosed(opener);
    if (!TakeIf(',')) {
      return FailExpected("',' or '" + std::string(1, closer) + "' in a list of operands");
    }
  }
}

// [base], [base + constant], [base, {coordinates}...] [6.4.1, 9.7.10].
Parser::Outcome Parser::ParseAddress(Operand& operand, int depth) {
  const Token opener = Peek();
  Next();
  operand.kind = Operand::Kind::kAddress;
  Operand& base = operand.children.emplace_back();
  if (Peek().kind == Token::Kind::kIdentifier && Peek().text != "WARP_SZ") {
    Outcome outcome = ParseName(base);
    if (outcome != Outcome::kOk) return outcome;
    if (base.kind == Operand::Kind::kOffset) {
      operand.integer = base.integer;
      if (!base.children.empty()) operand.text = std::move(base.children[0].text);
      base = Operand::Name(std::move(base.text));
    } else if (Peek().Is('+') || Peek().Is('-')) {
      outcome = ParseOffset(operand.integer, operand.text);
      if (outcome != Outcome::kOk) return outcome;
    }
  } else {
    const Token first = Peek();
    ConstantValue value;
    const Outcome outcome = ParseExpression(value, 0, depth);
    if (outcome != Outcome::kOk) return outcome;
    base.kind = Operand::Kind::kInteger;
    base.integer = static_cast<int64_t>(value.bits);
    base.text = lexer_.SliceFrom(first);
  }
  while (TakeIf(',')) {
    if (!ParseOperand(operand.children.emplace_back(), false, depth + 1)) return Outcome::kDamaged;
  }
  if (TakeIf(']')) return Outcome::kOk;
  if (Peek().kind == Token::Kind::kEnd || Peek().Is(';')) {
    FailUnclosed(opener);
    return Outcome::kDamaged;
  }
  return Outcome::kOdd;
}

// A name with what may stick to it: ".x" of a vector or special register, "[3]", "+4".
Parser::Outcome Parser::ParseName(Operand& operand) {
  const Token first = Peek();
  operand.kind = Operand::Kind::kName;
  Next();
  while (Peek().kind == Token::Kind::kDotWord && !Peek().spaced) Next();
  operand.text = lexer_.SliceFrom(first);
  if (Peek().Is('[')) {
    Next();
    ConstantValue index;
    const Outcome outcome = ParseExpression(index, 0, 0);
    if (outcome != Outcome::kOk) return outcome;
    operand.kind = Operand::Kind::kIndexed;
    operand.integer = static_cast<int64_t>(index.bits);
    return TakeIf(']') ? Outcome::kOk : Outcome::kOdd;
  }
  if (Peek().Is('+') || Peek().Is('-')) {
    operand.kind = Operand::Kind::kOffset;
    std::string spelling;
    const Outcome outcome = ParseOffset(operand.integer, spelling);
    if (!spelling.empty()) {
      operand.children.push_back({.kind = Operand::Kind::kVerbatim, .text = std::move(spelling)});
    }
    return outcome;
  }
  return Outcome::kOk;
}

// "+ 4", "-4", "+-4", "+(1 << 3)", "+4+8": terms that add up to a byte offset. The spelling is kept
// where the writer would give another one: with -g, ptxas makes other code of [x+0] than of [x].
Parser::Outcome Parser::ParseOffset(int64_t& offset, std::string& spelling) {
  constexpr int kAboveAddition = 11;
  const Token first = Peek();
  uint64_t sum = 0;
  while (Peek().Is('+') || Peek().Is('-')) {
    const bool minus = Peek().Is('-');
    Next();
    ConstantValue term;
    const Outcome outcome = ParseExpression(term, kAboveAddition, 0);
    if (outcome != Outcome::kOk) return outcome;
    sum = minus ? sum - term.bits : sum + term.bits;
  }
  offset = static_cast<int64_t>(sum);
  const std::string_view written = lexer_.SliceFrom(first);
  if (offset == 0 || !IsPlusNumber(written, offset)) spelling = written;
  return Outcome::kOk;
}

// Text that no rule describes, up to the ',' ';' or closing bracket that ends it.
bool Parser::TakeVerbatim(std::string& text) {
  if (EndsOperand(Peek())) return FailExpected("a value");
  const Token first = Peek();
  std::vector<Token> open;
  bool after_value = false;
  while (!open.empty() || !EndsOperand(Peek())) {
    const Token token = Peek();
    if (token.kind == Token::Kind::kBad || token.kind == Token::Kind::kHashLine) {
      return FailExpected("an operand");
    }
    if (token.kind == Token::Kind::kEnd || token.Is(';')) return FailUnclosed(open.back());
    if (after_value && IsValue(token)) return FailExpected("',' or ';' after an operand");
    if (IsOpener(token)) {
      open.push_back(token);
    } else if (IsCloser(token)) {
      if (!token.Is(CloserOf(open.back()))) return FailUnclosed(open.back());
      open.pop_back();
    }
    after_value = IsValue(token);
    Next();
  }
  text = lexer_.SliceFrom(first);
  if (Peek().kind == Token::Kind::kEnd) return FailExpected("';' after an operand");
  return true;
}

}  // namespace cupola::ptx
