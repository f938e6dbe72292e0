// `class_weights` of `train`: a weight for each class, with the mean 1 over the training samples.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/settings/specs.h"

namespace xrun::runtime {

// A row of the table: a class by its name or number, and its weight.
struct ListedWeight {
  std::string name;
  double weight = 0;
  int64_t line = 0;
};

struct ListedWeights {
  std::string path;
  std::vector<ListedWeight> weights;
  bool header = false;  // whether the first row of the table has the names of the columns
};

// Reads the table of csv(path), before the classes are known: two columns, with or without a header. Errors, at the
// setting: XG0401 there is no such file; XG0412 the table does not have two columns, or a weight is negative or not a
// number (with the line).
Result<ListedWeights> read_class_weights(const ClassWeightsSpec& spec);

// Returns the weights of the classes 0..classes-1.
//   inverse_frequency  samples / (classes that have samples · samples of the class), and 0 for a class without samples
//   csv                the weights of the table, multiplied by a common factor that makes their mean over the samples 1
//   labels             the class of each training sample; a sample with a negative class is not counted
//   names              names of the classes, class 0 first; empty if they have no names
// Errors: those of read_class_weights; XG0402 (with the line) the table lists an unknown class, or a class twice;
// XG0402 a class with samples is not listed, or all samples have the weight 0.
Result<std::vector<float>> class_weights(const ClassWeightsSpec& spec, std::span<const int32_t> labels, int64_t classes,
                                         std::span<const std::string> names);

}  // namespace xrun::runtime
