#include "device/compiler/passes/snippet.h"

#include <iterator>

#include "device/compiler/ptx/parse.h"

namespace cupola::passes {

std::vector<ptx::Statement> Snippet(std::string_view text, const Words& words) {
  std::string body = ".version 8.0\n.target sm_90\n.address_size 64\n.entry snippet()\n{\n";
  while (!text.empty()) {
    const size_t open = text.find('<');
    const size_t close = open == text.npos ? text.npos : text.find('>', open);
    if (close == text.npos) break;
    const std::string_view word = text.substr(open + 1, close - open - 1);
    const auto at = words.find(word);
    body += text.substr(0, open);
    // What is no word of ours is a register range, %r<9>.
    body += at == words.end() ? text.substr(open, close - open + 1) : std::string_view(at->second);
    text.remove_prefix(close + 1);
  }
  body += text;
  body += "\n}\n";
  Result<ptx::Module> module = ptx::Parse(body, "snippet");
  if (!module) return {};
  ptx::Function* function = module->FindFunction("snippet");
  if (function == nullptr || !function->body) return {};
  return std::move(function->body->statements);
}

void Append(std::vector<ptx::Statement>& out, std::string_view text, const Words& words) {
  std::vector<ptx::Statement> statements = Snippet(text, words);
  out.insert(out.end(), std::make_move_iterator(statements.begin()),
             std::make_move_iterator(statements.end()));
}

ptx::Statement Register(std::string_view type, std::string_view name) {
  ptx::Variable variable;
  variable.space = ptx::StateSpace::kReg;
  variable.type = type;
  variable.name = name;
  return {.node = std::move(variable)};
}

}  // namespace cupola::passes
