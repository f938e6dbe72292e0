#include "ops/dense/einsum_rule.h"

#include <algorithm>

#include "ops/shape.h"
#include "ops/shard.h"

namespace xrun::ops {
namespace {

bool are_distinct_letters(const std::string& letters) {
  for (size_t i = 0; i < letters.size(); ++i) {
    const char c = letters[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) || letters.find(c, i + 1) != std::string::npos) {
      return false;
    }
  }
  return !letters.empty();
}

}  // namespace

Result<ProductRule> parse_product_rule(std::string text) {
  std::erase(text, ' ');
  const size_t comma = text.find(',');
  const size_t arrow = text.find("->");
  if (comma != std::string::npos && arrow != std::string::npos && comma < arrow) {
    ProductRule rule{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
    if (are_distinct_letters(rule.a) && are_distinct_letters(rule.b) && are_distinct_letters(rule.y)) {
      return rule;
    }
  }
  return argument_error("`einsum` cannot read \"" + text + "\"",
                        "write a letter for each dimension of both operands and of the result: \"nij,njk->nik\"");
}

ProductRule product_rule_of(std::span<const TensorType> in, const Attrs& attrs) {
  if (attrs.has("rule")) {
    return parse_product_rule(attrs.text("rule")).value();
  }
  std::string batch = shard_letters(in[0]);
  if (!in[1].has_batch()) {
    batch.pop_back();
    return {batch + "y", "yz", batch + "z"};
  }
  batch.resize(batch.size() - 2);
  return {batch + "xy", batch + "yz", batch + "xz"};
}

}  // namespace xrun::ops
