// The mathematics of a sharded classifier head as data: the head operator gives the form of the logits, the loss gives
// the margin (docs/algorithms.md, "Head pass" and "Margins"). Planner and executor read these values, never operator
// names.
#pragma once

#include <cstdint>
#include <string_view>

namespace xrun {

// logits = x Wᵀ (+ bias), or the cosine of x and each class weight.
struct HeadForm {
  bool cosine = false;
  bool bias = false;
};

// How class rows, or states of their optimizer, lie in memory; they are computed with as f32. fp8 is e4m3 (four bits of
// exponent, three of mantissa) with an f32 scale for each row.
enum class RowFormat : uint8_t { kF32, kBf16, kFp8 };
constexpr int64_t element_bytes(RowFormat format) {
  return format == RowFormat::kF32 ? 4 : format == RowFormat::kBf16 ? 2 : 1;
}

constexpr std::string_view name_of(RowFormat format) {
  return format == RowFormat::kF32 ? "f32" : format == RowFormat::kBf16 ? "bf16" : "fp8";
}

// What the optimizer does with rows of classes that no step uses: nothing, or, once a step uses them, all that it would
// have done meanwhile with gradients of zero.
enum class Untouched : uint8_t { kAsIs, kExact };

// Where class rows lie with the states of their optimizer: in memory, or in a file that is mapped.
enum class RowPlace : uint8_t { kMemory, kMapped };

// Entries of a class's list of nearest classes.
inline constexpr int64_t kMostNeighbours = 4096;
// Cells whose classes an approximate graph compares a class with.
inline constexpr int64_t kUsualProbes = 16;
inline constexpr int64_t kMostProbes = 4096;

enum class MarginGrad { kCapped, kExact, kStraight, kThreshold };

// loss of a row = logsumexp(z) - z_target, z = scale · margin(logits): psi(theta) = cos(m1·theta + m2) - m3 on the
// target column only. m1 = 1, m2 = m3 = 0 is plain softmax cross entropy, on logits that need not be cosines.
struct MarginForm {
  double scale = 1;
  double m1 = 1;
  double m2 = 0;
  double m3 = 0;
  double smoothing = 0;
  double filter = 1;  // cosines above it, of classes that are not the row's target, count as 0; 1: none
  bool easy = false;
  MarginGrad grad = MarginGrad::kCapped;

  bool angular() const { return m1 != 1 || m2 != 0; }
  // Whether logits must be cosines: of a head whose form says so.
  bool of_cosines() const { return angular() || m3 != 0 || filter < 1; }
  bool operator==(const MarginForm&) const = default;
};

}  // namespace xrun
