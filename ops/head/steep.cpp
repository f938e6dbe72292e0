#include "ops/head/steep.h"

#include <algorithm>
#include <cmath>

#include "ops/head/rows.h"
#include "ops/simd/simd.h"

namespace xrun::ops {
namespace {

bool is_steep(const HeadShape& shape) { return shape.form.cosine && shape.margin.angular(); }

// Calls body(padded row, index of its target in `classes`) for the rows whose target is in `classes` and has a slope
// other than 1.
template <typename Body>
void for_steep_rows(const HeadWork& pass, TileClasses classes, const Body& body) {
  const int32_t* labels = pass.labels();
  for (int64_t row = 0; row < pass.layout.rows_padded; ++row) {
    const int64_t inside = labels[row] - classes.begin;
    if (inside >= 0 && inside < classes.count && pass.plane(kSteep)[row] != 0) {
      body(row, inside);
    }
  }
}

}  // namespace

void take_steep(const HeadWork& pass, const ClassTile& tile, bool for_dx, float* dw) {
  const HeadShape& shape = pass.shape;
  if (!is_steep(shape)) {
    return;
  }
  const int64_t dims = pass.layout.dim_padded;
  const auto operand = [&](float x, float inverse, double exact) {
    return shape.bf16 || shape.f16 ? static_cast<double>(rounded_operand(shape, x * inverse)) : x * exact;
  };
  for_steep_rows(pass, tile.classes, [&](int64_t row, int64_t inside) {
    const double g = pass.plane(kSteep)[row];
    const double cosine = pass.plane(kCosine)[row];
    const int64_t source = row_at(shape, pass.layout, row);
    const float* w = tile.weight + inside * shape.dim;
    double squares = 0;
    for (int64_t d = 0; d < shape.dim; ++d) {
      squares += static_cast<double>(w[d]) * w[d];
    }
    const double w_inverse = 1 / std::max(std::sqrt(squares), static_cast<double>(kHeadEpsilon));
    const double x_inverse = exact_inverse_norm_of_row(shape, pass.rows.features, source);
    for (int64_t d = 0; d < shape.dim; ++d) {
      const float x = feature_at(shape, pass.rows.features, source, d);
      if (for_dx) {
        const double across = operand(w[d], tile.inverse[inside], w_inverse) - cosine * x * x_inverse;
        pass.part<float>(pass.at.steep)[row * dims + d] = static_cast<float>(g * across);
      }
      if (dw != nullptr) {
        const double across = operand(x, static_cast<float>(x_inverse), x_inverse) - cosine * w[d] * w_inverse;
        dw[inside * dims + d] += static_cast<float>(g * across);
      }
    }
  });
}

void add_steep(const HeadWork& pass, TileClasses classes, float* dx) {
  if (!is_steep(pass.shape)) {
    return;
  }
  const int64_t dims = pass.layout.dim_padded;
  for_steep_rows(pass, classes, [&](int64_t row, int64_t) {
    const float* part = pass.part<float>(pass.at.steep) + row * dims;
    for (int64_t d = 0; d < pass.shape.dim; ++d) {
      dx[row * dims + d] += part[d];
    }
  });
}

}  // namespace xrun::ops
