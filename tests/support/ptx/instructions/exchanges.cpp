// Exchanges between the lanes of a warp: shfl, vote, match, redux.
// Tests: tests/ptx/exchanges_test.cpp
#include <algorithm>

#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"

namespace xrun::ptx {

namespace {

enum class Shuffle : uint64_t { kUp, kDown, kButterfly, kIndex };
enum class Vote : uint64_t { kAll, kAny, kUniform, kBallot };
enum class Reduction : uint64_t { kAdd, kMin, kMax, kAnd, kOr, kXor };

constexpr Type kWord{TypeKind::kBits, 32};
constexpr Type kPredicate{TypeKind::kPredicate, 1};

// Sources: value, lane or distance, bounds. With a second destination, whether the lane was in the bounds.
void run_shuffle(Warp& warp, const Instruction& in, uint32_t mask) {
  const size_t first = in.destinations;
  const Register values = warp[in.reg[first]];  // a copy: the result may be the same register
  for_lanes(mask, [&](uint32_t lane) {
    const auto by = get<uint32_t>(warp[in.reg[first + 1]], lane) & 31;
    const auto bounds = get<uint32_t>(warp[in.reg[first + 2]], lane);
    const uint32_t segment = bounds >> 8 & 31;
    const uint32_t clamp = bounds & 31;
    const uint32_t last = (lane & segment) | (clamp & ~segment);
    uint32_t from = 0;
    bool inside = false;
    switch (static_cast<Shuffle>(in.extra)) {
      case Shuffle::kUp:
        from = lane - by;
        inside = static_cast<int32_t>(from) >= static_cast<int32_t>(last);
        break;
      case Shuffle::kDown:
        from = lane + by;
        inside = from <= last;
        break;
      case Shuffle::kButterfly:
        from = lane ^ by;
        inside = from <= last;
        break;
      case Shuffle::kIndex:
        from = (lane & segment) | (by & ~segment);
        inside = from <= last;
        break;
    }
    from = inside ? from : lane;
    if ((mask >> from & 1) == 0) {
      warp.fail(FaultKind::kArithmetic, lane, "the value comes from a lane that does not take part");
      return;
    }
    warp[in.reg[0]].lane[lane] = values.lane[from];
    if (in.destinations == 2) {
      put(warp[in.reg[1]], lane, inside);
    }
  });
}

// The lanes with a predicate; bit 8 of `extra` negates it.
uint32_t lanes_with(Warp& warp, const Instruction& in, uint32_t mask) {
  uint32_t lanes = 0;
  const Register& predicate = warp[in.reg[in.destinations]];
  for_lanes(mask, [&](uint32_t lane) {
    const bool value = get<uint8_t>(predicate, lane) != 0;
    lanes |= value != ((in.extra >> 8 & 1) != 0) ? 1U << lane : 0U;
  });
  return lanes;
}

void run_vote(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint32_t lanes = lanes_with(warp, in, mask);
  uint32_t result = lanes;
  switch (static_cast<Vote>(in.extra & 0xff)) {
    case Vote::kAll:
      result = lanes == mask ? 1 : 0;
      break;
    case Vote::kAny:
      result = lanes != 0 ? 1 : 0;
      break;
    case Vote::kUniform:
      result = lanes == mask || lanes == 0 ? 1 : 0;
      break;
    case Vote::kBallot:
      break;
  }
  for_lanes(mask, [&](uint32_t lane) { put(warp[in.reg[0]], lane, result); });
}

void run_active(Warp& warp, const Instruction& in, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) { put(warp[in.reg[0]], lane, mask); });
}

template <class T>
void run_match(Warp& warp, const Instruction& in, uint32_t mask) {
  const Register values = warp[in.reg[in.destinations]];
  const bool all = in.extra != 0;
  for_lanes(mask, [&](uint32_t lane) {
    uint32_t equal = 0;
    for_lanes(mask, [&](uint32_t other) { equal |= get<T>(values, other) == get<T>(values, lane) ? 1U << other : 0U; });
    put(warp[in.reg[0]], lane, all && equal != mask ? 0U : equal);
    if (in.destinations == 2) {
      put(warp[in.reg[1]], lane, equal == mask);
    }
  });
}

template <class T>
void run_redux(Warp& warp, const Instruction& in, uint32_t mask) {
  const Register& values = warp[in.reg[1]];
  bool first = true;
  T total = 0;
  for_lanes(mask, [&](uint32_t lane) {
    const T value = get<T>(values, lane);
    if (first) {
      total = value;
      first = false;
      return;
    }
    switch (static_cast<Reduction>(in.extra)) {
      case Reduction::kAdd:
        total = static_cast<T>(static_cast<uint32_t>(total) + static_cast<uint32_t>(value));
        break;
      case Reduction::kMin:
        total = std::min(total, value);
        break;
      case Reduction::kMax:
        total = std::max(total, value);
        break;
      case Reduction::kAnd:
        total = static_cast<T>(total & value);
        break;
      case Reduction::kOr:
        total = static_cast<T>(total | value);
        break;
      case Reduction::kXor:
        total = static_cast<T>(total ^ value);
        break;
    }
  });
  for_lanes(mask, [&](uint32_t lane) { put(warp[in.reg[0]], lane, total); });
}

// One of several modifiers, as its index.
uint64_t take_one(Decoder& at, std::initializer_list<std::string_view> names) {
  uint64_t index = 0;
  for (const std::string_view name : names) {
    if (at.take(name)) {
      return index;
    }
    ++index;
  }
  at.fail("the operation is missing");
  return 0;
}

void decode_results(Decoder& at, Type type) {
  const Operand& result = at.operand(0);
  if (result.kind == Operand::Kind::kPair) {
    at.destination(result.parts[0], type);
    at.destination(result.parts[1], kPredicate);
  } else {
    at.destination(result, type);
  }
}

}  // namespace

bool decode_exchanges(Decoder& at) {
  const std::string_view name = at.opcode();
  if (name == "activemask") {
    at.take_type();
    at.destination(0, kWord);
    at.in.run = run_active;
    return true;
  }
  if (name != "shfl" && name != "vote" && name != "match" && name != "redux") {
    return false;
  }
  at.in.flow = Flow::kConverge;
  if (!at.take("sync")) {
    at.fail("exchanges without `.sync` have no member mask");
  }
  if (name == "shfl") {
    at.in.extra = take_one(at, {"up", "down", "bfly", "idx"});
    at.take_type();
    at.expect_operands(5, 5);
    decode_results(at, kWord);
    at.source(1, kWord);
    at.source(2, kWord);
    at.source(3, kWord);
    at.source(4, kWord);
    at.in.run = run_shuffle;
  } else if (name == "vote") {
    at.in.extra = take_one(at, {"all", "any", "uni", "ballot"}) | (at.operand(1).negated ? 1U << 8 : 0U);
    const Type type = at.take_type();
    at.expect_operands(3, 3);
    at.destination(0, type);
    at.source(1, kPredicate);
    at.source(2, kWord);
    at.in.run = run_vote;
  } else if (name == "match") {
    at.in.extra = take_one(at, {"any", "all"});
    const Type type = at.take_type();
    at.expect_operands(3, 3);
    decode_results(at, kWord);
    at.source(1, type);
    at.source(2, kWord);
    at.in.run = type.bits == 64 ? run_match<uint64_t> : run_match<uint32_t>;
  } else {
    at.in.extra = take_one(at, {"add", "min", "max", "and", "or", "xor"});
    const Type type = at.take_type();
    if (type.bits != 32 || type.is_float()) {
      at.fail("`redux` needs integers of 32 bits");
    }
    at.expect_operands(3, 3);
    at.destination(0, type);
    at.source(1, type);
    at.source(2, kWord);
    at.in.run = type.is_signed() ? run_redux<int32_t> : run_redux<uint32_t>;
  }
  return true;
}

}  // namespace xrun::ptx
