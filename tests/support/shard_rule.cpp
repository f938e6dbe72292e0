// Grammar: operands "->" operands [";" counts]; operands and counts are separated by commas. An operand consists of
// letters and "_", with at most one "*" or ".", and begins with "+" if it is a term. A count is NAME "=" letter. Blanks
// are ignored.
#include "tests/support/shard_rule.h"

#include <algorithm>

namespace xrun {
namespace {

Error wrong(std::string message) { return Error{ErrorKind::kContent, "", "a shard rule " + std::move(message), ""}; }

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Expands `*` and `.`: the k-th of the remaining dimensions gets the k-th capital letter, or stays whole.
Result<std::string> expand(const std::string& operand, int rank) {
  std::string out;
  const auto open = std::ranges::count_if(operand, [](char c) { return c == '*' || c == '.'; });
  const auto remaining = rank - static_cast<int64_t>(operand.size()) + open;
  for (const char c : operand) {
    if (c == '*' || c == '.') {
      for (int64_t i = 0; i < remaining; ++i) {
        out += c == '*' ? static_cast<char>('A' + i) : '_';
      }
    } else if ((c >= 'a' && c <= 'z') || c == '_') {
      out += c;
    } else {
      return wrong(std::string("has the character `") + c + "`");
    }
  }
  if (static_cast<int>(out.size()) != rank || open > 1) {
    return wrong("`" + operand + "` does not fit an operand of rank " + std::to_string(rank));
  }
  return out;
}

Result<std::vector<std::string>> expand_all(const std::vector<std::string>& operands, const std::vector<int>& ranks) {
  if (operands.size() != ranks.size()) {
    return wrong("has " + std::to_string(operands.size()) + " operands for " + std::to_string(ranks.size()));
  }
  std::vector<std::string> out;
  for (size_t i = 0; i < operands.size(); ++i) {
    XRUN_ASSIGN(std::string expanded, expand(operands[i], ranks[i]));
    out.push_back(std::move(expanded));
  }
  return out;
}

}  // namespace

Result<ShardRule> parse_shard_rule(std::string_view text, const std::vector<int>& input_ranks,
                                   const std::vector<int>& output_ranks) {
  std::string plain(text);
  std::erase(plain, ' ');
  const size_t arrow = plain.find("->");
  if (arrow == std::string::npos) {
    return wrong("needs `->`");
  }
  const size_t counts = std::min(plain.find(';'), plain.size());
  ShardRule rule;
  std::vector<std::string> inputs = split(plain.substr(0, arrow));
  for (std::string& operand : inputs) {
    rule.terms.push_back(operand.starts_with('+'));
    operand.erase(0, rule.terms.back() ? 1 : 0);
  }
  XRUN_ASSIGN(rule.inputs, expand_all(inputs, input_ranks));
  XRUN_ASSIGN(rule.outputs, expand_all(split(plain.substr(arrow + 2, counts - arrow - 2)), output_ranks));
  for (const auto& operands : {rule.inputs, rule.outputs}) {
    for (const std::string& operand : operands) {
      for (const char letter : operand) {
        rule.letters += letter == '_' || rule.letters.find(letter) != std::string::npos ? "" : std::string(1, letter);
      }
    }
  }
  if (counts < plain.size()) {
    for (const std::string& count : split(plain.substr(counts + 1))) {
      const size_t equals = count.find('=');
      if (equals == 0 || equals + 2 != count.size() || rule.letters.find(count.back()) == std::string::npos) {
        return wrong("counts `" + count + "`, not one of its letters");
      }
      rule.attrs.emplace_back(count.substr(0, equals), count.back());
    }
  }
  return rule;
}

Result<ShardRule> shard_rule(const Graph& graph, const Node& node) {
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  std::vector<int> input_ranks;
  std::vector<int> output_ranks;
  for (const ValueId id : node.inputs) {
    inputs.push_back(graph.value(id).type);
    input_ranks.push_back(inputs.back().rank());
  }
  for (const ValueId id : node.outputs) {
    outputs.push_back(graph.value(id).type);
    output_ranks.push_back(outputs.back().rank());
  }
  const std::string text =
      node.op->shard_of != nullptr ? node.op->shard_of(inputs, outputs, node.attrs) : std::string(node.op->shard);
  return parse_shard_rule(text, input_ranks, output_ranks);
}

}  // namespace xrun
