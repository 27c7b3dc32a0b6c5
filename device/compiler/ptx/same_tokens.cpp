#include "device/compiler/ptx/same_tokens.h"

#include "device/compiler/ptx/lexer.h"
#include "device/compiler/ptx/literal.h"

namespace cupola::ptx {
namespace {

bool IsSame(const Token& a, const Token& b) {
  if (a.kind != b.kind || a.mark != b.mark || a.kind == Token::Kind::kBad) return false;
  if (a.text == b.text) return true;
  if (a.kind != Token::Kind::kInteger) return false;
  const std::optional<ConstantValue> x = IntegerLiteral(a.text), y = IntegerLiteral(b.text);
  return x && y && x->bits == y->bits && x->is_unsigned == y->is_unsigned;
}

std::string Describe(const Token& token) {
  if (token.kind == Token::Kind::kBad) return token.problem;
  std::string text = token.kind == Token::Kind::kEnd ? "the end of the text"
                                                     : "'" + std::string(token.text) + "'";
  if (!token.mark.empty()) text += " after '// " + std::string(token.mark) + "'";
  return text;
}

}  // namespace

std::optional<TokenDifference> FirstTokenDifference(std::string_view first,
                                                    std::string_view second) {
  while (!first.empty() && first.back() == '\0') first.remove_suffix(1);
  Lexer a(first), b(second);
  for (; IsSame(a.Peek(), b.Peek()); a.Advance(), b.Advance()) {
    if (a.Peek().kind == Token::Kind::kEnd) return std::nullopt;
  }
  return TokenDifference{a.Peek().pos, b.Peek().pos, Describe(a.Peek()), Describe(b.Peek())};
}

}  // namespace cupola::ptx
