// The Parser's functions for statements of function bodies [4.3].
#include "device/compiler/ptx/parser.h"

namespace cupola::ptx {
namespace {

bool IsHandledAsDeclaration(std::string_view word) {
  return StateSpaceOf(word).has_value() || IsLinking(word) || word == "attribute";
}

}  // namespace

// The cursor stands on '{'.
bool Parser::ParseBlock(Block& block, int depth) {
  const Token opener = Peek();
  if (depth > kMaxDepth) return Fail(opener.pos, "blocks are nested more than 256 deep");
  Next();
  block.open_mark = Peek().mark;
  while (!TakeIf('}')) {
    if (Peek().kind == Token::Kind::kEnd) return FailUnclosed(opener);
    if (!ParseStatement(block, depth)) return false;
  }
  block.close_mark = Peek().mark;
  return true;
}

bool Parser::ParseStatement(Block& block, int depth) {
  const Token& token = Peek();
  if (token.kind == Token::Kind::kIdentifier) {
    Lexer ahead = lexer_;
    ahead.Advance();
    return ahead.Peek().Is(':') ? ParseLabelled(block) : ParseInstruction(block);
  }
  if (token.IsDirective()) return ParseDottedStatement(block);
  if (token.Is('{')) {
    return ParseBlock(block.statements.emplace_back().node.emplace<Block>(), depth + 1);
  }
  if (token.Is('@')) {
    Lexer ahead = lexer_;
    ahead.Advance();
    if (!ahead.Peek().Is('@')) return ParseInstruction(block);
  }
  if (token.Is('@') || token.kind == Token::Kind::kHashLine) {
    return ParseDirective(block.statements.emplace_back().node.emplace<Directive>(), false);
  }
  if (TakeIf(';')) return true;  // an empty statement, which inline assembly leaves behind
  return FailExpected("an instruction, a label, a directive or '}'");
}

bool Parser::ParseLabelled(Block& block) {
  Label label{std::string(Peek().text), Peek().pos};
  Next();
  Next();
  const Token token = Peek();
  if (token.IsDot("branchtargets") || token.IsDot("calltargets")) {
    return ParseTargetList({std::move(label.name), token.IsDot("calltargets"), {}, label.pos},
                           block);
  }
  if (token.IsDot("callprototype")) {
    return ParseCallPrototype({.label = std::move(label.name), .pos = label.pos}, block);
  }
  block.statements.push_back({std::move(label)});
  return true;
}

bool Parser::ParseTargetList(TargetList list, Block& block) {
  Next();
  do {
    if (!ExpectName(list.targets.emplace_back(), "a name in the list of targets")) return false;
  } while (TakeIf(','));
  const bool good = Expect(';', "after the targets of '" + list.label + "'");
  block.statements.push_back({std::move(list)});
  return good;
}

// .callprototype [(returns)] _ [(parameters)] attributes ; [11.2.4]
bool Parser::ParseCallPrototype(CallPrototype prototype, Block& block) {
  Next();
  prototype.has_returns_list = Peek().Is('(');
  if (Peek().Is('(') && !ParseParameters(prototype.returns, "returned values")) return false;
  std::string name;
  if (!ExpectName(name, "'_' in a '.callprototype'")) return false;
  prototype.has_params_list = Peek().Is('(');
  if (Peek().Is('(') && !ParseParameters(prototype.params, "parameters")) return false;
  while (Peek().IsDirective()) {
    Directive attribute;
    if (!ParseDirective(attribute, true)) return false;
    prototype.attributes.push_back(attribute.text.substr(1));
  }
  const bool good = Expect(';', "after the prototype '" + prototype.label + "'");
  block.statements.push_back({std::move(prototype)});
  return good;
}

bool Parser::ParseDottedStatement(Block& block) {
  const Token first = Peek();
  if (first.IsDot("branchtargets") || first.IsDot("calltargets") || first.IsDot("callprototype")) {
    return FailExpected("a label and ':' right before this");
  }
  if (!IsHandledAsDeclaration(first.text.substr(1))) {
    return ParseDirective(block.statements.emplace_back().node.emplace<Directive>(), false);
  }
  std::vector<Variable> variables;
  if (!ParseDeclaration("", first.pos, variables)) return false;
  for (Variable& variable : variables) block.statements.push_back({std::move(variable)});
  return true;
}

bool Parser::ParseInstruction(Block& block) {
  Instruction& instruction = block.statements.emplace_back().node.emplace<Instruction>();
  instruction.pos = Peek().pos;
  if (TakeIf('@')) {
    Guard& guard = instruction.guard.emplace();
    guard.negated = TakeIf('!');
    if (!ExpectName(guard.predicate, "a predicate after '@'")) return false;
  }
  if (!ExpectName(instruction.opcode, "an instruction")) return false;
  while (Peek().kind == Token::Kind::kDotWord) {
    instruction.modifiers.emplace_back(Peek().text.substr(1));
    Next();
  }
  if (TakeIf(';')) return true;
  const bool is_call = instruction.opcode == "call";
  for (;;) {
    if (!ParseOperand(instruction.operands.emplace_back(), is_call, 0)) return false;
    if (TakeIf(';')) return true;
    if (!TakeIf(',')) {
      return FailExpected("',' or ';' after an operand of '" + instruction.opcode + "'");
    }
  }
}

}  // namespace cupola::ptx
