// Constant expressions [4.4.5], evaluated by precedence climbing.
#include "device/compiler/ptx/parser.h"

namespace cupola::ptx {
namespace {

/// The precedence of a binary operator, as in C; 0 for other tokens. The conditional operator has
/// level 1.
int Precedence(const Token& token) {
  if (token.kind != Token::Kind::kPunctuation) return 0;
  struct Level {
    std::string_view op;
    int precedence;
  };
  static constexpr Level kLevels[] = {
      {"||", 2}, {"&&", 3}, {"|", 4},  {"^", 5},  {"&", 6},   {"==", 7},  {"!=", 7},
      {"<", 8},  {">", 8},  {"<=", 8}, {">=", 8}, {"<<", 9},  {">>", 9},  {"+", 10},
      {"-", 10}, {"*", 11}, {"/", 11}, {"%", 11},
  };
  for (const Level& level : kLevels) {
    if (level.op == token.text) return level.precedence;
  }
  return 0;
}

constexpr uint64_t kWarpSize = 32;

}  // namespace

Parser::Outcome Parser::ParseExpression(ConstantValue& value, int min_precedence, int depth) {
  Outcome outcome = ParseUnary(value, depth);
  if (outcome != Outcome::kOk) return outcome;
  for (;;) {
    const Token op = Peek();
    if (min_precedence <= 1 && op.Is('?')) {
      ConstantValue yes, no;
      Next();
      if ((outcome = ParseExpression(yes, 1, depth + 1)) != Outcome::kOk) return outcome;
      if (!TakeIf(':')) return Outcome::kOdd;
      if ((outcome = ParseExpression(no, 1, depth + 1)) != Outcome::kOk) return outcome;
      const bool truth = value.bits != 0;
      value = {truth ? yes.bits : no.bits, yes.is_unsigned || no.is_unsigned};
      return Outcome::kOk;
    }
    const int precedence = Precedence(op);
    if (precedence == 0 || precedence < min_precedence) return Outcome::kOk;
    Next();
    ConstantValue right;
    if ((outcome = ParseExpression(right, precedence + 1, depth)) != Outcome::kOk) return outcome;
    const std::optional<ConstantValue> folded = Fold(op.text, value, right);
    if (!folded) return Outcome::kOdd;
    value = *folded;
  }
}

Parser::Outcome Parser::ParseUnary(ConstantValue& value, int depth) {
  const Token token = Peek();
  if (depth > kMaxDepth) {
    Fail(token.pos, "an expression is nested more than 256 deep");
    return Outcome::kDamaged;
  }
  if (token.kind == Token::Kind::kInteger) {
    const std::optional<ConstantValue> literal = IntegerLiteral(token.text);
    if (!literal) {
      Fail(token.pos, "malformed integer literal " + Describe(token) +
                          ", expected digits of one base that fit 64 bits, with at most a U");
      return Outcome::kDamaged;
    }
    value = *literal;
    Next();
    return Outcome::kOk;
  }
  if (token.kind == Token::Kind::kIdentifier && token.text == "WARP_SZ") {
    value = {kWarpSize, false};
    Next();
    return Outcome::kOk;
  }
  if (token.Is('(')) {
    Next();
    if (Peek().kind == Token::Kind::kDotWord) {
      const Token type = Peek();
      Next();
      if (!TakeIf(')') || (!type.IsDot("s64") && !type.IsDot("u64"))) return Outcome::kOdd;
      const Outcome outcome = ParseUnary(value, depth + 1);
      value.is_unsigned = type.IsDot("u64");
      return outcome;
    }
    const Outcome outcome = ParseExpression(value, 0, depth + 1);
    if (outcome != Outcome::kOk) return outcome;
    return TakeIf(')') ? Outcome::kOk : Outcome::kOdd;
  }
  if (!token.Is('-') && !token.Is('+') && !token.Is('~') && !token.Is('!')) return Outcome::kOdd;
  Next();
  const Outcome outcome = ParseUnary(value, depth + 1);
  if (outcome != Outcome::kOk) return outcome;
  if (token.Is('-')) value.bits = 0 - value.bits;
  if (token.Is('~')) value.bits = ~value.bits;
  if (token.Is('!')) value = {value.bits == 0 ? 1u : 0u, false};
  return Outcome::kOk;
}

}  // namespace cupola::ptx
