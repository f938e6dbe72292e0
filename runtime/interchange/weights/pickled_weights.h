// All tensors of a pickle. Values may be nested: the name of a tensor is its path, "state_dict.conv1.weight", in which
// the elements of a list are numbered from 0.
#pragma once

#include "graph/base/result.h"
#include "runtime/formats/pickle/pickle.h"
#include "runtime/interchange/weights/pickled_tensors.h"
#include "runtime/interchange/weights/stored_weights.h"

namespace xrun::runtime {

// The functions and types that a pickle of weights may name: those of tensors, and of plain values next to them.
// Anything else is not read (XG0407).
PickleRules weight_pickle_rules();

// Adds all tensors of the pickle to `to`, and lists what else is in it: a dict or a list without tensors as one entry.
// The table of names that PaddlePaddle adds to a dict is left out, and arrays that it has split are joined. Errors:
// XG0412 there is no tensor, a tensor does not fit its storage, or there are more than 250,000 entries; those of
// pickled_tensor.
Status add_pickled_tensors(const Pickle& pickle, const PickledSources& sources, WeightContents& to);

}  // namespace xrun::runtime
