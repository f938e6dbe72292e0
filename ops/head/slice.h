// One worker's part of the working memory of a head pass (HeadScratch, graph/layouts/head_shape.h).
#pragma once

#include <cstdint>

namespace xrun::ops {

struct HeadSlice {
  uint32_t* logit_weights = nullptr;
  uint32_t* gradient_weights = nullptr;
  float* logits = nullptr;
  uint32_t* pairs = nullptr;
  float* weight_gradient = nullptr;
  float* bias_lanes = nullptr;
  float* class_rows = nullptr;
  float* class_states = nullptr;
  float* class_vectors = nullptr;
};

}  // namespace xrun::ops
