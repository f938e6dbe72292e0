// The scalars of sgd and adamw for one step and one tensor, as the loops of the processor and the kernels of GPUs read
// them. A GPU reads them in its memory, since the scale of gradients may be computed there.
#pragma once

#include <limits>

namespace xrun::ops {

struct KnownScalars {
  float rate = 0;
  float decay = 0;  // weight decay; 0 if the tensor does not decay
  float momentum = 0;
  float keep1 = 0;  // beta1
  float take1 = 0;  // 1 - beta1
  float keep2 = 0;
  float take2 = 0;
  float correct1 = 1;  // 1 / (1 - beta1^t)
  float correct2 = 1;  // 1 / (1 - beta2^t)
  float eps = 0;
  float grad_scale = 1;  // clipping by norm: factor on each gradient, applied first
  float grad_limit = std::numeric_limits<float>::infinity();  // clipping by value: bound, applied after grad_scale
};

}  // namespace xrun::ops
