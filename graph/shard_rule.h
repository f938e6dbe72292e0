// Shard rules: how the dimensions of an operator's operands split and combine, as data.
//   "ni,oi->no"    one letter a dimension; a letter in the result passes through, a letter missing there is summed
//   "*"            all remaining dimensions, elementwise: "n*->n*"
//   "_"            a dimension that stays whole
// Source of the idea: Shardy's op sharding rules (factors that pass through, reduce, or stay whole).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"

namespace xrun {

enum class FactorKind { kPassThrough, kReduce };

struct Factor {
  char letter = 0;
  FactorKind kind = FactorKind::kPassThrough;
};

struct ShardRule {
  std::vector<std::string> inputs;  // one string of letters an operand
  std::vector<std::string> outputs;
  std::vector<Factor> factors;  // in order of first appearance
};

// Parses a rule for operands of the given ranks; `*` is written out with capital letters.
Result<ShardRule> parse_shard_rule(std::string_view text, const std::vector<int>& input_ranks,
                                   const std::vector<int>& output_ranks);

}  // namespace xrun
