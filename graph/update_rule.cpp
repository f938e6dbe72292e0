#include "graph/update_rule.h"

#include <algorithm>

namespace xrun {
namespace {

constexpr std::string_view kElements = "elements";
constexpr std::string_view kScalars = "scalars";
constexpr std::string_view kStates = "states";

// By node: whether it depends on an input of the elements.
std::vector<bool> elements_of(const ScalarExpr& all, int first_step_input) {
  std::vector<bool> found;
  for (const ScalarNode& node : all.nodes()) {
    const auto depends = [&](ScalarId arg) { return arg.valid() && found[static_cast<size_t>(arg.index)]; };
    found.push_back(node.op == ScalarOp::kInput ? node.input < first_step_input
                                                : std::ranges::any_of(node.args, depends));
  }
  return found;
}

}  // namespace

Result<UpdateRule> make_update_rule(const ScalarExpr& all, int states) {
  const int first = 2 + states;
  const std::vector<bool> of_element = elements_of(all, first);
  const std::vector<bool> reached = all.reached();
  const auto is_scalar = [&](ScalarId id) {
    return !of_element[static_cast<size_t>(id.index)] && all.node(id).op != ScalarOp::kConstant;
  };
  // The scalars that an element, or a result, reads.
  std::vector<ScalarId> read;
  const auto note = [&](ScalarId id) {
    if (id.valid() && is_scalar(id) && std::ranges::find(read, id) == read.end()) {
      read.push_back(id);
    }
  };
  for (size_t i = 0; i < all.nodes().size(); ++i) {
    if (reached[i] && of_element[i]) {
      std::ranges::for_each(all.nodes()[i].args, note);
    }
  }
  std::ranges::for_each(all.results(), note);
  if (read.size() > kMostUpdateScalars) {
    return Error{ErrorKind::kContent, "XG0216",
                 "an update has " + std::to_string(read.size()) + " numbers that depend on the step alone",
                 "combine some: at most " + std::to_string(kMostUpdateScalars) + " are possible"};
  }
  UpdateRule rule{.states = states};
  std::vector<ScalarId> steps(static_cast<size_t>(first), ScalarId());
  for (int i = 0; i < kStepInputs; ++i) {
    steps.push_back(rule.scalars.input(i));
  }
  std::fill_n(steps.begin(), first, steps.back());  // not read by any scalar
  if (!read.empty()) {
    ScalarExpr scalars = all;
    scalars.set_results(read);
    scalars.prune();
    rule.scalars.set_results(rule.scalars.insert(scalars, steps));
  }

  // The elements, with an input in the place of each scalar.
  std::vector<ScalarId> copies(all.nodes().size());
  for (size_t i = 0; i < all.nodes().size(); ++i) {
    const ScalarNode& node = all.nodes()[i];
    const auto known = std::ranges::find(read, ScalarId(i));
    if (!reached[i]) {
      continue;
    }
    if (known != read.end()) {
      copies[i] = rule.elements.input(first + static_cast<int>(known - read.begin()));
    } else if (node.op == ScalarOp::kInput) {
      copies[i] = of_element[i] ? rule.elements.input(node.input) : ScalarId();
    } else if (node.op == ScalarOp::kConstant) {
      copies[i] = rule.elements.constant(node.value);
    } else if (of_element[i]) {
      const auto arg = [&](size_t k) {
        return node.args[k].valid() ? copies[static_cast<size_t>(node.args[k].index)] : ScalarId();
      };
      copies[i] = rule.elements.make(node.op, arg(0), arg(1), arg(2));
    }
  }
  std::vector<ScalarId> results;
  for (const ScalarId id : all.results()) {
    results.push_back(copies[static_cast<size_t>(id.index)]);
  }
  rule.elements.set_results(std::move(results));
  return rule;
}

void store_update_rule(const UpdateRule& rule, const std::vector<std::string>& states, Attrs& arguments) {
  arguments.set(kElements, to_text(rule.elements));
  arguments.set(kScalars, rule.scalars.results().empty() ? std::string() : to_text(rule.scalars));
  arguments.set(kStates, TextList(states));
}

bool has_update_rule(const Attrs& arguments) { return arguments.has(kElements); }

Attrs without_update_rule(const Attrs& arguments) {
  Attrs given;
  for (const auto& [name, value] : arguments.all()) {
    if (name != kElements && name != kScalars && name != kStates) {
      given.set(name, value);
    }
  }
  return given;
}

Result<UpdateRule> read_update_rule(const Attrs& arguments) {
  UpdateRule rule{.states = static_cast<int>(arguments.texts(kStates).size())};
  XRUN_ASSIGN(rule.elements, parse_scalar_expr(arguments.text(kElements)));
  if (!arguments.text(kScalars).empty()) {
    XRUN_ASSIGN(rule.scalars, parse_scalar_expr(arguments.text(kScalars)));
  }
  const auto fits = [](const ScalarExpr& expr, int inputs) {
    const std::vector<int> read = expr.inputs_read();
    return read.empty() || read.back() < inputs;
  };
  if (rule.states > kMostUpdateStates || rule.scalars.results().size() > kMostUpdateScalars ||
      rule.elements.results().size() != static_cast<size_t>(1 + rule.states) || !fits(rule.elements, rule.inputs()) ||
      !fits(rule.scalars, kStepInputs)) {
    return Error{ErrorKind::kContent, "XG0303", "the update of an optimizer does not fit its states",
                 "make the file anew: updates are written by xrun"};
  }
  return rule;
}

}  // namespace xrun
