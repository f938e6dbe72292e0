// Sums over partials and replicas in one fixed order (docs/internals/determinism.md, "Gradient partials").
#pragma once

#include <cstdint>
#include <span>

namespace xrun::runtime {

// Stores the sum of all terms in terms[0] and overwrites the other terms. Each term has `count` floats. Terms are added
// in the order of a binary tree over the index, ((t0 + t1) + (t2 + t3)) + ..., so they can also be summed in groups: a
// tree over the partials of each replica, followed by a tree over the replicas, gives the same bits as one tree over
// all partials.
void fold_tree(std::span<float* const> terms, int64_t count);

}  // namespace xrun::runtime
