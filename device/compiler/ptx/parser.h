// The recursive-descent parser behind Parse(), which creates one Parser for each text. Internal to
// this folder. One thread uses a Parser.
//
// The parser tells two kinds of trouble apart. Text whose structure is broken (kDamaged) ends the
// parse: a Take* or Parse* function that returns false has set error_. Text whose structure holds
// but whose meaning is unknown (kOdd) is kept as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/compiler/ptx/ir.h"
#include "device/compiler/ptx/lexer.h"
#include "device/compiler/ptx/literal.h"

namespace cupola::ptx {

class Parser {
 public:
  Parser(std::string_view text, std::string_view name) : lexer_(text), name_(name) {}

  Result<Module> ParseModule();

 private:
  enum class Outcome : uint8_t { kOk, kOdd, kDamaged };
  /// The most scopes, braces and parentheses inside one another; more is refused, to bound the
  /// stack.
  static constexpr int kMaxDepth = 256;

  // parse_module.cpp
  bool ParseItem(Module& module);
  bool ParseHead(Module& module, bool& taken);
  bool ParseTargets(std::vector<std::string>& targets);
  bool ParseLinked(Module& module);
  bool ParseFunction(Module& module, std::string linking, SourcePos pos);
  bool ParseFunctionAttributes(Function& function);
  bool ParseParameters(std::vector<Variable>& parameters, const char* what);

  // parse_directive.cpp
  bool ParseDirective(Directive& directive, bool is_attribute);
  bool ParseSection(const Token& first);
  bool ParseLoc();
  bool ParseFile();
  bool ParsePragma();
  bool SkipBalanced(std::string_view closer, const Token& opener);
  bool SkipUnknown(const Token& first, bool is_attribute);

  // parse_variable.cpp
  /// Everything before the names: ".visible .global .align 4 .v2 .f32".
  bool ParseVariablePrefix(Variable& variable);
  bool ParsePrefixWord(Variable& variable);
  /// The name, and its range or dimensions.
  bool ParseDeclarator(Variable& variable);
  /// A whole declaration, up to its ';': one variable for each name.
  bool ParseDeclaration(std::string linking, SourcePos pos, std::vector<Variable>& variables);
  bool ParseInitializer(Initializer& initializer, int depth);
  bool ParseAggregate(Initializer& initializer, int depth);
  Outcome ParseScalarInitializer(Initializer& initializer);
  Outcome ParseInitializerAddress(Initializer& initializer);

  // parse_statement.cpp
  bool ParseBlock(Block& block, int depth);
  bool ParseStatement(Block& block, int depth);
  bool ParseLabelled(Block& block);
  bool ParseTargetList(TargetList list, Block& block);
  bool ParseCallPrototype(CallPrototype prototype, Block& block);
  bool ParseDottedStatement(Block& block);
  bool ParseInstruction(Block& block);

  // parse_operand.cpp
  bool ParseOperand(Operand& operand, bool call_list, int depth);
  Outcome ParseOperandStrictly(Operand& operand, bool call_list, int depth);
  Outcome ParsePrimary(Operand& operand, bool call_list, int depth);
  bool ParseChildren(Operand& operand, char closer, const Token& opener, int depth);
  Outcome ParseAddress(Operand& operand, int depth);
  Outcome ParseName(Operand& operand);
  Outcome ParseOffset(int64_t& offset, std::string& spelling);
  bool TakeVerbatim(std::string& text);

  // parse_expression.cpp
  /// A constant expression of literals, WARP_SZ, operators and casts only.
  Outcome ParseExpression(ConstantValue& value, int min_precedence, int depth);
  Outcome ParseUnary(ConstantValue& value, int depth);
  /// The least precedence for a number that a ">" may follow: no comparison is parsed.
  static constexpr int kNoComparison = 9;
  bool ParseUnsigned(uint64_t& value, const char* what, int min_precedence = 0);
  /// The float literal that is next, for an Operand or an Initializer. `first`: where its text begins, a sign included.
  template <typename AnyValue>
  Outcome ParseFloat(AnyValue& value, const Token& first);

  // parse.cpp
  const Token& Peek() const { return lexer_.Peek(); }
  void Next() { lexer_.Advance(); }
  bool TakeIf(char punctuation) {
    if (!Peek().Is(punctuation)) return false;
    Next();
    return true;
  }
  bool Expect(char punctuation, std::string_view where);
  bool ExpectName(std::string& name, std::string_view what);
  bool Fail(SourcePos pos, std::string message);
  bool FailExpected(std::string_view expected);
  bool FailUnclosed(const Token& opener);
  bool FailSecond(const Token& token, const char* what);
  static std::string Describe(const Token& token);

  Lexer lexer_;
  std::string_view name_;
  std::optional<Error> error_;
};

template <typename AnyValue>
Parser::Outcome Parser::ParseFloat(AnyValue& value, const Token& first) {
  const std::optional<FloatValue> literal = FloatLiteral(Peek().text);
  if (!literal) {
    Fail(Peek().pos, "malformed float literal " + Describe(Peek()) +
                         ", expected one such as 1.5, 0f3F800000 or 0d3FF0000000000000");
    return Outcome::kDamaged;
  }
  const uint64_t sign = first.Is('-') ? uint64_t{1} << (literal->width - 1) : 0;
  value.kind = AnyValue::Kind::kFloat;
  value.width = literal->width;
  value.integer = static_cast<int64_t>(literal->bits ^ sign);
  Next();
  value.text = lexer_.SliceFrom(first);
  return Outcome::kOk;
}

/// "visible", "extern", "weak", "common".
bool IsLinking(std::string_view word);
/// The space of ".global" or ".shared::cta"; std::nullopt for other words.
std::optional<StateSpace> StateSpaceOf(std::string_view word);

}  // namespace cupola::ptx
