// The memory of the head of `xrun bench head`: the shapes of its shards, and the offsets of all buffers.
#pragma once

#include <vector>

#include "graph/layouts/head_shape.h"
#include "runtime/bench/head_step.h"

namespace xrun::runtime {

// Offsets of all buffers in one mapping. Shards share the scratch, since they run one after the other.
struct HeadPlaces {
  struct Shard {
    HeadShape shape;
    Bytes prepared = 0;
    Bytes selection = 0;
    Bytes logits = 0;
    Bytes stats = 0;
    Bytes gradient = 0;
  };
  explicit HeadPlaces(const HeadCase& one);

  std::vector<Shard> shards;
  Bytes weights = 0;
  Bytes scales = 0;
  Bytes states = 0;
  Bytes lists = 0;
  Bytes features = 0;
  Bytes feature_gradient = 0;
  Bytes labels = 0;
  Bytes losses = 0;
  Bytes softmax = 0;
  Bytes scratch = 0;
  Bytes end = 0;

 private:
  Bytes take(Bytes bytes) {
    const Bytes begin = end;
    end += align_up(bytes);
    return begin;
  }
};

}  // namespace xrun::runtime
