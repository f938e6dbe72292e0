// Says which dimensions of the operands of a product are identified, and which are summed: "nij,njk->nik".
#pragma once

#include <span>
#include <string>

#include "graph/attr.h"
#include "graph/base/result.h"
#include "graph/tensor_type.h"

namespace xrun::ops {

// A letter for each dimension of the operands and of the result. The first letter of `a` is that of the batch.
struct ProductRule {
  std::string a, b, y;
  std::string text() const { return a + "," + b + "->" + y; }
};

inline bool has_letter(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

// Errors: XG0303 if the text is not a rule, or has a letter twice in one operand.
Result<ProductRule> parse_product_rule(std::string text);

// The rule of a call: its attribute `rule`, or that of matmul for operands of these ranks. REQUIRES: infer succeeded.
ProductRule product_rule_of(std::span<const TensorType> inputs, const Attrs& attrs);

}  // namespace xrun::ops
