// The mathematics of a sharded classifier head as data: the head operator gives the form of the logits, the loss gives
// the margin (docs/internals/algorithms.md, "Head pass" and "Margins"). Planner and executor read these values, never
// operator names.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace xrun {

class ScalarExpr;  // graph/types/scalar_expr.h

// The form of the logits: x Wᵀ (+ bias), or the cosine of x and each class weight.
struct HeadForm {
  bool cosine = false;
  bool bias = false;
};

// The storage format of class rows or their optimizer states; all arithmetic is in f32. fp8 is e4m3 (four bits of
// exponent, three of mantissa) with an f32 scale for each row.
enum class RowFormat : uint8_t { kF32, kBf16, kFp8 };
constexpr int64_t element_bytes(RowFormat format) {
  return format == RowFormat::kF32 ? 4 : format == RowFormat::kBf16 ? 2 : 1;
}

constexpr std::string_view name_of(RowFormat format) {
  return format == RowFormat::kF32 ? "f32" : format == RowFormat::kBf16 ? "bf16" : "fp8";
}

// How the optimizer treats class rows that a step does not use. kAsIs leaves them unchanged. With kExact a row catches
// up when a step next uses it: first the updates are applied that it would have had meanwhile with zero gradients.
enum class Untouched : uint8_t { kAsIs, kExact };

// Where class rows and their optimizer states are stored: in memory, or in a mapped file.
enum class RowPlace : uint8_t { kMemory, kMapped };

// The longest list of nearest classes that a class may have.
inline constexpr int64_t kMostNeighbours = 4096;
// The number of cells whose classes are compared with a class to build an approximate graph of nearest classes: the
// default and the maximum.
inline constexpr int64_t kUsualProbes = 16;
inline constexpr int64_t kMostProbes = 4096;

enum class MarginGrad { kCapped, kExact, kStraight, kThreshold };

// The margin of a loss. The loss of a row is logsumexp(z) - z_target with z = scale · margin(logits). On the target
// column the margin replaces cos(theta) by psi(theta) = cos(m1·theta + m2) - m3; the other columns stay. With the
// defaults m1 = 1, m2 = 0, m3 = 0 this is plain softmax cross entropy, whose logits need not be cosines.
struct MarginForm {
  double scale = 1;
  double m1 = 1;
  double m2 = 0;
  double m3 = 0;
  double smoothing = 0;
  double filter = 1;  // cosines above it, of classes other than the row's target, count as 0; 1: no filter
  bool easy = false;
  MarginGrad grad = MarginGrad::kCapped;
  // An own margin: an expression of the target's cosine with two results, psi and its derivative. It replaces m1, m2,
  // m3 and the variants. Null: the formula above.
  std::shared_ptr<const ScalarExpr> own;

  // Whether the derivative of the target's logit by its cosine differs from 1.
  bool angular() const { return own != nullptr || m1 != 1 || m2 != 0; }
  // Whether the logits must be cosines (HeadForm::cosine).
  bool of_cosines() const { return angular() || m3 != 0 || filter < 1; }
  bool operator==(const MarginForm&) const = default;
};

}  // namespace xrun
