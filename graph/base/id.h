// Strong integer ids: handles into the vectors that own nodes, values, buffers and instructions.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace xrun {

// A distinct integer type for each Tag; -1 is the invalid id.
template <typename Tag>
struct Id {
  int32_t index = -1;

  constexpr Id() = default;
  constexpr explicit Id(int32_t i) : index(i) {}
  constexpr explicit Id(size_t i) : index(static_cast<int32_t>(i)) {}

  constexpr bool valid() const { return index >= 0; }
  constexpr auto operator<=>(const Id&) const = default;
};

}  // namespace xrun

template <typename Tag>
struct std::hash<xrun::Id<Tag>> {
  size_t operator()(const xrun::Id<Tag>& id) const noexcept { return std::hash<int32_t>()(id.index); }
};
