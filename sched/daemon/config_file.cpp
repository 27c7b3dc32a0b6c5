// Reading the configuration: TOML by toml++, then key by key, so that every error has a place and says
// what was expected.
#include <algorithm>
#include <array>
#include <cerrno>
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

#include "sched/daemon/config.h"
#include "sched/daemon/within.h"

namespace cupola::sched {
namespace {

constexpr int64_t kMostUs = 3'600'000'000;  // an hour
constexpr size_t kMostBytes = 1 << 20;
constexpr std::chrono::milliseconds kReadTime(1500);  // less than `cupola ctl` waits for an answer

/// Collects the first error. Every reader does nothing once there is one.
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
  struct Key {
    std::string_view name;
    KeyReader read;
  };

  /// Reads each key of the table; a key that is not in `keys` is an error.
  void ReadTable(const toml::table& table, std::string_view where, const std::vector<Key>& keys) {
    // In the order of the file, so that the first error is the first that a reader of it meets.
    std::vector<std::pair<const toml::key*, const toml::node*>> entries;
    for (const auto& [key, node] : table) entries.emplace_back(&key, &node);
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return std::make_pair(a.first->source().begin.line, a.first->source().begin.column) <
             std::make_pair(b.first->source().begin.line, b.first->source().begin.column);
    });
    for (const auto& [key, node] : entries) {
      const auto found = std::find_if(keys.begin(), keys.end(),
                                      [&](const Key& known) { return known.name == key->str(); });
      if (found != keys.end()) {
        found->read(*node);
        continue;
      }
      std::vector<std::string_view> names;
      for (const Key& known : keys) names.push_back(known.name);
      Fail(key->source().begin, fmt::format("unknown key \"{}\" {}; expected one of {}",
                                            key->str(), where, fmt::join(names, ", ")));
    }
  }

  KeyReader Text(std::string* to) {
    return [this, to](const toml::node& node) {
      if (const auto* text = node.as_string()) {
        *to = text->get();
      } else {
        Expected(node, "a string");
      }
    };
  }

  KeyReader Word(std::string* to, std::vector<std::string_view> words) {
    return [this, to, words = std::move(words)](const toml::node& node) {
      const auto* text = node.as_string();
      if (text != nullptr && std::find(words.begin(), words.end(), text->get()) != words.end()) {
        *to = text->get();
      } else {
        Expected(node, fmt::format("one of \"{}\"", fmt::join(words, "\", \"")));
      }
    };
  }

  KeyReader Flag(bool* to) {
    return [this, to](const toml::node& node) {
      if (const auto* flag = node.as_boolean()) {
        *to = flag->get();
      } else {
        Expected(node, "true or false");
      }
    };
  }

  /// A whole number in [low, high], multiplied by `factor`.
  template <typename T>
  KeyReader Number(T* to, int64_t low, int64_t high, int64_t factor = 1) {
    return [this, to, low, high, factor](const toml::node& node) {
      const auto* number = node.as_integer();
      if (number != nullptr && number->get() >= low && number->get() <= high) {
        *to = static_cast<typename Plain<T>::type>(number->get() * factor);
      } else {
        Expected(node, fmt::format("a whole number from {} to {}", low, high));
      }
    };
  }

  KeyReader Fraction(double* to) {
    return [this, to](const toml::node& node) {
      const std::optional<double> number = node.value<double>();
      if (node.is_number() && number && *number > 0 && *number <= 1) {
        *to = *number;
      } else {
        Expected(node, "a number above 0 and at most 1");
      }
    };
  }

  KeyReader Texts(std::vector<std::string>* to) {
    return [this, to](const toml::node& node) {
      const auto* array = node.as_array();
      if (array == nullptr) {
        Expected(node, "a list of strings");
        return;
      }
      for (const toml::node& element : *array) {
        std::string text;
        Text(&text)(element);
        to->push_back(text);
      }
    };
  }

  void Expected(const toml::node& node, std::string_view what) {
    Fail(node.source().begin, fmt::format("expected {}, not {}", what, Name(node)));
  }

 private:
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
};

Reader::KeyReader TableReader(Reader& reader, std::string_view where,
                              std::vector<Reader::Key> keys) {
  return [&reader, where, keys = std::move(keys)](const toml::node& node) {
    if (const auto* table = node.as_table()) {
      reader.ReadTable(*table, where, keys);
    } else {
      reader.Expected(node, "a table");
    }
  };
}

void ReadRule(Reader& reader, const toml::node& node, Rule& rule) {
  std::string variant;
  std::vector<std::string_view> variants;
  for (const VariantChoice choice : {VariantChoice::kAuto, VariantChoice::kOriginal,
                                     VariantChoice::kPreemptible, VariantChoice::kSliced}) {
    variants.emplace_back(VariantName(choice));
  }
  const auto pattern = [&reader](std::string* to) {
    return [&reader, to](const toml::node& value) {
      reader.Text(to)(value);
      if (to->size() >= sizeof(KernelRule::pattern)) {
        reader.Expected(value, fmt::format("a pattern shorter than {} bytes",
                                           sizeof(KernelRule::pattern)));
      }
    };
  };
  TableReader(reader, "in [[rule]]",
              {{"executable", reader.Text(&rule.executable)},
               {"user", reader.Text(&rule.user)},
               {"label", reader.Text(&rule.label)},
               {"kernel", pattern(&rule.kernel)},
               {"priority", reader.Number(&rule.priority, -1000000, 1000000)},
               {"weight", reader.Number(&rule.weight, 1, 1000000)},
               {"latency_bound_us", reader.Number(&rule.latency_bound_ns, 0, kMostUs, 1000)},
               {"variant", reader.Word(&variant, variants)}})(node);
  const auto found = std::find(variants.begin(), variants.end(), variant);
  if (!variant.empty() && found != variants.end()) {
    rule.variant = static_cast<VariantChoice>(found - variants.begin());
  }
}

void ReadRules(Reader& reader, const toml::node& node, std::vector<Rule>& rules) {
  const auto* array = node.as_array();
  if (array == nullptr) {
    reader.Fail(node.source().begin, "expected [[rule]] (with two brackets), not [rule]");
    return;
  }
  uint32_t kernel_variants = 0;  // go to a client in one message
  for (const toml::node& element : *array) {
    Rule rule;
    ReadRule(reader, element, rule);
    if (rule.variant && !rule.kernel.empty() && ++kernel_variants > kMaxKernelRules) {
      reader.Fail(element.source().begin,
                  fmt::format("expected at most {} rules with both kernel and variant, not another",
                              kMaxKernelRules));
    }
    if (!rule.priority && !rule.weight && !rule.latency_bound_ns && !rule.variant) {
      reader.Fail(element.source().begin,
                  "this rule sets nothing; expected priority, weight, latency_bound_us or variant");
    }
    rules.push_back(std::move(rule));
  }
}

/// The text of a regular file. A FIFO or a device would keep whoever opens or reads it waiting.
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
  const std::vector<Reader::Key> server = {{"socket", reader.Text(&config.socket)},
                                           {"mps", reader.Flag(&config.mps)}};
  const std::vector<Reader::Key> choice = {
      {"name", reader.Word(&gpu.policy, PolicyNames())},
      {"max_overhead", reader.Fraction(&policy.max_overhead)},
      {"quantum_us", reader.Number(&policy.quantum_ns, 0, kMostUs, 1000)},
      {"idle_grace_us", reader.Number(&policy.idle_grace_ns, 0, kMostUs, 1000)},
      {"context_switch_us", reader.Number(&gpu.context_switch_ns, 0, kMostUs, 1000)},
      {"preemption_overhead_us", reader.Number(&gpu.preemption_overhead_ns, 1, kMostUs, 1000)},
      {"spatial", reader.Flag(&policy.spatial)},
      {"spatial_extra_sms", reader.Number(&policy.spatial_extra_sms, 0, 1024)}};
  reader.ReadTable(
      parsed.table(), "at the top",
      {{"server", TableReader(reader, "in [server]", server)},
       {"policy", TableReader(reader, "in [policy]", choice)},
       {"access",
        TableReader(reader, "in [access]", {{"users", reader.Texts(&config.users)}})},
       {"rule", [&](const toml::node& node) { ReadRules(reader, node, config.rules); }}});
  if (reader.error()) return *reader.error();
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
