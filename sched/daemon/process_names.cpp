#include "sched/daemon/process_names.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

#include <fnmatch.h>

#include "sched/daemon/process_facts.h"

namespace cupola::sched {
namespace {

/// A known interpreter: a program that runs its first word that is not an option. `options_with_word` holds the letters
/// of the options that are followed by a word of their own.
struct Interpreter {
  const char* name;
  std::string_view options_with_word;
};
constexpr std::array<Interpreter, 11> kInterpreters = {{{"python*", "WX"},
                                                        {"pypy*", "WX"},
                                                        {"perl*", ""},
                                                        {"ruby*", "rI"},
                                                        {"node*", "r"},
                                                        {"lua*", "l"},
                                                        {"julia*", "CJLp"},
                                                        {"bash", "oO"},
                                                        {"dash", "o"},
                                                        {"sh", "o"},
                                                        {"zsh", "o"}}};

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Makes a path of the process absolute. It stays as it is where it is only a name, or where the process's working
/// directory is not known.
std::string Absolute(const std::string& folder, const std::string& path) {
  if (path.find('/') == std::string::npos) return path;
  std::filesystem::path whole(path);
  if (whole.is_relative()) {
    if (folder.empty()) return path;
    whole = folder / whole;
  }
  return whole.lexically_normal().string();
}

}  // namespace

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string ControlGroupIn(const std::string& text) {
  std::string newer, older, line;
  for (std::istringstream lines(text); std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    if (line.starts_with("0::")) {
      newer = path;
    } else if (older.empty() && path != "/") {
      older = path;
    }
  }
  return (newer.empty() || newer == "/") && !older.empty() ? older : newer;
}

std::string ContainerIn(const std::string& cgroup) {
  constexpr size_t kDigits = 64;
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  // Finds the innermost container. Its number stands alone, or as in docker-NUMBER.scope.
  size_t digits = 0;
  for (size_t at = cgroup.size(); at-- > 0;) {
    digits = is_digit(cgroup[at]) ? digits + 1 : 0;
    const bool is_begin = at == 0 || !is_digit(cgroup[at - 1]);
    if (is_begin && digits == kDigits) return cgroup.substr(at, kDigits);
  }
  return "";
}

std::string ScriptIn(const std::string& executable, const std::string& command_line) {
  const std::string name = FileName(executable);
  const auto* const interpreter =
      std::find_if(kInterpreters.begin(), kInterpreters.end(),
                   [&](const Interpreter& known) { return fnmatch(known.name, name.c_str(), 0) == 0; });
  if (interpreter == kInterpreters.end()) return "";
  std::vector<std::string> words;
  std::string word;
  for (std::istringstream text(command_line); std::getline(text, word, '\0');) words.push_back(word);
  const bool is_python = name.starts_with("py");
  for (size_t at = 1; at < words.size(); ++at) {
    const std::string& option = words[at];
    if (option.empty()) return "";
    if (option[0] != '-') return option;
    if (option == "-") return "";  // standard input
    if (option == "--") return at + 1 < words.size() ? words[at + 1] : "";
    if (option == "-c" || option == "-e") return "";  // the program text itself follows
    if (is_python && option == "-m") return at + 1 < words.size() ? words[at + 1] : "";
    if (option.size() == 2 && interpreter->options_with_word.find(option[1]) != std::string_view::npos) ++at;
  }
  return "";
}

ProcessNames NamesOf(uint32_t pid, const StartWords& words) {
  const std::string first = words.command_line.substr(0, words.command_line.find('\0'));
  const bool is_path = first.find('/') != std::string::npos;
  ProcessNames names;
  names.executable = ProcessExecutable(pid);
  names.started_as =
      Absolute(words.folder, !words.started_as.empty() ? words.started_as : is_path ? first : "");
  names.script = Absolute(words.folder, ScriptIn(names.executable, words.command_line));
  names.cgroup = ControlGroupIn(TextOf("/proc/" + std::to_string(pid) + "/cgroup"));
  names.container = ContainerIn(names.cgroup);
  return names;
}

}  // namespace cupola::sched
