#include "profiles/feature_file.h"

#include <charconv>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cupola::profiles {
namespace {

constexpr size_t kMostParameters = 4096;

/// Splits a line into words.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  std::string_view Next() {
    const size_t end = rest_.find(' ');
    const std::string_view word = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    ok_ &= !word.empty();
    return word;
  }
  template <typename Number>
  Number Whole() {
    Number value = 0;
    ok_ &= Parse(Next(), &value);
    return value;
  }
  std::string_view Rest() { return std::exchange(rest_, {}); }
  bool empty() const { return rest_.empty(); }
  bool ok() const { return ok_; }
  void Fail() { ok_ = false; }

  template <typename Number>
  static bool Parse(std::string_view word, Number* value) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *value);
    return error == std::errc() && end == word.data() + word.size() && !word.empty();
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

struct Kernel {
  std::string name;
  KernelProfile facts;
};

struct Described {
  uint32_t kernel = 0;
  LaunchSample sample;
};

/// Reads one file and adds it to a profile.
class FeatureFile {
 public:
  FeatureFile(uint64_t when, Profile* profile) : when_(when), profile_(profile) {}

  bool Take(std::string_view line) {
    if (line.size() < 3 || line[1] != ' ') return line.starts_with("cupola-features 1");
    Words words(line.substr(2));
    switch (line[0]) {
      case 'G': return TakeDevice(words);
      case 'K': return TakeKernel(words);
      case 'L': return TakeLaunch(words);
      case 'T': return TakeTime(words);
      case 'X': why_untimed_ = words.Rest(); return true;
      default: return false;
    }
  }

  FeatureSummary Finish(const std::function<std::optional<LaunchTime>(uint64_t)>& time_of) {
    FeatureSummary summary;
    summary.why_untimed = why_untimed_;
    for (auto& [ticket, described] : launches_) {
      ++summary.launches;
      const auto known = times_.find(ticket);
      const std::optional<LaunchTime> time =
          known != times_.end() ? std::optional(known->second) : time_of(ticket);
      const auto kernel = kernels_.find(described.kernel);
      if (!time || time->ns == 0 || kernel == kernels_.end()) continue;
      ++summary.timed;
      described.sample.ns = time->ns;
      described.sample.when = time->when;
      KernelProfile& into = profile_->kernels[{kernel->second.name, ""}];
      if (into.launches.empty()) into = kernel->second.facts;
      Settle(kernel->second.facts, &described.sample, &into);
      into.launches.push_back(std::move(described.sample));
    }
    Normalize(profile_);
    return summary;
  }

 private:
  bool TakeDevice(Words& words) {
    GpuFacts gpu;
    gpu.when = when_;
    gpu.arch = words.Whole<uint32_t>();
    gpu.sms = words.Whole<uint32_t>();
    gpu.threads_per_sm = words.Whole<uint32_t>();
    gpu.blocks_per_sm = words.Whole<uint32_t>();
    gpu.registers_per_sm = words.Whole<uint32_t>();
    gpu.shared_per_sm = words.Whole<uint32_t>();
    gpu.driver = words.Next();
    gpu.name = words.Rest();
    if (!words.ok() || gpu.name.empty()) return false;
    profile_->gpu = std::max(profile_->gpu, gpu);
    return true;
  }

  bool TakeKernel(Words& words) {
    Kernel kernel;
    const auto number = words.Whole<uint32_t>();
    kernel.facts.registers = words.Whole<uint32_t>();
    kernel.facts.static_shared = words.Whole<uint32_t>();
    const auto count = words.Whole<uint32_t>();
    if (!words.ok() || count > kMostParameters) return false;
    for (uint32_t i = 0; i < count; ++i) {
      const std::string_view word = words.Next();
      const size_t colon = word.find(':');
      Parameter one;
      if (colon == std::string_view::npos || !Words::Parse(word.substr(0, colon), &one.offset) ||
          !Words::Parse(word.substr(colon + 1), &one.bytes)) {
        return false;
      }
      kernel.facts.parameters.push_back(one);
    }
    kernel.name = words.Rest();
    if (kernel.name.empty()) return false;
    kernels_[number] = std::move(kernel);
    return true;
  }

  bool TakeLaunch(Words& words) {
    Described launch;
    const auto ticket = words.Whole<uint64_t>();
    launch.kernel = words.Whole<uint32_t>();
    for (uint32_t& one : launch.sample.grid) one = words.Whole<uint32_t>();
    for (uint32_t& one : launch.sample.block) one = words.Whole<uint32_t>();
    launch.sample.dynamic_shared = words.Whole<uint32_t>();
    launch.sample.input_bytes = words.Whole<uint64_t>();
    const auto kernel = kernels_.find(launch.kernel);
    if (!words.ok() || kernel == kernels_.end()) return false;
    std::vector<Parameter>& parameters = kernel->second.facts.parameters;
    for (size_t i = 0; !words.empty(); ++i) {
      const std::string_view word = words.Next();
      std::optional<uint64_t> value;
      uint64_t bits = 0;
      if (i >= parameters.size()) return false;
      if (word == "p") {
        parameters[i].pointer = true;
      } else if (Words::Parse(word, &bits)) {
        value = bits;
      } else if (word != "-") {
        return false;
      }
      launch.sample.arguments.push_back(value);
    }
    if (launch.sample.arguments.size() != parameters.size()) return false;
    launches_[ticket] = std::move(launch);
    return true;
  }

  bool TakeTime(Words& words) {
    const auto ticket = words.Whole<uint64_t>();
    const auto ns = words.Whole<uint64_t>();
    if (!words.ok()) return false;
    times_[ticket] = {ns, when_};
    return true;
  }

  // A parameter counts as a pointer if any argument for it was one, also where others were null or
  // an address of something else.
  static void Settle(const KernelProfile& facts, LaunchSample* sample, KernelProfile* into) {
    for (size_t i = 0; i < facts.parameters.size() && i < into->parameters.size(); ++i) {
      into->parameters[i].pointer |= facts.parameters[i].pointer;
      if (facts.parameters[i].pointer) sample->arguments[i].reset();
    }
  }

  uint64_t when_;
  Profile* profile_;
  std::map<uint32_t, Kernel> kernels_;
  std::map<uint64_t, Described> launches_;
  std::unordered_map<uint64_t, LaunchTime> times_;
  std::string why_untimed_;
};

}  // namespace

FeatureSummary AddFeatures(std::string_view text, uint64_t when,
                           const std::function<std::optional<LaunchTime>(uint64_t)>& time_of,
                           Profile* profile) {
  FeatureFile file(when, profile);
  uint64_t bad = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    // The last line has no end where the writer was killed while it wrote that line.
    if (end == std::string_view::npos || !file.Take(text.substr(0, end))) ++bad;
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  FeatureSummary summary = file.Finish(time_of);
  summary.bad_lines = bad;
  return summary;
}

}  // namespace cupola::profiles
