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
  bool header = false;  // the first line is taken for names of the columns
};

// Reads the table of csv(path), before the classes are known: two columns, with or without a header. Errors, at the
// setting: XG0401 no such file; XG0412 another number of columns, or with the line: a weight that is not a number or
// less than 0.
Result<ListedWeights> read_class_weights(const ClassWeightsSpec& spec);

// Weights of the classes 0..classes-1.
//   inverse_frequency  samples / (classes that have samples · samples of the class), and 0 for a class without samples
//   csv                those of the table, all scaled by one number
//   labels             the class of each training sample; less than 0: it does not count
//   names              of the classes, class 0 first; empty where they have none
// Errors: those of read_class_weights; XG0402 with the line: an unknown class, or one that was listed before; a
// class with samples that is not listed, or weights that are 0 for all samples.
Result<std::vector<float>> class_weights(const ClassWeightsSpec& spec, std::span<const int32_t> labels, int64_t classes,
                                         std::span<const std::string> names);

}  // namespace xrun::runtime
