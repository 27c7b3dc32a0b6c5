#include "models/train/arguments.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "profiles/kernel_name.h"

namespace cupola::models {
namespace {

ParameterKind KindOf(std::string_view type) {
  while (!type.empty() && type.front() == ' ') type.remove_prefix(1);
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  if (type.ends_with("const")) type.remove_suffix(5);
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  if (type.ends_with("*") || type.ends_with("&")) return ParameterKind::kPointer;
  for (const char* name : {"int", "long", "short", "long long", "signed char"}) {
    if (type == name) return ParameterKind::kInteger;
  }
  for (const char* name : {"unsigned int", "unsigned long", "unsigned short",
                           "unsigned long long", "unsigned char", "char", "bool"}) {
    if (type == name) return ParameterKind::kUnsigned;
  }
  return ParameterKind::kOther;
}

// The position of the parenthesis that opens the parameter list, which is the match of the last
// one.
size_t ListStart(std::string_view name) {
  int depth = 0;
  for (size_t i = name.size(); i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) return i;
  }
  return std::string_view::npos;
}

bool LooksWhole(uint64_t bits, uint32_t bytes) {
  if (bytes <= 2) return true;
  if (bytes == 4) {
    const auto value = static_cast<int32_t>(static_cast<uint32_t>(bits));
    return value > -(1 << 20) && value < (1 << 28);
  }
  const auto value = static_cast<int64_t>(bits);
  return value > -(int64_t{1} << 20) && value < (int64_t{1} << 40);
}

// The absolute correlation of an argument with the duration; 0 where the argument does not vary.
double Following(const PlanArgument& argument,
                 const std::vector<profiles::LaunchSample>& launches) {
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (const auto& launch : launches) {
    if (argument.index >= launch.arguments.size() || !launch.arguments[argument.index]) continue;
    const auto a = static_cast<double>(IntegerValue(argument, *launch.arguments[argument.index]));
    const auto b = static_cast<double>(launch.ns);
    n += 1, x += a, y += b, xx += a * a, yy += b * b, xy += a * b;
  }
  const double spread_x = n * xx - x * x;
  const double spread_y = n * yy - y * y;
  if (n < 2 || spread_x <= 1e-9 * n * xx || spread_y <= 0) return 0;
  return std::fabs(n * xy - x * y) / std::sqrt(spread_x * spread_y);
}

bool Varies(const PlanArgument& argument, const std::vector<profiles::LaunchSample>& launches) {
  const profiles::LaunchSample* first = nullptr;
  for (const auto& launch : launches) {
    if (argument.index >= launch.arguments.size() || !launch.arguments[argument.index]) {
      return false;
    }
    if (first == nullptr) first = &launch;
    if (*launch.arguments[argument.index] != *first->arguments[argument.index]) return true;
  }
  return false;
}

}  // namespace

std::vector<ParameterKind> KindsFromName(std::string_view mangled) {
  if (!mangled.starts_with("_Z")) return {};
  const std::string name = KernelDisplayName(mangled);
  if (!name.ends_with(")")) return {};
  const size_t start = ListStart(name);
  if (start == std::string::npos) return {};
  std::string_view list(name);
  list = list.substr(start + 1, list.size() - start - 2);
  std::vector<ParameterKind> kinds;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    if (c == '(' || c == '<' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == '>' || c == ']' || c == '}') --depth;
    if (c != ',' || (depth != 0 && i < list.size())) continue;
    if (i > begin || i < list.size()) kinds.push_back(KindOf(list.substr(begin, i - begin)));
    begin = i + 1;
  }
  return kinds;
}

std::vector<PlanArgument> ChooseIntegers(std::string_view mangled,
                                         const profiles::KernelProfile& kernel) {
  std::vector<ParameterKind> kinds = KindsFromName(mangled);
  if (kinds.size() != kernel.parameters.size()) kinds.assign(kernel.parameters.size(), {});
  std::vector<std::pair<double, PlanArgument>> found;
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const profiles::Parameter& parameter = kernel.parameters[i];
    const bool has_size = parameter.bytes == 1 || parameter.bytes == 2 || parameter.bytes == 4 ||
                          parameter.bytes == 8;
    if (parameter.pointer || !has_size || kinds[i] == ParameterKind::kPointer ||
        kinds[i] == ParameterKind::kOther || i > UINT16_MAX) {
      continue;
    }
    const PlanArgument argument{static_cast<uint16_t>(i), static_cast<uint16_t>(parameter.bytes),
                                parameter.offset, kinds[i] == ParameterKind::kUnsigned ? 0u : 1u};
    const bool whole =
        kinds[i] != ParameterKind::kUnknown ||
        std::all_of(kernel.launches.begin(), kernel.launches.end(), [&](const auto& launch) {
          return i < launch.arguments.size() && launch.arguments[i] &&
                 LooksWhole(*launch.arguments[i], parameter.bytes);
        });
    if (!whole || !Varies(argument, kernel.launches)) continue;
    found.emplace_back(Following(argument, kernel.launches), argument);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<PlanArgument> chosen;
  for (const auto& [following, argument] : found) {
    if (chosen.size() < kMostIntegers) chosen.push_back(argument);
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  return chosen;
}

int64_t IntegerValue(const PlanArgument& argument, uint64_t bits) {
  const uint32_t unused = 64 - 8 * argument.bytes;
  return argument.is_signed != 0 ? static_cast<int64_t>(bits << unused) >> unused
                                 : static_cast<int64_t>(bits);
}

}  // namespace cupola::models
