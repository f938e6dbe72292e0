// Mirrors the pictures of a batch, so that `verification` also gets the features of mirror images.
#pragma once

#include "graph/graph.h"
#include "runtime/train/session/batch_source.h"

namespace xrun::runtime {

// Exchanges left and right in `rows` rows of each input that is a picture, [N, C, H, W], in the memory of the batch;
// with several ranks, in the rows that this process reads. REQUIRES: rows are channels-last (BatchView); no step and no
// source uses the memory.
void mirror_pictures(const Graph& graph, const BatchView& batch, int64_t rows);

}  // namespace xrun::runtime
