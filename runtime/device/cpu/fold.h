// Sums over partials and replicas in one fixed order (docs/internals/determinism.md, "Gradient partials").
#pragma once

#include <cstdint>
#include <span>

namespace xrun::runtime {

// terms[0] = ((t0 + t1) + (t2 + t3)) + ..., elementwise over `count` floats: an aligned binary tree over the index. So
// a tree over partials that lie on several replicas equals the tree over partials, followed by one over replicas. Other
// terms are overwritten.
void fold_tree(std::span<float* const> terms, int64_t count);

}  // namespace xrun::runtime
