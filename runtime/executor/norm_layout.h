// Where each tensor's partial sums of squares lie in a kNorms buffer: tensors that have a gradient, in name order, one
// f64 for each chunk of kNormChunk elements, or for each class block of a head's tensors (DETERMINISM 15).
#pragma once

#include <vector>

#include "graph/module.h"

namespace xrun::runtime {

struct NormLayout {
  std::vector<int64_t> first;  // by parameter: index of its first sum; -1 where it is not counted
  std::vector<int64_t> count;  // by parameter
  int64_t total = 0;
};

NormLayout norm_layout(const Module& module);

}  // namespace xrun::runtime
