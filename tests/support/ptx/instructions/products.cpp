// mma.sync: d [16, 8] = a [16, depth] * b [depth, 8] + c [16, 8] in the registers of a warp.
// Tests: tests/ptx/products_test.cpp
#include <algorithm>
#include <cfenv>
#include <limits>
#include <optional>
#include <vector>

#include "tests/support/ptx/block.h"
#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"
#include "tests/support/ptx/instructions/narrow.h"
#include "tests/support/ptx/mma_model.h"

namespace xrun::ptx {

namespace {

enum class Elements : uint8_t { kBfloat, kHalf, kTf32, kE4m3, kE5m2, kSigned, kUnsigned };

// Instruction::extra: the depth, the elements of a and b, and whether integers end at the range.
constexpr int kLeftShift = 8;
constexpr int kRightShift = 16;
constexpr uint64_t kEnds = 1 << 24;

size_t bits_of(Elements elements) {
  return elements == Elements::kTf32 ? 32 : elements == Elements::kBfloat || elements == Elements::kHalf ? 16 : 8;
}

// Calls use(matrix, row or column, k, bits) for each element of a (0) and b (1). A register has `width` elements; those
// of lane l are in row l / 4 of a or column l / 4 of b. The next registers are 8 rows below, or 4 * width further in k.
template <class Use>
void for_elements(Warp& warp, const Instruction& in, const Use& use) {
  const size_t depth = in.extra & 0xff;
  const size_t bits = bits_of(static_cast<Elements>(in.extra >> kLeftShift & 0xff));
  const size_t width = 32 / bits;
  const size_t left = depth / (2 * width);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const size_t first = width * (lane % 4);
    for (size_t i = 0; i < left + left / 2; ++i) {
      const auto word = get<uint32_t>(warp[in.reg[4 + i]], lane);
      const bool is_left = i < left;
      const size_t row = lane / 4 + (is_left ? 8 * (i % 2) : 0);
      const size_t k = first + 4 * width * (is_left ? i / 2 : i - left);
      for (size_t e = 0; e < width; ++e) {
        use(is_left ? 0 : 1, row, k + e, bits == 32 ? word : word >> (bits * e) & ((1U << bits) - 1));
      }
    }
  }
}

// Calls value(row, column, addend) for each element of the result; the addends are the last four sources.
template <class T, class Value>
void give_results(Warp& warp, const Instruction& in, const Value& value) {
  const size_t addends = size_t{in.destinations} + in.sources - 4;
  std::array<std::array<T, kLanes>, 4> results;  // the registers of a result may be those of an addend
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (size_t i = 0; i < 4; ++i) {
      results[i][lane] = value(lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2, get<T>(warp[in.reg[addends + i]], lane));
    }
  }
  for (size_t i = 0; i < 4; ++i) {
    for_lanes(kAllLanes, [&](uint32_t lane) { put(warp[in.reg[i]], lane, results[i][lane]); });
  }
}

Term term_of(Elements elements, uint32_t bits) {
  switch (elements) {
    case Elements::kBfloat:
      return term_of_bfloat(static_cast<uint16_t>(bits));
    case Elements::kTf32:
      return term_of_tf32(bits);
    case Elements::kE4m3:  // all numbers of 8 bits are numbers of f16
      return term_of_half(static_cast<uint16_t>(encode(kF16Format, decode(kE4m3Format, bits), FE_TONEAREST)));
    case Elements::kE5m2:
      return term_of_half(static_cast<uint16_t>(bits << 8));
    default:
      return term_of_half(static_cast<uint16_t>(bits));
  }
}

// Products of numbers of 16 or 32 bits.
void run_floats(Warp& warp, const Instruction& in, uint32_t /*mask*/) {
  const size_t depth = in.extra & 0xff;
  const auto elements = static_cast<Elements>(in.extra >> kLeftShift & 0xff);
  const TensorCore core = tensor_core(warp.block().options().generation, bits_of(elements) / 8);
  std::array<std::array<std::array<Term, 16>, 16>, 2> terms;  // [a or b, row or column, k]
  for_elements(warp, in, [&](size_t matrix, size_t row, size_t k, uint32_t bits) {
    terms[matrix][row][k] = term_of(elements, bits);
  });
  give_results<float>(warp, in, [&](size_t row, size_t column, float addend) {
    return sum_of_products(core, std::span<const Term>(terms[0][row]).first(depth),
                           std::span<const Term>(terms[1][column]).first(depth), addend);
  });
}

// Products of numbers of 8 bits. ptxas 13.0 makes, for sm_90 and sm_100, products of f16: first of the elements with
// k % 4 < 2, then of the others with the first sum as addend, and adds c last, as f32 to nearest.
void run_bytes(Warp& warp, const Instruction& in, uint32_t /*mask*/) {
  const size_t half = (in.extra & 0xff) / 2;
  const TensorCore core = tensor_core(warp.block().options().generation);
  std::array<std::array<std::array<std::array<Term, 16>, 2>, 16>, 2> terms;  // [a or b, row or column, half, k]
  for_elements(warp, in, [&](size_t matrix, size_t row, size_t k, uint32_t bits) {
    const auto elements = static_cast<Elements>(in.extra >> (matrix == 0 ? kLeftShift : kRightShift) & 0xff);
    terms[matrix][row][k % 4 / 2][k / 4 * 2 + k % 2] = term_of(elements, bits);
  });
  give_results<float>(warp, in, [&](size_t row, size_t column, float addend) {
    float sum = 0;
    for (size_t part = 0; part < 2; ++part) {
      sum = sum_of_products(core, std::span<const Term>(terms[0][row][part]).first(half),
                            std::span<const Term>(terms[1][column][part]).first(half), sum);
    }
    const float total = sum + addend;
    return total != total ? std::bit_cast<float>(0x7fffffffU) : total;
  });
}

void run_integers(Warp& warp, const Instruction& in, uint32_t /*mask*/) {
  const size_t depth = in.extra & 0xff;
  std::array<std::array<std::array<int32_t, 32>, 16>, 2> values;
  for_elements(warp, in, [&](size_t matrix, size_t row, size_t k, uint32_t bits) {
    const auto elements = static_cast<Elements>(in.extra >> (matrix == 0 ? kLeftShift : kRightShift) & 0xff);
    values[matrix][row][k] =
        elements == Elements::kSigned ? static_cast<int8_t>(bits) : static_cast<int32_t>(bits & 0xff);
  });
  give_results<int32_t>(warp, in, [&](size_t row, size_t column, int32_t addend) {
    int64_t sum = addend;
    for (size_t k = 0; k < depth; ++k) {
      sum += values[0][row][k] * values[1][column][k];
    }
    if ((in.extra & kEnds) != 0) {
      sum = std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
    }
    return static_cast<int32_t>(sum);
  });
}

std::optional<Elements> elements_of(Type type) {
  static constexpr std::pair<Type, Elements> kElements[] = {
      {{TypeKind::kBfloat, 16}, Elements::kBfloat},   {{TypeKind::kFloat, 16}, Elements::kHalf},
      {{TypeKind::kTf32, 32}, Elements::kTf32},       {{TypeKind::kE4m3, 8}, Elements::kE4m3},
      {{TypeKind::kE5m2, 8}, Elements::kE5m2},        {{TypeKind::kSigned, 8}, Elements::kSigned},
      {{TypeKind::kUnsigned, 8}, Elements::kUnsigned}};
  for (const auto& [known, elements] : kElements) {
    if (type == known) {
      return elements;
    }
  }
  return std::nullopt;
}

// Returns whether one instruction accepts these types of a and b.
bool go_together(Elements a, Elements b) {
  const auto among = [&](Elements first, Elements second) {
    return (a == first || a == second) && (b == first || b == second);
  };
  return a == b || among(Elements::kE4m3, Elements::kE5m2) || among(Elements::kSigned, Elements::kUnsigned);
}

void decode_operands(Decoder& at, size_t depth, size_t width, Type sum) {
  const std::array<size_t, 4> counts{4, depth / (2 * width), depth / (4 * width), 4};
  at.expect_operands(4, 4);
  for (size_t i = 0; i < 4; ++i) {
    const Operand& operand = at.operand(i);
    const std::vector<Operand> parts =
        operand.kind == Operand::Kind::kVector ? operand.parts : std::vector<Operand>{operand};
    if (parts.size() != counts[i]) {
      at.fail("the number of registers does not match the matrices");
      return;
    }
    for (const Operand& part : parts) {
      const Type type = i == 0 || i == 3 ? sum : Type{TypeKind::kBits, 32};
      i == 0 ? at.destination(part, type) : at.source(part, type);
    }
  }
}

}  // namespace

bool decode_products(Decoder& at) {
  if (at.opcode() != "mma") {
    return false;
  }
  if (!at.take("sync") || !at.take("aligned")) {
    at.fail("`.sync.aligned` is missing");
  }
  at.in.flow = Flow::kConverge;
  at.in.whole_warp = true;
  const size_t depth = at.take("m16n8k4")    ? 4
                       : at.take("m16n8k8")  ? 8
                       : at.take("m16n8k16") ? 16
                       : at.take("m16n8k32") ? 32
                                             : 0;
  const bool layout = at.take("row") && at.take("col");
  const std::array<Type, 4> types{at.take_type(), at.take_type(), at.take_type(), at.take_type()};
  const std::optional<Elements> left = elements_of(types[1]);
  const std::optional<Elements> right = elements_of(types[2]);
  const bool integers = left == Elements::kSigned || left == Elements::kUnsigned;
  const Type sum = integers ? Type{TypeKind::kSigned, 32} : Type{TypeKind::kFloat, 32};
  const size_t width = left ? 32 / bits_of(*left) : 0;
  const bool fits = left && right && go_together(*left, *right) && (depth == 4 * width || depth == 8 * width);
  if (!layout || !fits || types[0] != sum || types[3] != sum) {
    at.fail(
        "only `.m16n8` products with `.row.col` of bf16, f16, tf32 and fp8 into f32 are executed, and of 8-bit "
        "integers");
    return true;
  }
  if (width == 4 && !integers) {
    at.need_target(89);
  }
  at.in.extra = depth | static_cast<uint64_t>(*left) << kLeftShift | static_cast<uint64_t>(*right) << kRightShift |
                (integers && at.take("satfinite") ? kEnds : 0);
  decode_operands(at, depth, width, sum);
  at.in.run = integers ? run_integers : width == 4 ? run_bytes : run_floats;
  return true;
}

}  // namespace xrun::ptx
