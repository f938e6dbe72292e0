// Positions of each tensor's sums of squares among those of a step that clips by norm: tensors that have a gradient, in
// name order, one f64 for each chunk of kNormChunk elements, or for each class block of a head's tensors
// (docs/internals/determinism.md, "Scalars").
#pragma once

#include <vector>

#include "graph/module.h"

namespace xrun {

// Elements of a tensor whose squares one owner sums; the last chunk may be shorter.
inline constexpr int64_t kNormChunk = 4096;

struct NormLayout {
  std::vector<int64_t> first;  // index: parameter; position of its first sum, -1 if it is not counted
  std::vector<int64_t> count;  // index: parameter
  int64_t total = 0;

  Bytes bytes() const { return total * static_cast<Bytes>(sizeof(double)); }
};

NormLayout norm_layout(const Module& module);

}  // namespace xrun
