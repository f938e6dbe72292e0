// Shard rules: how the dimensions of an operator's operands split and combine, as data. In "ni,oi,+o->no"
//   a letter  is a dimension that can be cut, together with all dimensions of the same letter. Each part of the call
//             gets its part of the operands with this letter, and all of the other operands. Outputs with the letter
//             are concatenated over the parts, and outputs without it are added.
//   _         is a dimension that stays whole
//   .         all remaining dimensions, whole: "_c.,c->_c."
//   *         all remaining dimensions; the k-th ones of all operands have the same letter: "n*,n*->n*"
//   +         before an input: this input is a term of a sum. If the call is cut along a letter that is summed over
//             and that the input lacks, one part of the call gets the input, and the other parts get zeros in its
//             place.
//   ; k=g     attribute k counts the letter g and is cut with it: "ng__,g___->ng__; groups=g"
// If dimensions of one letter differ in size (groups and their channels; flattened dimensions, "nc__->nc"), they are
// cut at the same fraction: a multiple of one by the greatest common divisor of their sizes.
// Source of the idea: Shardy's op sharding rules (factors that pass through, reduce, or stay whole).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace xrun {

struct ShardRule {
  std::vector<std::string> inputs;  // for each operand, one letter or '_' per dimension
  std::vector<std::string> outputs;
  std::vector<bool> terms;  // for each input, whether it is a term of the sum
  std::vector<std::pair<std::string, char>> attrs;
  std::string letters;  // all letters once, in the order of their first appearance
};

// Parses a rule for operands of the given ranks. Each `*` is replaced by capital letters, one per dimension.
Result<ShardRule> parse_shard_rule(std::string_view text, const std::vector<int>& input_ranks,
                                   const std::vector<int>& output_ranks);

// Returns the rule of a call. Errors: only those of a rule that contradicts itself.
Result<ShardRule> shard_rule(const Graph& graph, const Node& node);

}  // namespace xrun
