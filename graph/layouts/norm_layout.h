// The order of the sums of squares that a step stores if it clips by norm. There is one f64 for each chunk of
// kNormChunk elements of a tensor, or for each class block of a head's tensors. The tensors that have a gradient follow
// each other in name order (docs/internals/determinism.md, "Scalars").
#pragma once

#include <vector>

#include "graph/module.h"

namespace xrun {

// The number of elements of a chunk, whose squares are summed in one place. The last chunk of a tensor may be shorter.
inline constexpr int64_t kNormChunk = 4096;

struct NormLayout {
  std::vector<int64_t> first;  // index: parameter; position of its first sum, -1 if it is not counted
  std::vector<int64_t> count;  // number of sums of the parameter; index: parameter
  int64_t total = 0;

  Bytes bytes() const { return total * static_cast<Bytes>(sizeof(double)); }
};

NormLayout norm_layout(const Module& module);

}  // namespace xrun
