// Reads the configuration: toml++ parses it, then this file reads it key by key, so that every error has a place and
// says what was expected.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <functional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "base/settings/problems.h"
#include "base/settings/values.h"
#include "base/settings/variables.h"
#include "sched/board/board.h"
#include "sched/daemon/config.h"
#include "sched/daemon/process_facts.h"
#include "sched/daemon/rule_pattern.h"
#include "sched/daemon/within.h"

namespace cupola::sched {
namespace {

constexpr size_t kSeenOfKernel = sizeof(BoardSlot::kernel) - 1;
constexpr size_t kMostBytes = 1 << 20;
constexpr std::chrono::milliseconds kReadTime(1500);  // less than `cupola ctl` waits for an answer

/// Reads values and keeps the first error. After an error no reader does anything.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  const std::optional<Error>& error() const { return error_; }

  void Fail(const toml::source_position& at, std::string message) {
    if (error_) return;
    error_ = MakeError(ErrorCode::kInvalidArgument, std::move(message),
                       Location{.file = file_, .line = at.line, .column = at.column});
  }

  using KeyReader = std::function<void(const toml::node&)>;
  /// A section of the file, or a key in one, and how its value is read.
  struct Key {
    std::string_view name;
    const settings::Setting* row;  ///< null: a section
    KeyReader read;
  };

  /// Reads each key of the table. A key that is not in `keys` is an error.
  void ReadTable(const toml::table& table, std::string_view where, const std::vector<Key>& keys) {
    // Keys are read in the order of the file, so that the error kept is the first that a person reading the file meets.
    std::vector<std::pair<const toml::key*, const toml::node*>> entries;
    for (const auto& [key, node] : table) entries.emplace_back(&key, &node);
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return std::make_pair(a.first->source().begin.line, a.first->source().begin.column) <
             std::make_pair(b.first->source().begin.line, b.first->source().begin.column);
    });
    for (const auto& [key, node] : entries) {
      const auto found = std::find_if(keys.begin(), keys.end(),
                                      [&](const Key& known) { return known.name == key->str(); });
      if (found == keys.end()) {
        RefuseUnknown(*key, where, keys);
        continue;
      }
      found->read(*node);
      if (found->row != nullptr) given_.push_back({found->row->name, ValueText(*node), key->source().begin.line});
    }
  }

  /// The keys that were read.
  std::vector<GivenKey> TakeGiven() { return std::move(given_); }

  Key Text(settings::ConfigSetting setting, std::string* to) {
    return KeyOf(setting, [this, to](const toml::node& node) { ReadText(node, to); });
  }

  /// A pattern of a rule. `why_none` says why it can fit nothing; "": it can.
  Key Pattern(settings::ConfigSetting setting, std::string* to, std::string (*why_none)(const std::string&)) {
    return KeyOf(setting, [this, to, why_none](const toml::node& node) {
      ReadText(node, to);
      if (!node.is_string()) return;
      std::string why = WhyBadPattern(*to);
      if (why.empty()) why = why_none(*to);
      if (!why.empty()) Expected(node, "a pattern that can fit something", why);
    });
  }

  /// One of the words in the setting's row.
  Key Word(settings::ConfigSetting setting, std::string* to) {
    const std::string_view words = setting.row->allowed;
    return KeyOf(setting, [this, to, words](const toml::node& node) {
      const auto* text = node.as_string();
      if (text != nullptr && settings::IsWordOf(words, text->get())) {
        *to = text->get();
        return;
      }
      std::vector<std::string_view> list;
      settings::ForEachWord(words, [&list](std::string_view word) { list.push_back(word); });
      Expected(node, fmt::format("one of \"{}\"", fmt::join(list, "\", \"")));
    });
  }

  Key Flag(settings::ConfigSetting setting, bool* to) {
    return KeyOf(setting, [this, to](const toml::node& node) {
      if (const auto* flag = node.as_boolean()) {
        *to = flag->get();
      } else {
        Expected(node, "true or false");
      }
    });
  }

  /// Reads a whole number within the bounds of the setting's row and multiplies it by `factor`.
  template <typename T>
  Key Number(settings::ConfigSetting setting, T* to, int64_t factor = 1) {
    const settings::Setting& row = *setting.row;
    return KeyOf(setting, [this, to, &row, factor](const toml::node& node) {
      const auto* number = node.as_integer();
      if (number != nullptr && number->get() >= row.least && number->get() <= row.most) {
        *to = static_cast<typename Plain<T>::type>(number->get() * factor);
      } else {
        Expected(node, fmt::format("a whole number from {} to {}", row.least, row.most));
      }
    });
  }

  Key Fraction(settings::ConfigSetting setting, double* to) {
    return KeyOf(setting, [this, to](const toml::node& node) {
      const std::optional<double> number = node.value<double>();
      if (node.is_number() && number && *number > 0 && *number <= 1) {
        *to = *number;
      } else {
        Expected(node, "a number above 0 and at most 1");
      }
    });
  }

  Key Texts(settings::ConfigSetting setting, std::vector<std::string>* to) {
    return KeyOf(setting, [this, to](const toml::node& node) {
      const auto* array = node.as_array();
      if (array == nullptr) {
        Expected(node, "a list of strings");
        return;
      }
      for (const toml::node& element : *array) ReadText(element, &to->emplace_back());
    });
  }

  Key Section(std::string_view name, std::string_view where, std::vector<Key> keys) {
    return {name, nullptr, [this, where, keys = std::move(keys)](const toml::node& node) { ReadSection(node, where, keys); }};
  }

  void ReadSection(const toml::node& node, std::string_view where, const std::vector<Key>& keys) {
    if (const auto* table = node.as_table()) {
      ReadTable(*table, where, keys);
    } else {
      Expected(node, "a table");
    }
  }

  void Expected(const toml::node& node, std::string_view what, std::string_view why = "") {
    Fail(node.source().begin, fmt::format("expected {}, not {}{}{}", what, Name(node), why.empty() ? "" : ": ", why));
  }

 private:
  static Key KeyOf(settings::ConfigSetting setting, KeyReader read) {
    return {setting.key(), setting.row, std::move(read)};
  }

  void RefuseUnknown(const toml::key& key, std::string_view where, const std::vector<Key>& keys) {
    std::vector<std::string_view> names;
    for (const Key& known : keys) names.push_back(known.name);
    const settings::Setting* nearest = nullptr;
    if (keys.front().row != nullptr) {
      const std::string_view row = keys.front().row->name;
      nearest = settings::Nearest(std::string(row.substr(0, row.find('.') + 1)).append(key.str()));
    }
    Fail(key.source().begin, fmt::format("unknown key \"{}\" {}; expected one of {}{}", key.str(), where,
                                         fmt::join(names, ", "),
                                         nearest != nullptr ? fmt::format("; did you mean {}?", nearest->name) : ""));
  }

  void ReadText(const toml::node& node, std::string* to) {
    if (const auto* text = node.as_string()) {
      *to = text->get();
    } else {
      Expected(node, "a string");
    }
  }

  /// A value for people to read: a text without its quotes, a list as its elements.
  static std::string ValueText(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    const auto* array = node.as_array();
    if (array == nullptr) return Name(node);
    std::vector<std::string> elements;
    for (const toml::node& element : *array) elements.push_back(ValueText(element));
    return fmt::format("{}", fmt::join(elements, ", "));
  }

  template <typename T>
  struct Plain {
    using type = T;
  };
  template <typename T>
  struct Plain<std::optional<T>> {
    using type = T;
  };

  static std::string Name(const toml::node& node) {
    if (const auto* text = node.as_string()) return fmt::format("\"{}\"", text->get());
    if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
    if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
    if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
    if (node.is_array()) return "a list";
    if (node.is_table()) return "a table";
    return "a date or time";
  }

  std::string file_;
  std::optional<Error> error_;
  std::vector<GivenKey> given_;
};

std::string WhyFitsNoProgram(const std::string& pattern) {
  const bool whole = pattern.find('/') != std::string::npos;
  if (ShortestFit(pattern) >= (whole ? PATH_MAX : NAME_MAX + 1)) return "no path is so long";
  return whole ? WhyFitsNoPath(pattern) : "";
}

std::string WhyFitsNoUser(const std::string& pattern) {
  const bool is_number = pattern.find_first_not_of("0123456789") == std::string::npos;
  constexpr uint64_t kMostUid = UINT32_MAX - 1;
  uint64_t number = 0;
  const auto read = std::from_chars(pattern.data(), pattern.data() + pattern.size(), number);
  if (!is_number) return pattern.find_first_of(":/ ") != std::string::npos ? "no user is called so" : "";
  if (read.ec != std::errc() || number > kMostUid) return "no user has this number";
  return std::to_string(number) != pattern ? "numbers of users are written without zeros before them" : "";
}

std::string WhyFitsNoLabel(const std::string& pattern) {
  return ShortestFit(pattern) >= kMostJoinText ? fmt::format("labels have at most {} bytes", kMostJoinText - 1) : "";
}

std::string WhyFitsNoGroup(const std::string& pattern) {
  return pattern.find('/') != std::string::npos && pattern != "/" ? WhyFitsNoPath(pattern) : "";
}

std::string WhyFitsNoContainer(const std::string& pattern) {
  constexpr size_t kDigits = 64;
  constexpr std::string_view kHexadecimal = "0123456789abcdef";
  if (ShortestFit(pattern) > kDigits) return "numbers of containers have 64 digits";
  if (!IsPlainText(pattern)) return "";
  if (pattern.find_first_not_of(kHexadecimal) != std::string::npos) {
    return "a container is named by its number in lower-case hexadecimal digits";
  }
  return pattern.size() < 12 ? "at least 12 digits are needed (or a * behind them)" : "";
}

std::string WhyFitsNoKernel(const std::string& pattern) {
  return pattern.size() >= sizeof(KernelRule::pattern)
             ? fmt::format("it is to be shorter than {} bytes", sizeof(KernelRule::pattern))
             : "";
}

/// Warns of what depends on the users that exist now. It is no error, since users may be added later. Says nothing
/// about them where the system's list of users does not answer.
void WarnOfUsers(const std::string& file, Config& config) {
  for (const std::string& user : config.users) {
    if (user == "*") continue;
    const FoundUser found = FindUser(user);
    if (!found.was_answered) return;
    if (found.uid) continue;
    config.warnings.push_back(fmt::format("{}: [access] users: there is no user \"{}\" now", file, user));
  }
  for (const Rule& rule : config.rules) {
    if (rule.user.empty() || !IsPlainText(rule.user)) continue;
    const FoundUser found = FindUser(rule.user);
    if (!found.was_answered) return;
    ProcessIdentity process;
    process.uid = found.uid.value_or(0);
    process.user = found.uid ? UserName(process.uid) : "";
    std::string why;
    if (!found.uid) {
      why = fmt::format("there is no user \"{}\" now", rule.user);
    } else if (!config.Admits(process, geteuid())) {
      why = fmt::format("user \"{}\" may not join, since [access] users does not list them", rule.user);
    }
    if (!why.empty()) {
      config.warnings.push_back(fmt::format("{}:{}: this rule fits nobody: {}", file, rule.line, why));
    }
  }
}

void ReadRule(Reader& reader, const toml::node& node, Rule& rule) {
  std::string variant;
  rule.line = node.source().begin.line;
  reader.ReadSection(node, "in [[rule]]",
                     {reader.Pattern("rule.executable", &rule.executable, WhyFitsNoProgram),
                      reader.Pattern("rule.user", &rule.user, WhyFitsNoUser),
                      reader.Pattern("rule.label", &rule.label, WhyFitsNoLabel),
                      reader.Pattern("rule.cgroup", &rule.cgroup, WhyFitsNoGroup),
                      reader.Pattern("rule.container", &rule.container, WhyFitsNoContainer),
                      reader.Pattern("rule.kernel", &rule.kernel, WhyFitsNoKernel),
                      reader.Number("rule.priority", &rule.priority),
                      reader.Number("rule.weight", &rule.weight),
                      reader.Number("rule.latency_bound_us", &rule.latency_bound_ns, 1000),
                      reader.Number("rule.least_share_percent", &rule.least_share_percent),
                      reader.Word("rule.variant", &variant)});
  for (const VariantChoice choice : {VariantChoice::kAuto, VariantChoice::kOriginal,
                                     VariantChoice::kPreemptible, VariantChoice::kSliced}) {
    if (variant == VariantName(choice)) rule.variant = choice;
  }
}

void ReadRules(Reader& reader, const toml::node& node, std::vector<Rule>& rules) {
  const auto* array = node.as_array();
  if (array == nullptr) {
    reader.Fail(node.source().begin, "expected [[rule]] (with two brackets), not [rule]");
    return;
  }
  uint32_t kernel_variants = 0;  // these go to a client in one message, so their number is limited
  for (const toml::node& element : *array) {
    Rule rule;
    ReadRule(reader, element, rule);
    if (rule.variant && !rule.kernel.empty() && ++kernel_variants > kMaxKernelRules) {
      reader.Fail(element.source().begin,
                  fmt::format("expected at most {} rules with both kernel and variant, not another",
                              kMaxKernelRules));
    }
    const bool sets_by_kernel = !rule.kernel.empty() && rule.SetsScheduling();
    if (sets_by_kernel && ShortestFit(rule.kernel) > kSeenOfKernel) {
      reader.Fail(element.source().begin,
                  fmt::format("no kernel fits \"{}\": of a kernel's name only the first {} characters are seen for "
                              "all settings but variant; end the pattern with * behind them",
                              rule.kernel, kSeenOfKernel));
    }
    if (!rule.SetsScheduling() && !rule.variant) {
      reader.Fail(element.source().begin,
                  "this rule sets nothing; expected priority, weight, latency_bound_us, "
                  "least_share_percent or variant");
    }
    rules.push_back(std::move(rule));
  }
}

/// The text of a regular file. Other files are refused, because opening or reading a FIFO or a device may wait.
Result<std::string> TextOfFile(const std::string& path) {
  const auto io = [&path](const char* why) {
    return MakeError(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, why, Location{.file = path});
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return io(std::strerror(errno));
  std::string text;
  struct stat facts {};
  ssize_t size = -1;
  errno = 0;
  if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode)) {
    std::array<char, 4096> piece{};
    while (text.size() <= kMostBytes && (size = read(fd, piece.data(), piece.size())) > 0) {
      text.append(piece.data(), static_cast<size_t>(size));
    }
  }
  const int reason = errno;
  close(fd);
  if (text.size() > kMostBytes) return io("is larger than 1 MiB, which no configuration is");
  if (size == 0) return text;
  return io(reason != 0 ? std::strerror(reason) : "is no regular file");
}

}  // namespace

Result<Config> ParseConfig(const std::string& text, const std::string& name) {
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) {
    const toml::source_position at = parsed.error().source().begin;
    return MakeError(ErrorCode::kDamaged, std::string(parsed.error().description()),
                     Location{.file = name, .line = at.line, .column = at.column});
  }
  Reader reader(name);
  Config config;
  GpuOptions& gpu = config.gpu;
  PolicyOptions& policy = gpu.policy_options;
  std::string scheduling;
  const std::vector<Reader::Key> server = {reader.Text("server.socket", &config.socket),
                                           reader.Flag("server.mps", &config.mps),
                                           reader.Word("server.scheduling", &scheduling)};
  const std::vector<Reader::Key> choice = {
      reader.Word("policy.name", &gpu.policy),
      reader.Fraction("policy.max_overhead", &policy.max_overhead),
      reader.Number("policy.quantum_us", &policy.quantum_ns, 1000),
      reader.Number("policy.epoch_us", &policy.epoch_ns, 1000),
      reader.Number("policy.idle_grace_us", &policy.idle_grace_ns, 1000),
      reader.Number("policy.context_switch_us", &gpu.context_switch_ns, 1000),
      reader.Number("policy.preemption_overhead_us", &gpu.preemption_overhead_ns, 1000),
      reader.Flag("policy.spatial", &policy.spatial),
      reader.Number("policy.spatial_extra_sms", &policy.spatial_extra_sms)};
  reader.ReadTable(parsed.table(), "at the top",
                   {reader.Section("server", "in [server]", server),
                    reader.Section("policy", "in [policy]", choice),
                    reader.Section("access", "in [access]", {reader.Texts("access.users", &config.users)}),
                    {"rule", nullptr, [&](const toml::node& node) { ReadRules(reader, node, config.rules); }}});
  if (reader.error()) return *reader.error();
  for (const ClassChoice one : kClassChoices) {
    if (scheduling == DecidingClass::NameOf(one)) config.scheduling = one;
  }
  config.given = reader.TakeGiven();
  WarnOfUsers(name, config);
  return config;
}

Result<Config> ReadConfig(const std::string& path) {
  const auto text = RunWithin(kReadTime, [path] { return TextOfFile(path); });
  if (!text) {
    return MakeError(ErrorCode::kIo, "cannot be read: its file system does not answer", Location{.file = path});
  }
  if (!*text) return text->error();
  return ParseConfig(**text, path);
}

}  // namespace cupola::sched
