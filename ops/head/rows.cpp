#include "ops/head/rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/head/loops/kernels.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

float feature_at(const HeadShape& shape, const std::byte* features, int64_t row, int64_t d) {
  const int64_t at = row * shape.dim + d;
  return shape.features == DType::kBF16  ? to_float(reinterpret_cast<const Bf16*>(features)[at])
         : shape.features == DType::kF16 ? to_float(reinterpret_cast<const Half*>(features)[at])
                                         : reinterpret_cast<const float*>(features)[at];
}

float rounded_operand(const HeadShape& shape, float x) {
  return shape.bf16 ? to_float(to_bf16(x)) : shape.f16 ? to_float(to_f16(x)) : x;
}

double exact_inverse_norm_of_row(const HeadShape& shape, const std::byte* features, int64_t row) {
  double squares = 0;
  for (int64_t d = 0; d < shape.dim; ++d) {
    const double x = feature_at(shape, features, row, d);
    squares += x * x;
  }
  return 1 / std::max(std::sqrt(squares), static_cast<double>(kHeadEpsilon));
}

float inverse_norm_of_row(const HeadShape& shape, const std::byte* features, int64_t row) {
  return static_cast<float>(exact_inverse_norm_of_row(shape, features, row));
}

void pack_rows(const HeadShape& shape, const HeadLayout& layout, bool pairs, const std::byte* features, int64_t begin,
               int64_t end, uint32_t* logit_rows, uint32_t* gradient_rows) {
  const int64_t dims = layout.dim_padded;
  const int64_t rows = layout.rows_padded;
  for (int64_t place = begin; place < end; ++place) {
    const int64_t row = row_at(shape, layout, place);
    const float inverse = row < 0 || !shape.form.cosine ? 1.0F : inverse_norm_of_row(shape, features, row);
    for (int64_t d = 0; d < dims; ++d) {
      const float x = row < 0 || d >= shape.dim ? 0.0F : feature_at(shape, features, row, d) * inverse;
      if (pairs) {
        const Bf16 value = to_bf16(x);
        const int64_t at = ((place / 32) * (dims / 2) + d / 2) * 64 + place % 32 * 2 + d % 2;
        reinterpret_cast<Bf16*>(logit_rows)[at] = value;
        if (gradient_rows != nullptr) {
          const int64_t there = ((d / 32) * (rows / 2) + place / 2) * 64 + d % 32 * 2 + place % 2;
          reinterpret_cast<Bf16*>(gradient_rows)[there] = value;
        }
      } else {
        const float value = rounded_operand(shape, x);
        std::memcpy(logit_rows + ((place / 32) * dims + d) * 32 + place % 32, &value, sizeof value);
        if (gradient_rows != nullptr) {
          std::memcpy(gradient_rows + ((d / 32) * rows + place) * 32 + d % 32, &value, sizeof value);
        }
      }
    }
  }
}

}  // namespace xrun::ops
