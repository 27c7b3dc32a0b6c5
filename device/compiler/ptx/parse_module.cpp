// The Parser's functions for modules and functions [10, 11].
#include <algorithm>

#include "device/compiler/ptx/parser.h"

namespace cupola::ptx {
namespace {

/// Whether a dotted word opens an item of a module, and so cannot be an attribute of a function.
bool StartsItem(const Token& token) {
  if (token.kind != Token::Kind::kDotWord) return false;
  const std::string_view word = token.text.substr(1);
  return IsLinking(word) || word == "entry" || word == "func" || word == "section" ||
         word == "file" || word == "alias" || StateSpaceOf(word).has_value();
}

}  // namespace

Result<Module> Parser::ParseModule() {
  Module module;
  module.name = name_;
  while (Peek().kind != Token::Kind::kEnd) {
    if (!ParseItem(module)) return std::move(*error_);
  }
  return module;
}

bool Parser::ParseItem(Module& module) {
  const Token token = Peek();
  if (TakeIf(';')) return true;
  if (token.kind == Token::Kind::kHashLine) {
    return ParseDirective(std::get<Directive>(module.items.emplace_back(Directive{})), false);
  }
  if (token.Is('@')) {
    Lexer ahead = lexer_;
    ahead.Advance();
    if (!ahead.Peek().Is('@')) return FailExpected("a directive");
    return ParseDirective(std::get<Directive>(module.items.emplace_back(Directive{})), false);
  }
  if (!token.IsDirective()) {
    return FailExpected("a directive such as '.visible', '.entry' or '.global'");
  }
  bool taken = false;
  if (!ParseHead(module, taken)) return false;
  if (taken) return true;
  const std::string_view word = token.text.substr(1);
  if (IsLinking(word) || word == "entry" || word == "func" || word == "attribute" ||
      StateSpaceOf(word)) {
    return ParseLinked(module);
  }
  return ParseDirective(std::get<Directive>(module.items.emplace_back(Directive{})), false);
}

// .version 9.0, .target sm_90, debug and .address_size 64 [11.1]: the first of each, before
// everything else except lines of the preprocessor. Further down they are directives like others.
bool Parser::ParseHead(Module& module, bool& taken) {
  const auto is_hash_line = [](const auto& item) {
    const auto* directive = std::get_if<Directive>(&item);
    return directive != nullptr && directive->name == "#";
  };
  if (!std::all_of(module.items.begin(), module.items.end(), is_hash_line)) return true;
  const Token token = Peek();
  if (token.IsDot("version") && module.version_major == 0) {
    taken = true;
    Next();
    const Token number = Peek();
    const size_t dot = number.text.find('.');
    const auto major = IntegerLiteral(number.text.substr(0, dot));
    const auto minor = IntegerLiteral(
        dot == std::string_view::npos ? std::string_view() : number.text.substr(dot + 1));
    if (number.kind != Token::Kind::kFloat || !major || !minor || major->bits == 0 ||
        major->bits > UINT32_MAX || minor->bits > UINT32_MAX) {
      return FailExpected("a version such as 9.0");
    }
    module.version_major = static_cast<uint32_t>(major->bits);
    module.version_minor = static_cast<uint32_t>(minor->bits);
    Next();
  } else if (token.IsDot("target") && module.targets.empty()) {
    taken = true;
    Next();
    return ParseTargets(module.targets);
  } else if (token.IsDot("address_size") && !module.has_address_size) {
    taken = true;
    Next();
    uint64_t bits = 0;
    if (!ParseUnsigned(bits, "32 or 64 after '.address_size'")) return false;
    module.has_address_size = true;
    module.address_size = static_cast<uint32_t>(bits);
  }
  return true;
}

bool Parser::ParseTargets(std::vector<std::string>& targets) {
  do {
    if (!ExpectName(targets.emplace_back(), "a target such as sm_90")) return false;
  } while (TakeIf(','));
  return true;
}

// A function or a variable, with or without .visible, .extern, .weak or .common before it.
bool Parser::ParseLinked(Module& module) {
  const SourcePos pos = Peek().pos;
  std::string linking;
  if (IsLinking(Peek().text.substr(1))) {
    linking = Peek().text.substr(1);
    Next();
  }
  if (Peek().IsDot("entry") || Peek().IsDot("func")) {
    return ParseFunction(module, std::move(linking), pos);
  }
  if (!Peek().IsDirective()) {
    return FailExpected("'.func', '.entry' or a state space after '." + linking + "'");
  }
  std::vector<Variable> variables;
  if (!ParseDeclaration(std::move(linking), pos, variables)) return false;
  for (Variable& variable : variables) module.items.emplace_back(std::move(variable));
  return true;
}

bool Parser::ParseFunction(Module& module, std::string linking, SourcePos pos) {
  Function& function = std::get<Function>(module.items.emplace_back(Function{}));
  function.linking = std::move(linking);
  function.pos = pos;
  function.is_entry = Peek().IsDot("entry");
  Next();
  while (Peek().IsDirective()) {
    const Token word = Peek();
    Next();
    if (Peek().Is('(') && !word.IsDot("noreturn")) {
      const Token opener = Peek();
      Next();
      if (!SkipBalanced(")", opener)) return false;
    } else {
      while (Peek().kind == Token::Kind::kInteger || Peek().Is(',')) Next();
    }
    function.qualifiers.emplace_back(lexer_.SliceFrom(word).substr(1));
  }
  function.has_returns_list = Peek().Is('(');
  if (Peek().Is('(') && !ParseParameters(function.returns, "returned values")) return false;
  if (!ExpectName(function.name, "the name of a function")) return false;
  function.has_params_list = Peek().Is('(');
  if (Peek().Is('(') && !ParseParameters(function.params, "parameters")) return false;
  if (!ParseFunctionAttributes(function)) return false;
  // The ';' of a declaration may be missing.
  if (TakeIf(';') || Peek().kind == Token::Kind::kEnd || StartsItem(Peek())) return true;
  if (!Peek().Is('{')) {
    return FailExpected("'{', ';' or an attribute after the head of '" + function.name + "'");
  }
  return ParseBlock(function.body.emplace(), 1);
}

bool Parser::ParseFunctionAttributes(Function& function) {
  while (Peek().kind == Token::Kind::kHashLine ||
         (Peek().IsDirective() && !StartsItem(Peek()))) {
    if (!ParseDirective(function.attributes.emplace_back(), true)) return false;
  }
  return true;
}

// ( .param .u64 a, .param .b8 b[4] ). The cursor stands on '('.
bool Parser::ParseParameters(std::vector<Variable>& parameters, const char* what) {
  const Token opener = Peek();
  Next();
  if (TakeIf(')')) return true;
  for (;;) {
    Variable& parameter = parameters.emplace_back();
    if (!Peek().IsDirective()) {
      return FailExpected(std::string("a declaration such as '.param .u64 name' in the list of ") +
                          what);
    }
    const SourcePos pos = Peek().pos;
    if (!ParseVariablePrefix(parameter) || !ParseDeclarator(parameter)) return false;
    parameter.pos = pos;
    if (TakeIf(')')) return true;
    if (Peek().kind == Token::Kind::kEnd) return FailUnclosed(opener);
    if (!TakeIf(',')) return FailExpected(std::string("',' or ')' in the list of ") + what);
  }
}

}  // namespace cupola::ptx
