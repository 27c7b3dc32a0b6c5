// The Parser's functions for directives that are kept as text [11.5 and others].
#include "device/compiler/ptx/parser.h"

namespace cupola::ptx {

// The tokens of one directive. Its text is then cut from the source.
bool Parser::ParseDirective(Directive& directive, bool is_attribute) {
  const Token first = Peek();
  directive.pos = first.pos;
  if (first.kind == Token::Kind::kHashLine || first.Is('@')) {
    directive.name = first.Is('@') ? "@@DWARF" : "#";
    directive.text = lexer_.TakeLine();
    return true;
  }
  directive.name = first.text.substr(1);
  Next();
  bool good = false;
  if (directive.name == "section") {
    good = ParseSection(first);
  } else if (directive.name == "loc") {
    good = ParseLoc();
  } else if (directive.name == "file") {
    good = ParseFile();
  } else if (directive.name == "pragma") {
    good = ParsePragma();
  } else {
    good = SkipUnknown(first, is_attribute);
  }
  if (good) directive.text = lexer_.SliceFrom(first);
  return good;
}

bool Parser::SkipBalanced(std::string_view closer, const Token& opener) {
  const char open = closer == "}" ? '{' : '(';
  for (int depth = 1; depth > 0; Next()) {
    if (Peek().kind == Token::Kind::kEnd || Peek().kind == Token::Kind::kBad) {
      return FailUnclosed(opener);
    }
    if (Peek().Is(open)) ++depth;
    if (Peek().Is(closer)) --depth;
  }
  return true;
}

// .section .debug_info { ... } [11.5.3]
bool Parser::ParseSection(const Token& first) {
  while (Peek().kind == Token::Kind::kDotWord || Peek().kind == Token::Kind::kIdentifier ||
         Peek().kind == Token::Kind::kString || Peek().Is(',')) {
    Next();
  }
  if (!TakeIf('{')) return FailExpected("'{' after the name of a '.section'");
  return SkipBalanced("}", first);
}

// .loc 1 20 3 [, function_name label [+ 4]] [, inlined_at 1 2 3] [11.5.4]
bool Parser::ParseLoc() {
  for (int i = 0; i < 3; ++i) {
    if (Peek().kind != Token::Kind::kInteger) {
      return FailExpected("file, line and column after '.loc'");
    }
    Next();
  }
  while (TakeIf(',')) {
    while (Peek().kind == Token::Kind::kIdentifier || Peek().kind == Token::Kind::kInteger ||
           Peek().Is('+')) {
      if (Peek().starts_line) break;
      Next();
    }
  }
  return true;
}

// .file 1 "name" [, timestamp, size] [11.5.2]
bool Parser::ParseFile() {
  if (Peek().kind != Token::Kind::kInteger) return FailExpected("an index after '.file'");
  Next();
  if (Peek().kind != Token::Kind::kString) return FailExpected("a quoted name after '.file'");
  Next();
  while (TakeIf(',')) {
    if (Peek().kind != Token::Kind::kInteger) return FailExpected("a number after ',' of '.file'");
    Next();
  }
  return true;
}

// .pragma "nounroll", "x"; [11.4.9]
bool Parser::ParsePragma() {
  do {
    if (Peek().kind != Token::Kind::kString) return FailExpected("a quoted word after '.pragma'");
    Next();
  } while (TakeIf(','));
  return Expect(';', "after a '.pragma'");
}

// .alias a, b; .maxntid 1, 2, 3 and any other directive. It ends with a ';', with a balanced '}',
// before the '}' of the block around it, or before a line that starts with something new. An
// attribute of a function ends before '{' and ';'. The end must not depend on what the writer puts
// elsewhere or writes in another way.
bool Parser::SkipUnknown(const Token& first, bool is_attribute) {
  bool after_comma = false;
  for (;;) {
    const Token token = Peek();
    if (token.kind == Token::Kind::kEnd || token.kind == Token::Kind::kHashLine || token.Is('}')) {
      return true;
    }
    if (token.kind == Token::Kind::kBad) return FailExpected("a directive");
    const bool dotted = token.IsDirective();
    if (is_attribute && (token.Is('{') || token.Is(';') || dotted)) return true;
    if (token.starts_line && !after_comma && (dotted || token.Is('@'))) return true;
    Next();
    if (token.Is(';')) return true;
    if (token.Is('{')) return SkipBalanced("}", first);
    if (token.Is('(') && !SkipBalanced(")", token)) return false;
    after_comma = token.Is(',');
  }
}

}  // namespace cupola::ptx
