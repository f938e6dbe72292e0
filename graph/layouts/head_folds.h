// The steps in which partial results of the class blocks of a head are added in the order of the one fixed tree
// (docs/internals/determinism.md, "Sums over classes").
#pragma once

#include <span>
#include <vector>

#include "graph/layouts/head_shape.h"

namespace xrun {

// One step of a sum on a stack: pushes a subtree of a piece, or adds the two topmost results.
struct HeadFold {
  int piece = -1;       // the piece whose subtree is pushed; -1: the two topmost results are added
  int64_t subtree = 0;  // number of the subtree in the piece
  bool operator==(const HeadFold&) const = default;
};

// Returns the steps of the sum of each subtree of the classes that the pieces have together, in ascending order. A
// piece is a range of whole class blocks, for example the class rows of a shard; some may be empty. REQUIRES: the
// pieces follow one another, and some piece has classes.
std::vector<std::vector<HeadFold>> head_folds(const ClassBlocks& blocks, std::span<const ClassRange> pieces);

// Returns the largest number of results that wait during one of the sums.
int64_t depth_of(std::span<const std::vector<HeadFold>> folds);

}  // namespace xrun
