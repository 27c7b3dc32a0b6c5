#include "device/compiler/ptx/components.h"

#include <algorithm>
#include <utility>

namespace cupola::ptx {
namespace {

// Tarjan's algorithm without recursion, since bodies with tens of thousands of nodes occur.
class Search {
 public:
  Search(const std::vector<std::vector<uint32_t>>& next, const std::vector<uint32_t>& among)
      : next_(next), order_(next.size(), kElsewhere), low_(next.size(), 0) {
    for (const uint32_t node : among) order_[node] = kNotSeen;
    on_stack_.resize(next.size(), false);
    for (const uint32_t root : among) {
      if (order_[root] == kNotSeen) Visit(root);
    }
  }
  std::vector<std::vector<uint32_t>> components;

 private:
  static constexpr uint32_t kElsewhere = ~0u, kNotSeen = 0;

  void Visit(uint32_t root) {
    std::vector<std::pair<uint32_t, size_t>> work{{root, 0}};
    while (!work.empty()) {
      auto& [node, at] = work.back();
      if (at == 0) {
        order_[node] = low_[node] = ++clock_;
        stack_.push_back(node);
        on_stack_[node] = true;
      }
      if (at < next_[node].size()) {
        const uint32_t from = node, to = next_[node][at++];
        if (order_[to] == kNotSeen) {
          work.emplace_back(to, 0);
        } else if (order_[to] != kElsewhere && on_stack_[to]) {
          low_[from] = std::min(low_[from], order_[to]);
        }
        continue;
      }
      // A node without successors comes here with `at` of 0: it is not visited again.
      const uint32_t done = node;
      work.pop_back();
      if (!work.empty()) {
        low_[work.back().first] = std::min(low_[work.back().first], low_[done]);
      }
      if (low_[done] == order_[done]) Close(done);
    }
  }

  void Close(uint32_t root) {
    std::vector<uint32_t> component;
    for (uint32_t node = ~root; node != root;) {
      node = stack_.back();
      stack_.pop_back();
      on_stack_[node] = false;
      component.push_back(node);
    }
    const auto& own = next_[root];
    if (component.size() == 1 && std::find(own.begin(), own.end(), root) == own.end()) return;
    std::sort(component.begin(), component.end());
    components.push_back(std::move(component));
  }

  const std::vector<std::vector<uint32_t>>& next_;
  std::vector<uint32_t> order_, low_, stack_;
  std::vector<bool> on_stack_;
  uint32_t clock_ = 0;
};

}  // namespace

std::vector<std::vector<uint32_t>> FindComponents(const std::vector<std::vector<uint32_t>>& next,
                                                  const std::vector<uint32_t>& among) {
  return Search(next, among).components;
}

}  // namespace cupola::ptx
