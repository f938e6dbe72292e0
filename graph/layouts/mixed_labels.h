// Mixed samples: the stages `mixup` and `cutmix` at the end of a binding mix each row of an input with the row before
// it in the batch, its partner. A mixed row has two labels, and the share of a label is its weight in the loss of the
// row; the two shares add up to 1. With the argument `one_label`, a row has only one of the two labels, which is drawn
// with the shares as probabilities (docs/decisions/0066-a-mixed-sample-has-two-labels.md).
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace xrun {

// Whether a stage mixes samples.
bool mixes_samples(const CallSpec& stage);

// The first stage of a binding that mixes samples; null if no stage does.
const CallSpec* mixing_stage(const DataBinding& binding);

// The first binding that mixes samples; null if no binding does. REQUIRES for all readers of a checked module: at most
// one binding mixes samples.
const DataBinding* mixed_binding(const DataSpec& data);

// Whether a mixing stage gives a row only one label.
bool draws_label(const CallSpec& stage);

// The values from which the terms of the loss are computed, among them the terms themselves. Index: value.
IdVector<ValueId, bool> values_of_loss(const Graph& graph);

// The names of inputs of the training graph that the loader fills. A label has the class of the sample with the larger
// share, so that metrics compare with this class.
//   partner_label   of a label: the class with the smaller share
//   label_share     of a mixed input: the share of the label, f32[N]
//   partner_share   of a mixed input: the share of the partner label, f32[N]
//   partner_weight  of a label: the weight of the partner label in `class_weights`, f32[N]
std::string partner_label(std::string_view label);
std::string label_share(std::string_view input);
std::string partner_share(std::string_view input);
std::string partner_weight(std::string_view label);

}  // namespace xrun
