#include "device/sim/driver/ptx_header.h"

#include <charconv>
#include <initializer_list>
#include <string>
#include <utility>

namespace cupola::sim {
namespace {

constexpr int kNewestVersion = 90;  // PTX version of CUDA 13.0, as major * 10 + minor
constexpr int kDevice = 90;         // compute capability, as major * 10 + minor

/// A target and the first version of PTX that has it [PTX ISA, "Release Notes"].
struct Target {
  int number;         ///< 90 for sm_90
  int version;        ///< for the target without a suffix, as major * 10 + minor
  int version_of_a;   ///< for the target with the suffix a or f; 0: there is none
};
constexpr Target kTargets[] = {
    {10, 10, 0}, {11, 10, 0}, {12, 12, 0}, {13, 12, 0}, {20, 20, 0}, {21, 20, 0}, {30, 31, 0}, {32, 40, 0},
    {35, 31, 0}, {37, 41, 0}, {50, 40, 0}, {52, 41, 0}, {53, 42, 0}, {60, 50, 0}, {61, 50, 0}, {62, 50, 0},
    {70, 60, 0}, {72, 61, 0}, {75, 63, 0}, {80, 70, 0}, {86, 71, 0}, {87, 74, 0}, {88, 90, 0}, {89, 78, 0},
    {90, 78, 80}, {100, 86, 86}, {101, 86, 86}, {103, 88, 88}, {110, 90, 90}, {120, 87, 87}, {121, 88, 88}};

/// Yields the words of a text from its beginning, without white space and comments.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  /// The next word, which ends at white space, a comma, a comment or the end; "" at the end.
  std::string_view Next() {
    SkipSpace();
    const size_t end = text_.find_first_of(" \t\r\n\v\f,/", at_);
    const size_t begin = at_;
    at_ = end == std::string_view::npos ? text_.size() : end;
    return text_.substr(begin, at_ - begin);
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      size_t end = 0;
      if (rest.starts_with("//")) {
        end = rest.find('\n');
      } else if (rest.starts_with("/*")) {
        end = rest.find("*/", 2);
        if (end != std::string_view::npos) end += 2;
      } else if (end = rest.find_first_not_of(" \t\r\n\v\f"); end == 0) {
        return;
      }
      at_ = end == std::string_view::npos ? text_.size() : at_ + end;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

LoadFailure Refuse(CUresult result, std::initializer_list<std::string_view> parts) {
  std::string sentence = "ptxas application ptx input; ";
  for (const std::string_view part : parts) sentence += part;
  return {result, std::move(sentence)};
}
LoadFailure Invalid(std::initializer_list<std::string_view> parts) {
  return Refuse(CUDA_ERROR_INVALID_PTX, parts);
}
LoadFailure UnknownTarget(std::string_view word) {
  return Invalid({"fatal   : Unsupported .target '", word, "'"});
}

/// The version in a word as major * 10 + minor; -1 when it is none.
int VersionOf(std::string_view word) {
  int major = 0, minor = 0;
  const char* const end = word.data() + word.size();
  const auto point = std::from_chars(word.data(), end, major);
  if (point.ec != std::errc() || point.ptr == end || *point.ptr != '.') return -1;
  const auto rest = std::from_chars(point.ptr + 1, end, minor);
  if (rest.ec != std::errc() || rest.ptr != end || major < 0 || minor < 0 || minor > 9) return -1;
  return major > 1000 ? 10000 : major * 10 + minor;
}

LoadFailure CheckTarget(std::string_view word, int version, std::string_view version_text) {
  if (!word.starts_with("sm_")) {
    return Invalid({"fatal   : Target architecture not defined at start of file"});
  }
  int number = 0;
  const char* const end = word.data() + word.size();
  const auto digits = std::from_chars(word.data() + 3, end, number);
  if (digits.ec != std::errc()) return UnknownTarget(word);
  const std::string_view suffix(digits.ptr, static_cast<size_t>(end - digits.ptr));
  for (const Target& target : kTargets) {
    if (target.number != number) continue;
    const bool is_special = suffix == "a" || (suffix == "f" && number >= 100);
    const int needed = is_special ? target.version_of_a : target.version;
    if ((!suffix.empty() && !is_special) || needed == 0) return UnknownTarget(word);
    if (version < needed) {
      return Invalid(
          {"error   : PTX .version ", version_text, " does not support .target ", word});
    }
    if (number > kDevice) {
      return Invalid(
          {"fatal   : SM version specified by .target is higher than default SM version assumed"});
    }
    return {};
  }
  return UnknownTarget(word);
}

}  // namespace

LoadFailure CheckPtxHeader(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  Words words(text);
  if (!words.Next().starts_with(".version")) {
    return {CUDA_ERROR_INVALID_IMAGE, "the image is neither a container, nor a cubin, nor PTX text"};
  }
  const std::string_view version_text = words.Next();
  const int version = VersionOf(version_text);
  if (version < 0) return Invalid({"fatal   : Missing .version directive at start of file"});
  if (version < 10 || version > kNewestVersion) {
    return Refuse(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                  {"fatal   : Unsupported .version ", version_text, "; current version is '9.0'"});
  }
  if (words.Next() != ".target") {
    return Invalid({"fatal   : Missing .target directive at start of file"});
  }
  if (LoadFailure failure = CheckTarget(words.Next(), version, version_text);
      failure.result != CUDA_SUCCESS) {
    return failure;
  }
  std::string_view word = words.Next();
  while (!word.empty() && !word.starts_with('.')) word = words.Next();  // further words of .target
  if (word == ".address_size" && words.Next() == "32") {
    return Invalid({"fatal   : 32-Bit ABI is not supported on sm_90 or higher architectures"});
  }
  return {};
}

}  // namespace cupola::sim
