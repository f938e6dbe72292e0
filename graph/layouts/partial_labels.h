// Partial labels: inputs of class numbers that some samples, or some positions of a sample, do not have. The stage
// `ignore` of their binding names the cells that stand for a missing label, which is -1 in a batch. The loss is the
// mean over the labels that exist: the loader writes the row factors for it (docs/decisions/0058).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace xrun {

// Whether the binding of an input has the stage `ignore`.
bool is_partial(const DataSpec& data, std::string_view input);

// The inputs of the graph whose labels are partial, in the order of its inputs.
std::vector<NamedValue> partial_labels(const Graph& graph, const DataSpec& data);

// The number of partial labels from which a value is computed; if it is one, `label` is that label.
struct LabelsRead {
  enum Count { kNone, kOne, kSeveral } count = kNone;
  ValueId label;
  bool operator==(const LabelsRead&) const = default;
};
// Index: value.
IdVector<ValueId, LabelsRead> labels_read(const Graph& graph, const std::vector<NamedValue>& partial);

// The name of the partial label that a value is computed from; empty if there is no such label.
std::string label_of(const Graph& graph, const DataSpec& data, ValueId value);

// The names of inputs of the training graph, f32[N], that the loader fills. In these inputs, and in
// TrainSpec::weight_input, a row without a label has the weight 1.
//   labelled_input     the number of labels of a row divided by the mean number over the rows of the batch, so that the
//                      mean over the rows is the mean over the labels; with `reduce = sum` the fraction of the row's
//                      positions that have a label
//   row_factor_input   the product of labelled_input and the weight of the row's class
std::string labelled_input(std::string_view label);
std::string row_factor_input(std::string_view label);

}  // namespace xrun
