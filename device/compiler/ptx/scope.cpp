#include "device/compiler/ptx/scope.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace cupola::ptx {

bool Scopes::Declare(std::string_view name, const Symbol& symbol) {
  Scope& scope = scopes_.back();
  if (symbol.variable != nullptr && (symbol.variable->has_range || symbol.variable->range != 0)) {
    return scope.ranges.try_emplace(name, symbol).second;
  }
  if (FindIn(scope, name) != nullptr) return false;
  return scope.names.try_emplace(name, symbol).second;
}

void Scopes::Replace(std::string_view name, const Symbol& symbol) {
  scopes_.back().names.insert_or_assign(name, symbol);
}

const Symbol* Scopes::Find(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const Symbol* symbol = FindIn(*scope, name)) return symbol;
  }
  return nullptr;
}

const Symbol* Scopes::FindHere(std::string_view name) const {
  return FindIn(scopes_.back(), name);
}

const Symbol* Scopes::FindIn(const Scope& scope, std::string_view name) {
  const auto found = scope.names.find(name);
  if (found != scope.names.end()) return &found->second;
  if (scope.ranges.empty()) return nullptr;
  // "x12" may be number 12 of x<20> or number 2 of x1<5>.
  constexpr size_t kMostDigits = 10;
  for (size_t digits = 1; digits <= kMostDigits && digits < name.size(); ++digits) {
    const char* begin = name.data() + name.size() - digits;
    if (*begin < '0' || *begin > '9') break;
    uint64_t index = 0;
    std::from_chars(begin, begin + digits, index);
    const auto range = scope.ranges.find(name.substr(0, name.size() - digits));
    if (range != scope.ranges.end() && index < range->second.variable->range) {
      return &range->second;
    }
  }
  return nullptr;
}

bool IsSpecialRegister(std::string_view name) {
  static constexpr auto kNames = [] {
    std::array names = std::to_array<std::string_view>({
        "%tid", "%ntid", "%laneid", "%warpid", "%nwarpid", "%ctaid", "%nctaid", "%smid", "%nsmid",
        "%gridid", "%is_explicit_cluster", "%clusterid", "%nclusterid", "%cluster_ctaid",
        "%cluster_nctaid", "%cluster_ctarank", "%cluster_nctarank", "%lanemask_eq",
        "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt", "%clock", "%clock_hi",
        "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi",
        "%reserved_smem_offset_begin", "%reserved_smem_offset_end", "%reserved_smem_offset_cap",
        "%reserved_smem_offset_0", "%reserved_smem_offset_1", "%total_smem_size",
        "%aggr_smem_size", "%dynamic_smem_size", "%current_graph_exec"});
    std::sort(names.begin(), names.end());
    return names;
  }();
  if (std::binary_search(kNames.begin(), kNames.end(), name)) return true;
  return name.starts_with("%envreg") || name.starts_with("%pm");
}

}  // namespace cupola::ptx
