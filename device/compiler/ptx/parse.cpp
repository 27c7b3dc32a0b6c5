#include "device/compiler/ptx/parse.h"

#include "device/compiler/ptx/parser.h"

namespace cupola::ptx {

Result<Module> Parse(std::string_view text, std::string_view name) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  return Parser(text, name).ParseModule();
}

bool Parser::Fail(SourcePos pos, std::string message) {
  if (!error_) {
    error_ = MakeError(ErrorCode::kDamaged, std::move(message),
                       {.file = std::string(name_), .line = pos.line, .column = pos.column});
  }
  return false;
}

std::string Parser::Describe(const Token& token) {
  if (token.kind == Token::Kind::kEnd) return "the end of the text";
  constexpr size_t kShown = 40;
  std::string shown(token.text.substr(0, kShown));
  if (token.text.size() > kShown) shown += "...";
  return "'" + shown + "'";
}

bool Parser::FailExpected(std::string_view expected) {
  const Token& token = Peek();
  if (token.kind == Token::Kind::kBad) return Fail(token.pos, token.problem);
  return Fail(token.pos, "expected " + std::string(expected) + ", found " + Describe(token));
}

bool Parser::FailUnclosed(const Token& opener) {
  if (Peek().kind == Token::Kind::kBad) return Fail(Peek().pos, Peek().problem);
  return Fail(opener.pos, "the '" + std::string(opener.text) + "' here is never closed: found " +
                              Describe(Peek()) + " at line " + std::to_string(Peek().pos.line));
}

bool Parser::FailSecond(const Token& token, const char* what) {
  return Fail(token.pos, std::string("expected one ") + what + " in a declaration, found " +
                             Describe(token) + " after another");
}

bool Parser::Expect(char punctuation, std::string_view where) {
  if (TakeIf(punctuation)) return true;
  return FailExpected("'" + std::string(1, punctuation) + "' " + std::string(where));
}

bool Parser::ExpectName(std::string& name, std::string_view what) {
  if (Peek().kind != Token::Kind::kIdentifier) return FailExpected(what);
  name = Peek().text;
  Next();
  return true;
}

bool Parser::ParseUnsigned(uint64_t& value, const char* what, int min_precedence) {
  const Token first = Peek();
  ConstantValue constant;
  switch (ParseExpression(constant, min_precedence, 0)) {
    case Outcome::kOk:
      value = constant.bits;
      return true;
    case Outcome::kDamaged: return false;
    case Outcome::kOdd: break;
  }
  if (Peek().kind == Token::Kind::kBad) return FailExpected(what);
  const bool is_number = first.kind == Token::Kind::kInteger || first.Is('(');
  return Fail(first.pos, "expected " + std::string(what) + ", found " +
                             (is_number ? "an expression without a value" : Describe(first)));
}

}  // namespace cupola::ptx
