// The Parser's functions for declarations of variables and parameters [5.4].
#include "device/compiler/ptx/parser.h"
#include "device/compiler/ptx/target.h"

namespace cupola::ptx {

bool IsLinking(std::string_view word) {
  return word == "visible" || word == "extern" || word == "weak" || word == "common";
}

std::optional<StateSpace> StateSpaceOf(std::string_view word) {
  word = word.substr(0, word.find("::"));
  if (word == "reg") return StateSpace::kReg;
  if (word == "sreg") return StateSpace::kSreg;
  if (word == "const") return StateSpace::kConst;
  if (word == "global") return StateSpace::kGlobal;
  if (word == "local") return StateSpace::kLocal;
  if (word == "param") return StateSpace::kParam;
  if (word == "shared") return StateSpace::kShared;
  if (word == "tex") return StateSpace::kTex;
  return std::nullopt;
}

bool Parser::ParseVariablePrefix(Variable& variable) {
  variable.pos = Peek().pos;
  while (Peek().IsDirective()) {
    if (!ParsePrefixWord(variable)) return false;
  }
  if (variable.type.empty() && !variable.qualifiers.empty()) {
    variable.type = std::move(variable.qualifiers.back());
    variable.qualifiers.pop_back();
  }
  return true;
}

bool Parser::ParsePrefixWord(Variable& variable) {
  const Token token = Peek();
  const std::string_view word = token.text.substr(1);
  if (word == "func" || word == "entry") return FailExpected("the name of a variable");
  Next();
  if (word == "align") {
    uint64_t align = 0;
    if (!ParseUnsigned(align, "a number of bytes after '.align'")) return false;
    (variable.is_pointer ? variable.pointee_align : variable.align) = static_cast<uint32_t>(align);
  } else if (word == "ptr") {
    variable.is_pointer = true;
  } else if (const std::optional<StateSpace> space = StateSpaceOf(word);
             space && word.find(':') == std::string_view::npos) {
    StateSpace& own = variable.is_pointer ? variable.pointee_space : variable.space;
    if (own != StateSpace::kNone) return FailSecond(token, "state space");
    own = *space;
  } else if (word == "v2" || word == "v4" || word == "v8") {
    variable.vector = static_cast<uint8_t>(word[1] - '0');
  } else if (IsTypeWord(word)) {
    if (!variable.type.empty()) return FailSecond(token, "type");
    variable.type = word;
  } else if (IsLinking(word)) {
    if (!variable.linking.empty()) return FailSecond(token, "linking directive");
    variable.linking = word;
  } else {
    if (TakeIf('(') && !SkipBalanced(")", token)) return false;
    variable.qualifiers.emplace_back(lexer_.SliceFrom(token).substr(1));
  }
  return true;
}

bool Parser::ParseDeclarator(Variable& variable) {
  variable.pos = Peek().pos;
  if (!ExpectName(variable.name, "the name of a variable")) return false;
  variable.has_name = variable.name != "_";
  if (TakeIf('<')) {
    uint64_t range = 0;
    if (!ParseUnsigned(range, "a number of registers after '<'", kNoComparison)) return false;
    if (range > UINT32_MAX) return Fail(variable.pos, "a range of more than 2^32 registers");
    variable.has_range = true;
    variable.range = static_cast<uint32_t>(range);
    if (!Expect('>', "after the number of registers")) return false;
  }
  while (TakeIf('[')) {
    uint64_t size = 0;
    if (!Peek().Is(']') && !ParseUnsigned(size, "an array size or ']'")) return false;
    variable.dims.push_back(size);
    if (!Expect(']', "after an array size")) return false;
  }
  return true;
}

bool Parser::ParseDeclaration(std::string linking, SourcePos pos,
                              std::vector<Variable>& variables) {
  Variable prefix;
  prefix.linking = std::move(linking);
  if (!ParseVariablePrefix(prefix)) return false;
  do {
    Variable variable = prefix;
    if (!ParseDeclarator(variable)) return false;
    if (TakeIf('=') && !ParseInitializer(variable.init.emplace(), 0)) return false;
    if (variables.empty()) variable.pos = pos;
    variable.joined = !variables.empty();
    variables.push_back(std::move(variable));
  } while (TakeIf(','));
  return Expect(';', "after the declaration of '" + variables.back().name + "'");
}

bool Parser::ParseInitializer(Initializer& initializer, int depth) {
  if (depth > kMaxDepth) return Fail(Peek().pos, "an initializer is nested more than 256 deep");
  if (Peek().Is('{')) return ParseAggregate(initializer, depth);
  const Lexer start = lexer_;
  const Outcome outcome = ParseScalarInitializer(initializer);
  if (outcome == Outcome::kDamaged) return false;
  const bool ends = Peek().Is(',') || Peek().Is(';') || Peek().Is('}');
  if (outcome == Outcome::kOk && ends) return true;
  lexer_ = start;
  initializer = Initializer{.kind = Initializer::Kind::kVerbatim};
  return TakeVerbatim(initializer.text);
}

bool Parser::ParseAggregate(Initializer& initializer, int depth) {
  const Token opener = Peek();
  Next();
  initializer.kind = Initializer::Kind::kAggregate;
  while (!TakeIf('}')) {
    if (!ParseInitializer(initializer.elements.emplace_back(), depth + 1)) return false;
    if (TakeIf(',')) continue;
    if (Peek().kind == Token::Kind::kEnd || Peek().Is(';')) return FailUnclosed(opener);
    if (!Peek().Is('}')) return FailExpected("',' or '}' in an initializer");
  }
  return true;
}

Parser::Outcome Parser::ParseScalarInitializer(Initializer& initializer) {
  const Token first = Peek();
  if (first.kind == Token::Kind::kIdentifier && first.text != "WARP_SZ") {
    initializer.kind = Initializer::Kind::kAddress;
    return ParseInitializerAddress(initializer);
  }
  if (first.Is('-') || first.Is('+')) {
    const Lexer start = lexer_;
    Next();
    if (Peek().kind != Token::Kind::kFloat) lexer_ = start;
  }
  if (Peek().kind == Token::Kind::kFloat) return ParseFloat(initializer, first);
  ConstantValue value;
  Outcome outcome = ParseExpression(value, 0, 0);
  if (outcome != Outcome::kOk) return outcome;
  if (!TakeIf('(')) {
    initializer.kind = Initializer::Kind::kInteger;
    initializer.integer = static_cast<int64_t>(value.bits);
    initializer.text = lexer_.SliceFrom(first);
    return Outcome::kOk;
  }
  initializer.kind = Initializer::Kind::kMaskedAddress;
  initializer.mask = value.bits;
  outcome = ParseInitializerAddress(initializer);
  if (outcome != Outcome::kOk) return outcome;
  return TakeIf(')') ? Outcome::kOk : Outcome::kOdd;
}

// name, name+4, generic(name), generic(name)+4.
Parser::Outcome Parser::ParseInitializerAddress(Initializer& initializer) {
  if (Peek().kind != Token::Kind::kIdentifier) return Outcome::kOdd;
  initializer.text = Peek().text;
  Next();
  if (initializer.text == "generic" && TakeIf('(')) {
    if (Peek().kind != Token::Kind::kIdentifier) return Outcome::kOdd;
    initializer.generic = true;
    initializer.text = Peek().text;
    Next();
    if (!TakeIf(')')) return Outcome::kOdd;
  }
  if (!Peek().Is('+') && !Peek().Is('-')) return Outcome::kOk;
  std::string spelling;
  const Outcome outcome = ParseOffset(initializer.integer, spelling);
  if (!spelling.empty()) {
    initializer.elements.push_back(
        {.kind = Initializer::Kind::kVerbatim, .text = std::move(spelling)});
  }
  return outcome;
}

}  // namespace cupola::ptx
