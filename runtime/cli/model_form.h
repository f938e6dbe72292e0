// What a model computes of its inputs, line by line: the form in which the model of a file and that of a checkpoint are
// compared. Left out is what training alone has: loss, metrics, optimizer, sources, labels, random augmentation.
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"

namespace xrun::cli {

// One operator, or the way from a field of the data to an input.
struct FormLine {
  std::string same;   // equal where two lines do the same; places of operators count backwards from the line
  std::string shown;  // for people: with the names of the text
};

// The inputs with their preprocessing, then the operators that the loss depends on, in order. REQUIRES: as the frontend
// gives the module, before any pass.
std::vector<FormLine> inference_form(const Module& module);

// The tensors that a checkpoint of the module has: names and shapes.
std::vector<std::string> tensor_names(const Module& module);

// The lines of a longest common subsequence left out: "checkpoint: relu(...)" and "here: gelu(...)", at most `most`.
// Empty where the forms are the same.
std::vector<std::string> differences(const std::vector<FormLine>& then, const std::vector<FormLine>& now, size_t most);

}  // namespace xrun::cli
