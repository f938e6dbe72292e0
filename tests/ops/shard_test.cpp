// Checks the shard rule of every operator that can run, forward and backward: if a call is cut along a letter, its
// parts combine to the whole.
#include "ops/shard.h"

#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "tests/ops/case_graph.h"
#include "tests/support/shard_rule.h"

namespace xrun::ops {
namespace {

// Returns the number of equal steps into which a letter can be cut: the greatest common divisor of all dimensions and
// attributes with this letter.
int64_t steps_of(const Graph& graph, const Node& node, const ShardRule& rule, char letter, int64_t rows) {
  int64_t steps = 0;
  const auto meet = [&](const std::vector<ValueId>& ids, const std::vector<std::string>& letters) {
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::vector<int64_t> dims = block_dims(graph.value(ids[i]).type, rows);
      for (size_t d = 0; d < dims.size(); ++d) {
        steps = letters[i][d] == letter ? std::gcd(steps, dims[d]) : steps;
      }
    }
  };
  meet(node.inputs, rule.inputs);
  meet(node.outputs, rule.outputs);
  for (const auto& [name, counted] : rule.attrs) {
    steps = counted == letter ? std::gcd(steps, node.attrs.integer(name)) : steps;
  }
  return steps;
}

// The positions from `begin` to `end` - 1 of a dimension.
struct Cut {
  size_t dim = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

Values cut_values(const Values& whole, const std::vector<int64_t>& dims, const Cut& cut) {
  const int64_t inner = std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(cut.dim) + 1, dims.end(), int64_t{1},
                                        std::multiplies<>());
  Values out;
  for (size_t i = 0; i < whole.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) / inner % dims[cut.dim];
    if (at >= cut.begin && at < cut.end) {
      out.push_back(whole[i]);
    }
  }
  return out;
}

// A call restricted to the steps from `begin` to `end` - 1 of one letter.
class Part {
 public:
  Part(const Graph& graph, const Node& node, const ShardRule& rule, char letter, int64_t rows)
      : whole_(graph), node_(node), rule_(rule), letter_(letter), rows_(rows) {
    steps_ = steps_of(graph, node, rule, letter, rows);
  }

  // Returns nullopt if the operand lacks the letter.
  std::optional<Cut> cut_of(ValueId id, const std::string& letters, int64_t begin, int64_t end) const {
    const size_t d = letters.find(letter_);
    if (d == std::string::npos) {
      return std::nullopt;
    }
    const int64_t each = block_dims(whole_.value(id).type, rows_)[d] / steps_;
    return Cut{d, begin * each, end * each};
  }

  // Returns the outputs of the call on a part of the inputs.
  Result<std::map<ValueId, Values>> run(RunOptions options, const std::map<ValueId, Values>& all, int64_t begin,
                                        int64_t end) const {
    Graph graph = whole_;
    Node node = node_;
    for (const auto& [name, counted] : rule_.attrs) {
      if (counted == letter_) {
        node.attrs.set(name, node.attrs.integer(name) / steps_ * (end - begin));
      }
    }
    const bool summed = std::ranges::none_of(
        rule_.outputs, [&](const std::string& letters) { return letters.find(letter_) != std::string::npos; });
    std::map<ValueId, Values> values;
    const auto narrow = [&](ValueId id, const std::string& letters) {
      const auto cut = cut_of(id, letters, begin, end);
      if (!cut) {
        return cut;
      }
      int64_t& dim = graph.value(id).type.dims[cut->dim];
      (dim == kBatch ? options.kernel.norm_rows : dim) = cut->end - cut->begin;
      options.first_row = dim == kBatch ? cut->begin : options.first_row;
      return cut;
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      const auto cut = narrow(id, rule_.inputs[i]);
      values[id] = cut ? cut_values(all.at(id), block_dims(whole_.value(id).type, rows_), *cut) : all.at(id);
      if (!cut && summed && rule_.terms[i] && begin > 0) {
        std::ranges::fill(values[id], 0.0);
      }
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      narrow(node.outputs[i], rule_.outputs[i]);
    }
    graph.nodes = {std::move(node)};
    XRUN_TRY(run_graph(graph, options, values));
    return values;
  }

  int64_t steps() const { return steps_; }

 private:
  const Graph& whole_;
  const Node& node_;
  const ShardRule& rule_;
  char letter_;
  int64_t rows_;
  int64_t steps_ = 0;
};

void expect_parts_combine(const Graph& graph, const Node& node, const ShardRule& rule, char letter, const Case& c,
                          const std::map<ValueId, Values>& whole) {
  SCOPED_TRACE(std::string(node.op->name) + " along " + letter);
  const Part part(graph, node, rule, letter, c.rows);
  const int64_t middle = part.steps() / 2;
  if (middle == 0) {
    return;  // the size is 1 in this case; EveryLetterIsCutInSomeCase checks that another case has more
  }
  const auto first = part.run(options_for(c), whole, 0, middle);
  const auto second = part.run(options_for(c), whole, middle, part.steps());
  ASSERT_TRUE(first.ok()) << first.error().message;
  ASSERT_TRUE(second.ok()) << second.error().message;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId id = node.outputs[i];
    const Values& all = whole.at(id);
    const std::vector<int64_t> dims = block_dims(graph.value(id).type, c.rows);
    const auto cut = part.cut_of(id, rule.outputs[i], 0, middle);
    if (!cut) {
      Values sum = first->at(id);
      std::ranges::transform(sum, second->at(id), sum.begin(), std::plus<>());
      EXPECT_LT(relative_distance(sum, all), 1e-5) << "sum of output " << i;
    } else {
      EXPECT_LT(relative_distance(first->at(id), cut_values(all, dims, *cut)), 1e-5) << "first part of output " << i;
      EXPECT_LT(relative_distance(second->at(id), cut_values(all, dims, {cut->dim, cut->end, dims[cut->dim]})), 1e-5)
          << "second part of output " << i;
    }
  }
}

class Shard : public testing::TestWithParam<Case> {};

TEST_P(Shard, PartsCombineToTheWholeAlongEveryLetter) {
  const Case& c = GetParam();
  auto b = build(c, DType::kF32, true);
  ASSERT_TRUE(b.ok()) << b.error().message;
  ASSERT_TRUE(run_graph(b->graph, options_for(c), b->values).ok());
  for (const Node& node : b->graph.nodes) {
    const auto rule = shard_rule(b->graph, node);
    ASSERT_TRUE(rule.ok()) << node.op->name << ": " << rule.error().message;
    for (const char letter : rule->letters) {
      expect_parts_combine(b->graph, node, *rule, letter, c, b->values);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, Shard, testing::ValuesIn(conformance_cases()), case_name);

// Ensures that no rule is empty and that every letter of every rule is cut in at least one case.
TEST(ShardRules, EveryLetterIsCutInSomeCase) {
  std::map<std::string, int64_t> most;  // largest number of steps, by operator and letter
  std::set<std::string_view> cut;
  for (const Case& c : conformance_cases()) {
    const auto b = build(c, DType::kF32, true);
    ASSERT_TRUE(b.ok());
    for (const Node& node : b->graph.nodes) {
      const auto rule = shard_rule(b->graph, node);
      ASSERT_TRUE(rule.ok()) << node.op->name << " has no shard rule: " << rule.error().message;
      for (const char letter : rule->letters) {
        int64_t& steps = most[std::string(node.op->name) + " along " + letter];
        steps = std::max(steps, steps_of(b->graph, node, *rule, letter, c.rows));
        cut.insert(node.op->name);
      }
    }
  }
  for (const auto& [letter, steps] : most) {
    EXPECT_GT(steps, 1) << letter;
  }
  for (const Op* op : catalog()) {
    EXPECT_EQ(op->cpu != nullptr, cut.contains(op->def.name)) << op->def.name << " can be split along nothing";
  }
}

TEST(ShardRules, DependOnTheShapesAndArgumentsOfTheCall) {
  const auto rule = [](const std::string& op, const std::vector<std::vector<int64_t>>& inputs, const Attrs& attrs) {
    const auto b = build({.op = op, .inputs = inputs, .attrs = attrs}, DType::kF32, false);
    EXPECT_TRUE(b.ok()) << op;
    const Node& node = b->graph.node(b->node);
    const ShardRule r = shard_rule(b->graph, node).value();
    return shard_text(r.inputs, r.outputs);
  };
  const Attrs last{{"axis", int64_t{-1}}};
  EXPECT_EQ(rule("softmax", {{5, 3}}, last), "na_->na_");
  EXPECT_EQ(rule("concat", {{5, 3}, {5, 2}}, last), "na_,na_->na_");
  EXPECT_EQ(rule("add", {{5, 3}, {1, 3}}, {}), "nab,n_b->nab");
  EXPECT_EQ(rule("sum", {{5, 3}}, {{"axis", int64_t{1}}, {"keep", true}}), "nab->n_b");
  EXPECT_EQ(rule("mean", {{5, 3}}, {{"axis", int64_t{1}}, {"keep", false}}), "n_b->nb");
  EXPECT_EQ(rule("flatten", {{6, 3, 5}}, {{"from", int64_t{2}}}), "nab_->nab");
  EXPECT_EQ(rule("transpose", {{6, 4}}, {{"a", int64_t{1}}, {"b", int64_t{2}}}), "nab->nba");
  EXPECT_EQ(rule("linear", {{6}}, {{"out", int64_t{4}}, {"bias", true}}), "ni,oi,o->no");
  Attrs conv{{"width", int64_t{4}}, {"k", int64_t{1}}, {"groups", int64_t{1}}};
  EXPECT_EQ(rule("conv", {{4, 3, 3}}, conv), "ni__,oi__->no__");
  conv.set("groups", int64_t{2});
  EXPECT_EQ(rule("conv", {{4, 3, 3}}, conv), "ng__,g___->ng__");
}

}  // namespace
}  // namespace xrun::ops
