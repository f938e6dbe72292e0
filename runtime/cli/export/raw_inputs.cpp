// The stages run in the loader's own code (runtime/data/augment/transform.h), as in an evaluation.
// Tests: tests/runtime/cli/commands/export_preprocess_test.cpp
#include "runtime/cli/export/raw_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "graph/base/random.h"
#include "runtime/data/augment/transform.h"
#include "runtime/interchange/random_rows.h"

namespace xrun::cli {
namespace {

bool is_picture(const TensorType& type) { return type.rank() == 4 && type.dtype == DType::kU8; }

// The largest side that a stage asks for or that the input has.
int64_t largest_side(const ops::OnnxPreprocessing& from, const TensorType& target) {
  int64_t most = std::max(target.dims[2], target.dims[3]);
  for (const CallSpec& stage : from.stages) {
    if (stage.args.has("size")) {
      const auto [height, width] = picture_sides(stage.args);
      most = std::max({most, height, width});
    }
    most = std::max(most, stage.args.integer("shorter", 0));
  }
  return most;
}

// Compiles the binding for pictures of any size, and sets their sides in `field`: larger than every size that a stage
// asks for, by different factors in height and width. If no stage cuts such a picture to the sides of the input, as
// after `resize(shorter=24)`, the sides are twice those of the input, or those of the input.
Result<runtime::Transform> compile_for_any_side(const DataBinding& binding, const ops::OnnxPreprocessing& from,
                                                const TensorType& target, Field& field) {
  const int64_t most = largest_side(from, target);
  const int64_t height = target.dims[2];
  const int64_t width = target.dims[3];
  const std::pair<int64_t, int64_t> sides[] = {
      {most + most / 3 + 7, most + most / 2 + 12}, {2 * height, 2 * width}, {height, width}};
  for (size_t i = 0;; ++i) {
    std::tie(field.type.dims[2], field.type.dims[3]) = sides[i];
    auto transform = runtime::Transform::compile(binding, field, target);
    if (transform.ok() || i + 1 == std::size(sides)) {
      return transform;
    }
  }
}

// Copies `rows` samples [C, positions] of elements of `size` bytes to [positions, C], or the other way.
std::vector<std::byte> exchanged(const std::vector<std::byte>& from, int64_t rows, int64_t channels, int64_t positions,
                                 size_t size, bool to_last) {
  std::vector<std::byte> to(from.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < positions; ++p) {
        const auto planar = static_cast<size_t>((r * channels + c) * positions + p) * size;
        const auto last = static_cast<size_t>((r * positions + p) * channels + c) * size;
        std::memcpy(to.data() + (to_last ? last : planar), from.data() + (to_last ? planar : last), size);
      }
    }
  }
  return to;
}

// Every seventh number becomes NaN.
void leave_out(std::vector<std::byte>& numbers, DType dtype) {
  const auto size = static_cast<size_t>(size_of(dtype));
  for (size_t at = 0; at + size <= numbers.size(); at += 7 * size) {
    if (dtype == DType::kF64) {
      const double missing = std::numeric_limits<double>::quiet_NaN();
      std::memcpy(numbers.data() + at, &missing, size);
    } else if (dtype == DType::kF32) {
      const float missing = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(numbers.data() + at, &missing, size);
    }
  }
}

}  // namespace

Result<RawInput> make_raw_input(const ops::OnnxPreprocessing& from, const TensorType& target, int64_t rows,
                                uint64_t seed) {
  Field field = from.field;
  const DataBinding binding{.target = from.input, .field = field.name, .stages = from.stages, .span = {}};
  const bool any_side = field.type.rank() == 4 && field.type.dims[2] == ops::kAnySide;
  XRUN_ASSIGN(runtime::Transform transform, any_side ? compile_for_any_side(binding, from, target, field)
                                                     : runtime::Transform::compile(binding, field, target));
  if (transform.standardizes()) {
    transform.standardize_by(from.means, from.deviations);
  }
  RawInput made{.given = runtime::random_numbers(field.type, rows, RandomStream(seed, stable_hash(from.input)))};
  if (std::ranges::find(from.stages, "fill_missing", &CallSpec::name) != from.stages.end()) {
    leave_out(made.given, field.type.dtype);
  }
  const std::span<const int64_t> sample = std::span(field.type.dims).subspan(1);
  const auto sample_bytes = static_cast<size_t>(field.type.row_elements() * size_of(field.type.dtype));
  const auto row_bytes = static_cast<size_t>(transform.row_bytes());
  made.rows.resize(static_cast<size_t>(rows) * row_bytes);
  runtime::AugmentScratch scratch;
  for (int64_t r = 0; r < rows; ++r) {
    const auto at = static_cast<size_t>(r);
    scratch.source.set_view(field.type.dtype, sample, std::span(made.given).subspan(at * sample_bytes, sample_bytes));
    XRUN_TRY(transform.run(scratch, {.training = false}, made.rows.data() + at * row_bytes));
  }
  if (target.rank() == 4) {
    made.rows = exchanged(made.rows, rows, target.dims[1], target.dims[2] * target.dims[3],
                          static_cast<size_t>(size_of(target.dtype)), false);
  }
  made.dims.assign(sample.begin(), sample.end());
  if (is_picture(field.type)) {
    std::rotate(made.dims.begin(), made.dims.begin() + 1, made.dims.end());
    made.given = exchanged(made.given, rows, sample[0], sample[1] * sample[2], 1, true);
  }
  return made;
}

}  // namespace xrun::cli
