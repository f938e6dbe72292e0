#include "ops/loops/copies.h"

#include "ops/shape.h"

namespace xrun::ops {

Copies copy_from(const KernelSpec& spec, int64_t from, const std::vector<int64_t>& strides) {
  const TensorType& y = spec.outputs[0];
  return {{{.from = from, .loop = {block_dims(y, spec.rows), {block_strides(y, spec.rows), strides}}}}};
}

Copies copy_to(const KernelSpec& spec, int64_t to, const std::vector<int64_t>& strides) {
  const TensorType& x = spec.inputs[0];
  return {{{.to = to, .loop = {block_dims(x, spec.rows), {strides, block_strides(x, spec.rows)}}}},
          block_elements(spec.outputs[0], spec.rows)};
}

}  // namespace xrun::ops
