#include "runtime/interchange/exported_rows.h"

#include <algorithm>
#include <cmath>

#include "graph/base/check.h"

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

}  // namespace

void read_exported(const Graph& graph, const TrainState& state, const ops::OnnxTensor& constant, float* out) {
  const StateTensor* const tensor = state.find(graph.param(constant.param).name);
  XRUN_CHECK(tensor != nullptr, "a parameter of the model is not in the state");
  const int64_t rows = constant.dims.empty() ? 1 : constant.dims[0];
  state.read_current(*tensor, constant.first_row, constant.first_row + rows, out);
  if (constant.unit_rows) {
    make_unit(out, rows, constant.dims[1]);
  }
}

}  // namespace xrun::runtime
