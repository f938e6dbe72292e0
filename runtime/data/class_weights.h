// `class_weights` of `train`: a weight for each class, with the mean 1 over the training samples.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/specs.h"

namespace xrun::runtime {

// A line of the table: a class by its name or number, and its weight.
struct ListedWeight {
  std::string name;
  double weight = 0;
  int64_t line = 0;
};

struct ListedWeights {
  std::string path;
  std::vector<ListedWeight> weights;
  bool header = false;  // the first line holds the names of the columns
};

// Reads the table of csv(path), before the classes are known: two columns, with or without a header. Errors, at the
// setting: XG0401 no such file; XG0412 the table does not have two columns, or (with the line) a weight is not a number
// or is negative.
Result<ListedWeights> read_class_weights(const ClassWeightsSpec& spec);

// The weights of the classes 0..classes-1.
//   inverse_frequency  samples / (classes that have samples · samples of the class), and 0 for a class without samples
//   csv                those of the table, all scaled by one number
//   labels             the class of each training sample; negative: the sample does not count
//   names              names of the classes, class 0 first; empty if they have no names
// Errors: those of read_class_weights; XG0402 with the line: an unknown class, or one that was listed before; XG0402: a
// class with samples is not listed, or the weights are 0 for all samples.
Result<std::vector<float>> class_weights(const ClassWeightsSpec& spec, std::span<const int32_t> labels, int64_t classes,
                                         std::span<const std::string> names);

}  // namespace xrun::runtime
