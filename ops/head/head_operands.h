// The operands of the passes over a sharded classifier head (ops/head/head.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ops/optimizer/optimizer.h"

namespace xrun::ops {

class IdleSteps;  // ops/head/catch_up.h

// The softmax of one row: p(class) = exp(z - max) * inverse_sum.
struct RowSoftmax {
  float max = 0;
  float inverse_sum = 0;
};

// The active classes of a shard in a step. They are numbered in ascending order of their block, and of their class
// within a block.
struct ActiveClasses {
  const int32_t* offsets = nullptr;  // [blocks of the shard + 1]: number of the first class of each block
  const int32_t* classes = nullptr;  // [offsets[blocks]]: index in the head of each active class of the shard
  int64_t all = 0;                   // number of active classes of the whole head
  int64_t near = 0;                  // number of these classes that come from the targets' lists of neighbours
  // [offsets[blocks]]: added to the scaled logits of a class, except in rows whose target it is; null: nothing is
  // added.
  const float* corrections = nullptr;
};

// The rows of one pass (for `update`: of the whole batch), row-major [rows, dim], in the element type
// HeadShape::features.
struct HeadRows {
  const std::byte* features = nullptr;
  // Null: no labels (predict). A row whose label is outside 0..C-1 has loss and gradient 0, and no hit.
  const int32_t* labels = nullptr;
  const RowSoftmax* softmax = nullptr;  // from combine_stats; not read by forward
  const float* factors = nullptr;       // factor on the loss of each row; null: 1. Not read by forward
  // [head_logits_bytes] Logits of the blocks that are kept: forward writes them and backward reads them. Other sweeps
  // do not use them.
  std::byte* logits = nullptr;
  // The active classes of the step if the shape has active classes (ops/head/select_classes.h), else null.
  const ActiveClasses* active = nullptr;
};

// The data to catch up rows that steps did not use. With shape.untouched = kExact these rows change as if every step
// trained all classes. A pass opens a row in the state in which the steps since its last update would have left it with
// a gradient of zero. Only an update stores the row and the number of its step.
struct HeadCatchUp {
  const IdleSteps* steps = nullptr;      // advanced to the current step; null: stored rows are used unchanged
  int32_t* last = nullptr;               // [shard rows]: the last step that updated a row; -1: no step
  const float* velocity = nullptr;       // velocity of the weights: HeadUpdate::weight_states[0]
  const float* bias_velocity = nullptr;  // HeadUpdate::bias_states[0]; null without bias
  double weight_factor = 1;              // (learning rate of the weights) / (learning rate of `steps`)
  double bias_factor = 1;
};

// The class rows of a shard.
struct HeadWeights {
  std::byte* weight = nullptr;  // [shard rows, dim] in the shape's format
  float* scales = nullptr;      // [shard rows] for fp8 rows, else null
  float* bias = nullptr;        // [shard rows]; null without bias
  float* prepared = nullptr;    // head_prepared_bytes: 1 / norm of stored rows; null if the size is 0
  HeadCatchUp catch_up;
};

// Determines how a sweep updates the rows of a shard with the gradients of its tiles. The number of states is that of
// `form`. States of weights are in the format of the shape, states of the bias in f32. Rows in narrow formats are
// rounded with random numbers that depend on (seed, step, class).
struct HeadUpdate {
  OptimizerForm form;
  UpdateScalars weight;
  UpdateScalars bias;
  std::array<std::byte*, kMostKeptStates> weight_states{};  // [shard rows, dim]
  UpdateStates bias_states{};                               // [shard rows]
  uint64_t seed = 0;
  int64_t step = 0;
};

}  // namespace xrun::ops
