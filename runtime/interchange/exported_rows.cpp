#include "runtime/interchange/exported_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "graph/base/check.h"
#include "ops/head/row_format.h"

namespace xrun::runtime {
namespace {

// Divides each row by its norm, which is computed in f64, or by 1e-12 if that is larger.
void make_unit(float* rows, int64_t count, int64_t dim) {
  for (int64_t r = 0; r < count; ++r, rows += dim) {
    double squares = 0;
    for (int64_t i = 0; i < dim; ++i) {
      squares += static_cast<double>(rows[i]) * static_cast<double>(rows[i]);
    }
    const double norm = std::max(std::sqrt(squares), 1e-12);
    for (int64_t i = 0; i < dim; ++i) {
      rows[i] = static_cast<float>(static_cast<double>(rows[i]) / norm);
    }
  }
}

// Rows in fp8 are read in groups of about this many numbers.
constexpr int64_t kGroup = 1 << 20;

// Returns the scale of a row in fp8. With `unit`, it is divided by the norm of the rounded row.
float scale_of(float* row, int64_t dim, bool unit, std::byte* bytes) {
  const float scale = ops::store_nearest(RowFormat::kFp8, row, dim, bytes);
  if (!unit) {
    return scale;
  }
  ops::load_row(RowFormat::kFp8, bytes, scale, dim, row);
  double squares = 0;
  for (int64_t i = 0; i < dim; ++i) {
    squares += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  }
  return static_cast<float>(static_cast<double>(scale) / std::max(std::sqrt(squares), 1e-12));
}

// Writes the numbers in fp8 of the constant's rows, or their scales.
void read_fp8(const StateTensor& tensor, const TrainState& state, const ops::OnnxTensor& constant, std::byte* out) {
  const int64_t dim = tensor.row_elements();
  const int64_t rows = constant.dims[0];
  const int64_t step = std::max<int64_t>(1, kGroup / dim);
  std::vector<float> values(static_cast<size_t>(std::min(rows, step) * dim));
  std::vector<std::byte> numbers(static_cast<size_t>(dim));
  auto* const scales = reinterpret_cast<float*>(out);
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t end = std::min(rows, first + step);
    state.read_current(tensor, constant.first_row + first, constant.first_row + end, values.data());
    for (int64_t r = first; r < end; ++r) {
      float* const row = values.data() + (r - first) * dim;
      if (constant.part == ops::OnnxTensor::Part::kScales) {
        scales[r] = scale_of(row, dim, constant.unit_rows, numbers.data());
      } else {
        ops::store_nearest(RowFormat::kFp8, row, dim, out + r * dim);
      }
    }
  }
}

}  // namespace

void read_exported(const Graph& graph, const TrainState& state, const ops::OnnxTensor& constant, std::byte* out) {
  const StateTensor* const tensor = state.find(graph.param(constant.param).name);
  XRUN_CHECK(tensor != nullptr, "a parameter of the model is not in the state");
  if (constant.part != ops::OnnxTensor::Part::kRows) {
    read_fp8(*tensor, state, constant, out);
    return;
  }
  auto* const values = reinterpret_cast<float*>(out);
  const int64_t rows = constant.dims.empty() ? 1 : constant.dims[0];
  state.read_current(*tensor, constant.first_row, constant.first_row + rows, values);
  if (constant.unit_rows) {
    make_unit(values, rows, constant.dims[1]);
  }
}

}  // namespace xrun::runtime
