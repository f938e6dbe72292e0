#include "runtime/device/cpu/fold.h"

namespace xrun::runtime {

void fold_tree(std::span<float* const> terms, int64_t count) {
  for (size_t stride = 1; stride < terms.size(); stride *= 2) {
    for (size_t i = 0; i + stride < terms.size(); i += 2 * stride) {
      float* const sum = terms[i];
      const float* const other = terms[i + stride];
      for (int64_t e = 0; e < count; ++e) {
        sum[e] += other[e];
      }
    }
  }
}

}  // namespace xrun::runtime
