// StrongId: an integer that names one kind of thing, such as a client of the arbiter, and cannot be mixed up with
// another kind. A plain value; any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace cupola {

/// Use it as `struct StreamTag; using StreamId = StrongId<StreamTag>;`.
template <typename Tag, typename Rep = uint32_t>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  Rep value_ = 0;
};

}  // namespace cupola

template <typename Tag, typename Rep>
struct std::hash<cupola::StrongId<Tag, Rep>> {
  size_t operator()(const cupola::StrongId<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};
