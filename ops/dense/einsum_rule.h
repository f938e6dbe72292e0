// The rule of a product of two tensors, such as "nij,njk->nik". Dimensions with the same letter are identified; letters
// that the result lacks are summed.
#pragma once

#include <span>
#include <string>

#include "graph/base/result.h"
#include "graph/types/attr.h"
#include "graph/types/tensor_type.h"

namespace xrun::ops {

// One letter for each dimension of the operands `a` and `b` and of the result `y`. The first letter of `a` is the
// batch.
struct ProductRule {
  std::string a, b, y;
  std::string text() const { return a + "," + b + "->" + y; }
};

inline bool has_letter(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

// Parses a rule. Errors: XG0303 if the text is not a rule, or has a letter twice in one operand.
Result<ProductRule> parse_product_rule(std::string text);

// Returns the rule of a call: its attribute `rule`, or the rule of matmul for operands of these ranks. REQUIRES: infer
// succeeded.
ProductRule product_rule_of(std::span<const TensorType> inputs, const Attrs& attrs);

}  // namespace xrun::ops
