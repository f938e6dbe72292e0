// Tensors of files that become one tensor of a model together, and whether their shapes fit it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/interchange/import/match_tensors.h"

namespace xrun::runtime {

// Tensors of files that a line of a name table gives to tensors of the model: several that are joined to one, or one
// that becomes one or several.
struct TensorGroup {
  const NameRule* rule = nullptr;
  std::vector<size_t> targets;               // indices in ModelForm::tensors
  std::vector<std::vector<size_t>> sources;  // for each pattern of the line the tensors of the files, in their order
};

// Returns the values of the targets of a group. Otherwise returns why they do not fit, as an error without a code: its
// message names both shapes.
Result<std::vector<Fit>> fit(const TensorGroup& group, std::span<const ForeignTensor> tensors, const ModelForm& form);

// The number of class rows of a rank in InsightFace's Partial FC: C // W + (r < C % W).
int64_t rows_of_rank(int64_t classes, int64_t ranks, int64_t rank);

}  // namespace xrun::runtime
