#include "base/settings/problems.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/settings/table.h"
#include "base/settings/values.h"

namespace cupola::settings {
namespace {

constexpr std::string_view kPrefix = "CUPOLA_";
constexpr size_t kMostLetters = 63;
constexpr int kMostShown = 120;  // bytes of a value that are shown

constexpr bool IsSound(const Setting& setting) {
  const std::string_view name = setting.name, meaning = setting.meaning, fallback = setting.fallback;
  const bool judges_fallback = setting.type == Type::kFlag || setting.type == Type::kNumber || setting.type == Type::kWord ||
                               setting.type == Type::kWordOrPath;
  return !name.empty() && name.size() <= kMostLetters && meaning.ends_with('.') && setting.scopes != 0 &&
         setting.least <= setting.most && (!judges_fallback || !setting.IsVariable() || IsAllowed(setting, fallback)) &&
         (setting.type != Type::kWord || std::string_view(setting.allowed).find(", ") != std::string_view::npos);
}

constexpr bool IsTableSound() {
  for (const Setting& setting : kTable) {
    if (!IsSound(setting)) return false;
    for (const Setting* other = &setting + 1; other != std::end(kTable); ++other) {
      if (std::string_view(setting.name) == other->name) return false;
    }
  }
  return true;
}
static_assert(IsTableSound(), "each row has a name of its own, a sentence, a scope, and a default that is allowed");

/// What stands before the letters that count: CUPOLA_, or the section of a key with its dot.
std::string_view Front(std::string_view name) {
  if (name.starts_with(kPrefix)) return kPrefix;
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot + 1);
}

std::string_view Letters(std::string_view name) { return name.substr(Front(name).size(), kMostLetters); }

/// The words "a, b, c" as "a, b or c".
size_t WordsText(std::string_view words, char* text, size_t bytes) {
  const size_t last = words.rfind(", ");
  const int written =
      last == std::string_view::npos
          ? std::snprintf(text, bytes, "%.*s", static_cast<int>(words.size()), words.data())
          : std::snprintf(text, bytes, "%.*s or %s", static_cast<int>(last), words.data(), words.data() + last + 2);
  return std::min(static_cast<size_t>(written), bytes - 1);
}

void UnknownText(std::string_view name, char* line, size_t bytes) {
  const Setting* const nearest = Nearest(name);
  const auto length = static_cast<int>(std::min<size_t>(name.size(), kMostShown));
  if (nearest != nullptr) {
    std::snprintf(line, bytes, "%.*s in the environment is no setting; did you mean %s?", length, name.data(),
                  nearest->name);
  } else {
    std::snprintf(line, bytes, "%.*s in the environment is no setting; `cupola settings` lists them", length, name.data());
  }
}

void BadValueText(const Setting& setting, std::string_view value, char* line, size_t bytes) {
  char expected[200];
  ExpectedText(setting, expected, sizeof(expected));
  const bool has_default = setting.type != Type::kAbsolutePath && *setting.fallback != '\0';
  std::snprintf(line, bytes, "%s=%.*s is not %s: %s%s", setting.name,
                static_cast<int>(std::min<size_t>(value.size(), kMostShown)), value.data(), expected,
                has_default ? "using " : "it is not used", has_default ? setting.fallback : "");
}

}  // namespace

const Setting* Find(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kTable), std::end(kTable), [&](const Setting& setting) { return setting.name == name; });
  return found != std::end(kTable) ? found : nullptr;
}

size_t Distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kMostLetters);
  b = b.substr(0, kMostLetters);
  size_t rows[3][kMostLetters + 1];  // of the table of distances of beginnings: two before, one before, this
  size_t *before_last = rows[0], *last = rows[1], *now = rows[2];
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({replaced, last[j] + 1, now[j - 1] + 1});
      const bool are_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (are_swapped) now[j] = std::min(now[j], before_last[j - 2] + 1);
    }
    size_t* const oldest = before_last;
    before_last = last;
    last = now;
    now = oldest;
  }
  return last[b.size()];
}

const Setting* Nearest(std::string_view name) {
  const std::string_view front = Front(name), letters = Letters(name);
  const Setting* nearest = nullptr;
  size_t least = SIZE_MAX;
  for (const Setting& setting : kTable) {
    if (setting.use != Use::kUser || (!front.empty() && front != Front(setting.name))) continue;
    const std::string_view known = Letters(setting.name);
    const size_t distance = Distance(letters, known);
    if (distance >= least || distance > (std::max(letters.size(), known.size()) + 1) / 3) continue;
    least = distance;
    nearest = &setting;
  }
  return nearest;
}

size_t ExpectedText(const Setting& setting, char* text, size_t bytes) {
  int written = 0;
  switch (setting.type) {
    case Type::kFlag: written = std::snprintf(text, bytes, "%s", setting.IsVariable() ? "1 or 0" : "true or false"); break;
    case Type::kNumber:
      written = std::snprintf(text, bytes, "a whole number from %lld to %lld", static_cast<long long>(setting.least),
                              static_cast<long long>(setting.most));
      break;
    case Type::kFraction: written = std::snprintf(text, bytes, "a number above 0 and at most 1"); break;
    case Type::kWord: return WordsText(setting.allowed, text, bytes);
    case Type::kWordOrPath:
      written = static_cast<int>(WordsText(setting.allowed, text, bytes));
      written += std::snprintf(text + written, bytes - static_cast<size_t>(written), ", or an absolute path");
      break;
    case Type::kAbsolutePath: written = std::snprintf(text, bytes, "an absolute path"); break;
    case Type::kText: written = std::snprintf(text, bytes, "%s", *setting.allowed != '\0' ? setting.allowed : "a text"); break;
  }
  return std::min(static_cast<size_t>(written), bytes - 1);
}

Problem Judge(const char* entry, uint8_t parts, char* line, size_t bytes) {
  if (std::strncmp(entry, kPrefix.data(), kPrefix.size()) != 0) return Problem::kNone;
  const char* const equals = std::strchr(entry, '=');
  if (equals == nullptr) return Problem::kNone;
  const std::string_view name(entry, static_cast<size_t>(equals - entry)), value = equals + 1;
  const Setting* const setting = Find(name);
  if (setting == nullptr) {
    UnknownText(name, line, bytes);
    return Problem::kUnknown;
  }
  if (!setting->IsFor(parts) || IsAllowed(*setting, value)) return Problem::kNone;
  BadValueText(*setting, value, line, bytes);
  return Problem::kBadValue;
}

}  // namespace cupola::settings
