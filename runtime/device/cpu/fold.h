// Sums over partials and replicas in one fixed order (docs/internals/determinism.md, "Gradient partials").
#pragma once

#include <cstdint>
#include <span>

namespace xrun::runtime {

// terms[0] = ((t0 + t1) + (t2 + t3)) + ..., elementwise over `count` floats: an aligned binary tree over the index, so
// that a tree over partials that lie on several replicas is the tree over partials, then over replicas. Other terms are
// overwritten.
void fold_tree(std::span<float* const> terms, int64_t count);

}  // namespace xrun::runtime
