// Computes every operator that can run by its formula, in f64 and logical order. The conformance suite compares kernels
// and gradients with it. It uses nothing of ops/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/types/attr.h"

namespace xrun::test {

struct Tensor {
  std::vector<int64_t> dims;
  std::vector<double> values;

  int64_t dim(int i) const { return dims[static_cast<size_t>(i)]; }
  // Returns the element at `index`. A dimension of size 1 is broadcast.
  double at(const std::vector<int64_t>& index) const {
    int64_t flat = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      flat = flat * dims[d] + (dims[d] == 1 ? 0 : index[d]);
    }
    return values[static_cast<size_t>(flat)];
  }
};

// A call of an operator in training, on one block of rows.
struct FormulaCall {
  std::string_view op;
  const Attrs& attrs;
  std::vector<Tensor> in;    // operands, including parameters
  std::vector<int64_t> out;  // dims of the first output
  std::string_view path;     // key of random draws, like the next two members
  uint64_t seed = 0;
  uint64_t step = 0;
};

bool has_formula(std::string_view op);

// Computes the first output of a call by its formula.
std::vector<double> evaluate(const FormulaCall& call);

}  // namespace xrun::test
