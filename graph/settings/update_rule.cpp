// Makes an UpdateRule from one expression, the update of one element:
//   1. reads_of finds for each operation which kinds of inputs it depends on: those of the element, of the step, norms.
//   2. Elements::find_uniform collects the largest operations that depend only on the step or only on norms.
//   3. part_of cuts these out as `scalars` and `ratios`, which are computed once per step and once per tensor, in f64.
//   4. Elements::make builds the functions of an element, in which the results of step 3 are inputs.
// The other functions store a rule in the arguments of an optimizer's call as texts, and read it from there.
// Tests: tests/lang/elaborate/bodies/own_optimizer_test.cpp, tests/ops/jit/interpreter_test.cpp
#include "graph/settings/update_rule.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace xrun {
namespace {

constexpr std::string_view kElements = "rule.elements";
constexpr std::string_view kFirst = "rule.first";
constexpr std::string_view kNorms = "rule.norms";
constexpr std::string_view kRatios = "rule.ratios";
constexpr std::string_view kScalars = "rule.scalars";
constexpr std::string_view kStates = "rule.states";

// The kinds of inputs that an operation depends on.
enum Reads : uint8_t { kNothing = 0, kElement = 1, kStep = 2, kNorm = 4 };

std::vector<uint8_t> reads_of(const ScalarExpr& all, int first_step_input) {
  std::vector<uint8_t> found;
  for (const ScalarNode& node : all.nodes()) {
    uint8_t reads = kNothing;
    if (node.op == ScalarOp::kInput) {
      reads = node.input < first_step_input ? kElement : node.input < first_step_input + kStepInputs ? kStep : kNorm;
    }
    for (const ScalarId arg : node.args) {
      if (arg.valid()) {
        reads = static_cast<uint8_t>(reads | found[static_cast<size_t>(arg.index)]);
      }
    }
    found.push_back(reads);
  }
  return found;
}

// The operations of `all` that `results` depend on, as an expression of its own, whose input i is input `first + i` of
// `all`.
ScalarExpr part_of(const ScalarExpr& all, std::vector<ScalarId> results, int first, int inputs) {
  ScalarExpr part;
  if (results.empty()) {
    return part;
  }
  ScalarExpr some = all;
  some.set_results(std::move(results));
  some.prune();
  std::vector<ScalarId> places;
  for (int i = 0; i < inputs; ++i) {
    places.push_back(part.input(i));
  }
  places.insert(places.begin(), static_cast<size_t>(first), places.back());  // the inputs before `first` are not read
  part.set_results(part.insert(some, places));
  return part;
}

// Builds the functions of one element. The numbers of a step and of norms are inputs of these functions.
class Elements {
 public:
  Elements(const ScalarExpr& all, const std::vector<uint8_t>& reads, int first_step_input)
      : all_(all), reads_(reads), first_(first_step_input) {}

  // Collects the numbers of a step and of norms that functions of an element read.
  void find_uniform() {
    const std::vector<bool> reached = all_.reached();
    for (size_t i = 0; i < all_.nodes().size(); ++i) {
      if (reached[i] && is_of_elements(ScalarId(i))) {
        std::ranges::for_each(all_.nodes()[i].args, [&](ScalarId arg) { note(arg); });
      }
    }
    std::ranges::for_each(all_.results(), [&](ScalarId id) { note(id); });
  }
  ScalarExpr make(std::vector<ScalarId> results) const {
    ScalarExpr expr;
    std::vector<ScalarId> copies(all_.nodes().size());
    ScalarExpr wanted = all_;
    wanted.set_results(results);
    const std::vector<bool> reached = wanted.reached();
    for (size_t i = 0; i < all_.nodes().size(); ++i) {
      const ScalarNode& node = all_.nodes()[i];
      const ScalarId id(i);
      if (!reached[i]) {
        continue;
      }
      if (node.op == ScalarOp::kConstant) {
        copies[i] = expr.constant(node.value);
      } else if (const int place = place_of(id); place >= 0) {
        copies[i] = expr.input(place);
      } else if (node.op == ScalarOp::kInput) {
        copies[i] = node.input < first_ ? expr.input(node.input) : ScalarId();
      } else if (is_of_elements(id)) {
        const auto arg = [&](size_t k) {
          return node.args[k].valid() ? copies[static_cast<size_t>(node.args[k].index)] : ScalarId();
        };
        copies[i] = expr.make(node.op, arg(0), arg(1), arg(2));
      }
    }
    for (ScalarId& id : results) {
      id = copies[static_cast<size_t>(id.index)];
    }
    expr.set_results(std::move(results));
    return expr;
  }

  std::vector<ScalarId> steps;   // operations that are computed once per step
  std::vector<ScalarId> ratios;  // operations that are computed once per tensor, from its norms

 private:
  uint8_t reads(ScalarId id) const { return reads_[static_cast<size_t>(id.index)]; }
  // Whether an operation is computed for each element. This is also so if it mixes numbers of the step with norms.
  bool is_of_elements(ScalarId id) const { return (reads(id) & kElement) != 0 || reads(id) == (kStep | kNorm); }
  void note(ScalarId id) {
    // A constant that is left as an operation is not finite; it is computed with the numbers of the step.
    const bool is_uniform = id.valid() && !is_of_elements(id) && all_.node(id).op != ScalarOp::kConstant;
    if (!is_uniform) {
      return;
    }
    std::vector<ScalarId>& known = reads(id) == kNorm ? ratios : steps;
    if (std::ranges::find(known, id) == known.end()) {
      known.push_back(id);
    }
  }
  int place_of(ScalarId id) const {
    const auto step = std::ranges::find(steps, id);
    const auto ratio = std::ranges::find(ratios, id);
    return step != steps.end()     ? first_ + static_cast<int>(step - steps.begin())
           : ratio != ratios.end() ? first_ + static_cast<int>(std::ssize(steps) + (ratio - ratios.begin()))
                                   : -1;
  }

  const ScalarExpr& all_;
  const std::vector<uint8_t>& reads_;
  int first_;
};

// Whether the new weight or a norm depends on a state, directly or through other states. Index: state.
std::vector<bool> states_read(ScalarExpr expr, size_t states) {
  const std::vector<ScalarId> all = expr.results();
  std::vector<bool> is_read(states, false);
  std::vector<ScalarId> needed = all;
  needed.erase(needed.begin() + 1, needed.begin() + 1 + static_cast<std::ptrdiff_t>(states));
  for (size_t known = 0; known != needed.size();) {
    known = needed.size();
    expr.set_results(needed);
    for (const int input : expr.inputs_read()) {
      const int state = input - 2;
      if (state >= 0 && state < static_cast<int>(states) && !is_read[static_cast<size_t>(state)]) {
        is_read[static_cast<size_t>(state)] = true;
        needed.push_back(all[static_cast<size_t>(1 + state)]);
      }
    }
  }
  return is_read;
}

// The argument `name` if it has the type T, or `otherwise`.
template <class T>
T argument_or(const Attrs& arguments, std::string_view name, T otherwise) {
  const AttrValue* value = arguments.find(name);
  const T* known = value == nullptr ? nullptr : std::get_if<T>(value);
  return known == nullptr ? otherwise : *known;
}

// Whether a rule that was read from texts is consistent and within the limits.
bool fits(const UpdateRule& rule) {
  const auto below = [](const ScalarExpr& expr, int inputs) {
    const std::vector<int> read = expr.inputs_read();
    return read.empty() || read.back() < inputs;
  };
  const auto norms = static_cast<int>(rule.norms.size());
  const size_t uniform = rule.scalars.results().size() + rule.ratios.results().size();
  if (rule.states > kMostUpdateStates || norms > kMostUpdateNorms || uniform > kMostUpdateScalars ||
      rule.first.size() != static_cast<size_t>(rule.states) ||
      !std::ranges::all_of(rule.first, [](double value) { return std::isfinite(value); }) ||
      rule.elements.results().size() != static_cast<size_t>(1 + rule.states) || !below(rule.elements, rule.inputs()) ||
      !below(rule.scalars, kStepInputs) || !below(rule.ratios, norms)) {
    return false;
  }
  // A norm may read only the norms before it.
  const int first_ratio = 2 + rule.states + rule.step_scalars();
  for (int i = 0; i < norms; ++i) {
    const ScalarExpr& norm = rule.norms[static_cast<size_t>(i)];
    if (norm.results().size() != 1 || !below(norm, rule.inputs())) {
      return false;
    }
    for (const int input : norm.inputs_read()) {
      ScalarExpr ratio = rule.ratios;
      if (input >= first_ratio) {
        ratio.set_results({rule.ratios.results()[static_cast<size_t>(input - first_ratio)]});
        if (!below(ratio, i)) {
          return false;
        }
      }
    }
  }
  return true;
}

}  // namespace

Result<UpdateRule> make_update_rule(const ScalarExpr& all, std::vector<double> first, int norms) {
  const int states = static_cast<int>(first.size());
  const int step_input = 2 + states;
  const std::vector<uint8_t> reads = reads_of(all, step_input);
  Elements elements(all, reads, step_input);
  elements.find_uniform();
  const size_t uniform = elements.steps.size() + elements.ratios.size();
  if (uniform > kMostUpdateScalars) {
    return Error{ErrorKind::kContent, "XG0216",
                 "an update has " + std::to_string(uniform) + " numbers that depend only on the step or on norms",
                 "combine some: at most " + std::to_string(kMostUpdateScalars) + " are possible"};
  }
  UpdateRule rule{.states = states, .first = std::move(first)};
  rule.scalars = part_of(all, elements.steps, step_input, kStepInputs);
  rule.ratios = part_of(all, elements.ratios, step_input + kStepInputs, norms);
  const auto results = all.results().begin() + 1 + states;
  rule.elements = elements.make({all.results().begin(), results});
  for (int i = 0; i < norms; ++i) {
    rule.norms.push_back(elements.make({results[i]}));
  }
  return rule;
}

void leave_out_unread_states(ScalarExpr& all, std::vector<std::string>& names, std::vector<double>& first) {
  const std::vector<bool> is_read = states_read(all, names.size());
  if (std::ranges::count(is_read, false) == 0) {
    return;
  }
  ScalarExpr kept;
  std::vector<ScalarId> places{kept.input(0), kept.input(1)};  // places of the inputs of `all`
  int next = 2;
  for (const bool read : is_read) {
    places.push_back(read ? kept.input(next++) : ScalarId());
  }
  for (int i = 0; i < kStepInputs + kMostUpdateNorms; ++i) {
    places.push_back(kept.input(next + i));
  }
  std::vector<ScalarId> results = all.results();
  for (auto i = std::ssize(names); i-- > 0;) {
    if (!is_read[static_cast<size_t>(i)]) {
      results.erase(results.begin() + 1 + i);
      names.erase(names.begin() + i);
      first.erase(first.begin() + i);
    }
  }
  all.set_results(std::move(results));
  all.prune();  // no operation reads a state that is left out
  kept.set_results(kept.insert(all, places));
  all = std::move(kept);
}

std::vector<int> norm_levels(const UpdateRule& rule) {
  const int first_ratio = 2 + rule.states + rule.step_scalars();
  std::vector<int> levels;
  for (const ScalarExpr& norm : rule.norms) {
    int level = 0;
    for (const int input : norm.inputs_read()) {
      if (input < first_ratio) {
        continue;
      }
      ScalarExpr ratio = rule.ratios;
      ratio.set_results({rule.ratios.results()[static_cast<size_t>(input - first_ratio)]});
      for (const int other : ratio.inputs_read()) {
        level = std::max(level, levels[static_cast<size_t>(other)] + 1);
      }
    }
    levels.push_back(level);
  }
  return levels;
}

bool norms_read_states(const UpdateRule& rule) {
  return std::ranges::any_of(rule.norms, [&](const ScalarExpr& norm) {
    return std::ranges::any_of(norm.inputs_read(), [&](int input) { return input >= 2 && input < 2 + rule.states; });
  });
}

void store_update_rule(const UpdateRule& rule, const std::vector<std::string>& states, Attrs& arguments) {
  const auto text = [](const ScalarExpr& expr) { return expr.results().empty() ? std::string() : to_text(expr); };
  arguments.set(kElements, to_text(rule.elements));
  arguments.set(kScalars, text(rule.scalars));
  arguments.set(kStates, TextList(states));
  if (std::ranges::any_of(rule.first, [](double value) { return value != 0; })) {
    arguments.set(kFirst, rule.first);
  }
  if (!rule.norms.empty()) {
    TextList norms;
    std::ranges::transform(rule.norms, std::back_inserter(norms), text);
    arguments.set(kNorms, norms);
    arguments.set(kRatios, text(rule.ratios));
  }
}

std::vector<std::string> states_of_rule(const Attrs& arguments) { return argument_or(arguments, kStates, TextList()); }

std::vector<double> initial_values_of_rule(const Attrs& arguments) {
  return argument_or(arguments, kFirst, std::vector<double>(states_of_rule(arguments).size()));
}

Attrs without_update_rule(const Attrs& arguments) {
  Attrs given;
  for (const auto& [name, value] : arguments.all()) {
    if (!name.starts_with("rule.")) {
      given.set(name, value);
    }
  }
  return given;
}

Result<UpdateRule> read_update_rule(const Attrs& arguments) {
  UpdateRule rule{.states = static_cast<int>(states_of_rule(arguments).size()),
                  .first = initial_values_of_rule(arguments)};
  const auto read = [&](std::string_view name) {
    const auto text = argument_or(arguments, name, std::string());
    return text.empty() ? Result<ScalarExpr>(ScalarExpr()) : parse_scalar_expr(text);
  };
  XRUN_ASSIGN(rule.elements, read(kElements));
  XRUN_ASSIGN(rule.scalars, read(kScalars));
  XRUN_ASSIGN(rule.ratios, read(kRatios));
  for (const std::string& text : argument_or(arguments, kNorms, TextList())) {
    XRUN_ASSIGN(ScalarExpr norm, parse_scalar_expr(text));
    rule.norms.push_back(std::move(norm));
  }
  if (!fits(rule)) {
    return Error{ErrorKind::kContent, "XG0303", "the update of an optimizer does not fit its states",
                 "report this: updates are written by xrun"};
  }
  return rule;
}

}  // namespace xrun
