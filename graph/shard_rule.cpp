// Grammar: operands "," ... "->" operands "," ...; an operand is letters, "_" and at most one "*".
#include "graph/shard_rule.h"

#include <algorithm>

namespace xrun {
namespace {

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

// Writes `*` out: the k-th of the remaining dimensions is the k-th capital letter.
Result<std::string> expand(const std::string& operand, int rank) {
  std::string out;
  const int named = static_cast<int>(operand.size()) - (operand.find('*') != std::string::npos ? 1 : 0);
  for (const char c : operand) {
    if (c == '*') {
      for (int i = 0; i < rank - named; ++i) {
        out += static_cast<char>('A' + i);
      }
    } else if ((c >= 'a' && c <= 'z') || c == '_') {
      out += c;
    } else {
      return Error{ErrorKind::kContent, "", std::string("a shard rule has the character `") + c + "`", ""};
    }
  }
  if (static_cast<int>(out.size()) != rank) {
    return Error{ErrorKind::kContent, "",
                 "shard rule `" + operand + "` does not fit an operand of rank " + std::to_string(rank), ""};
  }
  return out;
}

Result<std::vector<std::string>> expand_all(std::string_view text, const std::vector<int>& ranks) {
  const std::vector<std::string> operands = split(text);
  if (operands.size() != ranks.size()) {
    return Error{
        ErrorKind::kContent, "",
        "a shard rule has " + std::to_string(operands.size()) + " operands for " + std::to_string(ranks.size()), ""};
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
  const size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) {
    return Error{ErrorKind::kContent, "", "a shard rule needs `->`", ""};
  }
  ShardRule rule;
  XRUN_ASSIGN(rule.inputs, expand_all(text.substr(0, arrow), input_ranks));
  XRUN_ASSIGN(rule.outputs, expand_all(text.substr(arrow + 2), output_ranks));
  const auto mentions = [](const std::vector<std::string>& operands, char letter) {
    return std::any_of(operands.begin(), operands.end(),
                       [&](const std::string& o) { return o.find(letter) != std::string::npos; });
  };
  for (const std::string& operand : rule.inputs) {
    for (const char letter : operand) {
      const bool known =
          std::any_of(rule.factors.begin(), rule.factors.end(), [&](const Factor& f) { return f.letter == letter; });
      if (letter != '_' && !known) {
        rule.factors.push_back(
            {letter, mentions(rule.outputs, letter) ? FactorKind::kPassThrough : FactorKind::kReduce});
      }
    }
  }
  return rule;
}

}  // namespace xrun
