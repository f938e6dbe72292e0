// Measures the mean and the deviation of each column that a binding with `standardize` gives.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "runtime/data/augment/transform.h"
#include "runtime/data/readers/reader.h"
#include "runtime/train/state/input_scales.h"

namespace xrun::runtime {

// Measures the numbers that `standardize` of the transform gets from all samples, in the order of their numbers and
// without random stages, in f64: the mean of the values x of each column, and sqrt(sum (x - mean)^2 / n) as its
// deviation. Two passes, as in the two-pass algorithm of Chan, Golub and LeVeque, "Algorithms for Computing the Sample
// Variance", The American Statistician 37, 1983. Broken samples and missing values are left out. The deviation of a
// column with one value is 1, and a column without values also has the mean 0.
//   input     name of the input, for the result and the warnings
//   warnings  receives XG0429 if there are such columns
// Errors: those of the transform other than broken samples, with the sample's name; XG0408 all samples are broken;
// kInterrupted soon after `stop` is set. REQUIRES: transform.standardizes().
Result<InputScale> measure_scale(const Reader& reader, int field, const Transform& transform, const std::string& input,
                                 std::vector<Error>& warnings, StopFlag stop);

}  // namespace xrun::runtime
