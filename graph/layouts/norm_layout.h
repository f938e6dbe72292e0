// The order of the sums of squares that a step stores if it clips by norm or scales its loss. There is one f64 for each
// chunk of kNormChunk elements of a tensor, or for each class block of a head's tensors. The tensors that have a
// gradient follow each other in name order (docs/internals/determinism.md, "Scalars").
#pragma once

#include <vector>

#include "graph/module.h"

namespace xrun {

// The number of elements of a chunk, whose squares are summed in one place. The last chunk of a tensor may be shorter.
inline constexpr int64_t kNormChunk = 4096;

struct NormLayout {
  std::vector<int64_t> first;  // index: parameter; position of its first sum, -1 if it is not counted
  std::vector<int64_t> count;  // number of sums of the parameter, or of each of its senders; index: parameter
  int64_t total = 0;

  bool has(ParamId param) const { return first[static_cast<size_t>(param.index)] >= 0; }
  // The offset of the first sum of a parameter, in bytes. `sender`: 0 unless its gradient is compressed.
  Bytes offset(ParamId param, int sender = 0) const {
    const auto at = static_cast<size_t>(param.index);
    return (first[at] + sender * count[at]) * static_cast<Bytes>(sizeof(double));
  }
  Bytes bytes(ParamId param) const {
    return count[static_cast<size_t>(param.index)] * static_cast<Bytes>(sizeof(double));
  }
  Bytes bytes() const { return total * static_cast<Bytes>(sizeof(double)); }
};

// A gradient that is compressed is clipped by each sender alone, so it is counted only if the loss is scaled, once for
// each of the `senders`: a step must find out before the compression whether any of them is not finite.
NormLayout norm_layout(const Module& module, int senders);

}  // namespace xrun
