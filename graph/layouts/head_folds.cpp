#include "graph/layouts/head_folds.h"

#include <algorithm>

#include "graph/base/check.h"

namespace xrun {

std::vector<std::vector<HeadFold>> head_folds(const ClassBlocks& blocks, std::span<const ClassRange> pieces) {
  struct Push {
    BlockRange blocks;
    HeadFold fold;
  };
  std::vector<Push> pushes;
  ClassRange covered;
  for (size_t piece = 0; piece < pieces.size(); ++piece) {
    if (pieces[piece].size() <= 0) {
      continue;
    }
    if (pushes.empty()) {
      covered.begin = covered.end = pieces[piece].begin;
    }
    XRUN_CHECK(pieces[piece].begin == covered.end, "shards follow one another");
    covered.end = pieces[piece].end;
    const auto subtrees = blocks.subtrees(blocks.of_rows(pieces[piece]));
    for (size_t i = 0; i < subtrees.size(); ++i) {
      pushes.push_back({subtrees[i], {static_cast<int>(piece), static_cast<int64_t>(i)}});
    }
  }
  XRUN_CHECK(!pushes.empty(), "some shard has rows");
  std::vector<std::vector<HeadFold>> folds;
  // Divides a range of blocks along the tree down to the subtrees of the pieces, and lists the steps to add these.
  const auto fold = [&](const auto& self, int64_t begin, int64_t end, size_t first) -> size_t {
    if (pushes[first].blocks.end == end) {
      folds.back().push_back(pushes[first].fold);
      return first + 1;
    }
    int64_t half = 1;
    while (2 * half < end - begin) {
      half *= 2;
    }
    const size_t next = self(self, begin, begin + half, first);
    const size_t last = self(self, begin + half, end, next);
    folds.back().push_back({});
    return last;
  };
  size_t next = 0;
  for (const BlockRange& subtree : blocks.subtrees(blocks.of_rows(covered))) {
    folds.emplace_back();
    next = fold(fold, subtree.begin, subtree.end, next);
  }
  return folds;
}

int64_t depth_of(std::span<const std::vector<HeadFold>> folds) {
  int64_t most = 0;
  for (const std::vector<HeadFold>& steps : folds) {
    int64_t depth = 0;
    for (const HeadFold& step : steps) {
      depth += step.piece < 0 ? -1 : 1;
      most = std::max(most, depth);
    }
  }
  return most;
}

}  // namespace xrun
