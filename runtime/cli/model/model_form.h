// Describes the computation of a model from its inputs as lines, so that the model of a file can be compared with the
// model of a checkpoint. Parts that only training uses are left out: loss, metrics, optimizer, sources, labels, random
// augmentation.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/module.h"
#include "graph/settings/moved.h"

namespace xrun::cli {

// One operator, or the preprocessing from a field of the data to an input.
struct FormLine {
  // The key by which lines are compared: equal keys mean equal computations. An operand is written as the distance to
  // its line.
  std::string same;
  std::string shown;  // text for messages, with the names that the model's text uses
};

// The form of a module: its inputs with their preprocessing, then those of the model's operators on which the loss
// depends, in order. REQUIRES: `module` is as the frontend returns it, before any pass.
std::vector<FormLine> inference_form(const Module& module);

// The names of the module's parameters, after all `moved` declarations, with their types, sorted.
std::vector<std::string> tensor_names(const Module& module, std::span<const Moved> moved);

// The lines in which two forms differ, at most `most`: "checkpoint: relu(...)" and "here: gelu(...)". These are the
// lines outside a longest common subsequence. Empty if the forms are equal.
std::vector<std::string> differences(const std::vector<FormLine>& then, const std::vector<FormLine>& now, size_t most);

}  // namespace xrun::cli
