// The computation of a model from its inputs, as lines, to compare the model of a file with that of a checkpoint.
// Without the parts that only training uses: loss, metrics, optimizer, sources, labels, random augmentation.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/module.h"
#include "graph/moved.h"

namespace xrun::cli {

// One operator, or the preprocessing from a field of the data to an input.
struct FormLine {
  std::string same;   // equal for lines that compute the same value; counts operands backwards from the line
  std::string shown;  // for messages, with the names of the text
};

// The inputs with their preprocessing, then the model's operators that the loss depends on, in order. REQUIRES:
// `module` is as the frontend returns it, before any pass.
std::vector<FormLine> inference_form(const Module& module);

// Names, after all moves, and types of the module's parameters, sorted.
std::vector<std::string> tensor_names(const Module& module, std::span<const Moved> moved);

// The lines outside a longest common subsequence: "checkpoint: relu(...)" and "here: gelu(...)", at most `most`. Empty
// if the forms are equal.
std::vector<std::string> differences(const std::vector<FormLine>& then, const std::vector<FormLine>& now, size_t most);

}  // namespace xrun::cli
