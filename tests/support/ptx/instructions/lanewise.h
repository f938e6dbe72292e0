// Handlers that compute each lane of their results from the same lane of their sources.
#pragma once

#include <type_traits>
#include <utility>

#include "tests/support/ptx/warp.h"

namespace xrun::ptx {

namespace internal {

template <class In, class Run, size_t... kPlaces>
void run_lanes(Warp& warp, const Instruction& in, uint32_t mask, std::index_sequence<kPlaces...> /*places*/) {
  Register& to = warp[in.reg[0]];
  const std::array<const Register*, sizeof...(kPlaces)> from{&warp[in.reg[1 + kPlaces]]...};
  for_lanes(mask, [&](uint32_t lane) { put(to, lane, Run{}(get<In>(*from[kPlaces], lane)...)); });
}

}  // namespace internal

// A handler for one destination and one to three sources of type In: lanewise<float>([](float a, float b) { ... }). The
// function has no captures, so it exists wherever its type does.
template <class In, class Run>
Handler lanewise(Run /*run*/) {
  return [](Warp& warp, const Instruction& in, uint32_t mask) {
    if constexpr (std::is_invocable_v<Run, In>) {
      internal::run_lanes<In, Run>(warp, in, mask, std::make_index_sequence<1>());
    } else if constexpr (std::is_invocable_v<Run, In, In>) {
      internal::run_lanes<In, Run>(warp, in, mask, std::make_index_sequence<2>());
    } else {
      internal::run_lanes<In, Run>(warp, in, mask, std::make_index_sequence<3>());
    }
  };
}

// Calls run(T{}) with the unsigned or signed integer of `bits` (16, 32 or 64) bits; false for other widths.
template <class Run>
bool with_integer(int bits, bool is_signed, const Run& run) {
  switch (bits) {
    case 8:
      is_signed ? run(int8_t{}) : run(uint8_t{});
      return true;
    case 16:
      is_signed ? run(int16_t{}) : run(uint16_t{});
      return true;
    case 32:
      is_signed ? run(int32_t{}) : run(uint32_t{});
      return true;
    case 64:
      is_signed ? run(int64_t{}) : run(uint64_t{});
      return true;
    default:
      return false;
  }
}

}  // namespace xrun::ptx
