// Tests: tests/lang/elaborate/bodies/own_optimizer_test.cpp
#include "graph/settings/known_update.h"

#include <algorithm>
#include <optional>

namespace xrun {
namespace {

// Builds the expressions of known updates with the inputs of make_update_rule. Operations are made in the order in
// which the language makes them, so that the numbers of a step have the same positions in both rules.
struct Term {
  ScalarExpr* expr;
  ScalarId id;
};

Term make(ScalarOp op, Term a, Term b) { return {a.expr, a.expr->make(op, a.id, b.id)}; }
Term operator+(Term a, Term b) { return make(ScalarOp::kAdd, a, b); }
Term operator-(Term a, Term b) { return make(ScalarOp::kSub, a, b); }
Term operator*(Term a, Term b) { return make(ScalarOp::kMul, a, b); }
Term operator/(Term a, Term b) { return make(ScalarOp::kDiv, a, b); }

class RuleWriter {
 public:
  explicit RuleWriter(int states) : states_(states) {}

  Term weight() { return input(0); }
  Term grad() { return input(1); }
  Term state(int i) { return input(2 + i); }
  Term of_step(StepInput which) { return input(2 + states_ + static_cast<int>(which)); }
  Term number(double value) { return {&expr_, expr_.constant(value)}; }
  // The norm with this number, counted in the order of the norms' functions in `rule`.
  Term norm(int number) { return input(2 + states_ + kStepInputs + number); }
  Term is_zero(Term a) { return make(ScalarOp::kEqual, a, number(0)); }
  Term choose(Term condition, Term yes, Term no) {
    return {&expr_, expr_.make(ScalarOp::kSelect, condition.id, yes.id, no.id)};
  }
  Term root(Term a) { return {&expr_, expr_.make(ScalarOp::kSqrt, a.id)}; }
  // 1 / (1 - beta ^ step)
  Term correction(double beta) {
    const Term power = make(ScalarOp::kPow, number(beta), of_step(StepInput::kStep));
    return number(1) / (number(1) - power);
  }

  UpdateRule rule(std::initializer_list<Term> results, int norms = 0) {
    std::vector<ScalarId> ids;
    std::ranges::transform(results, std::back_inserter(ids), &Term::id);
    expr_.set_results(std::move(ids));
    return *make_update_rule(expr_, std::vector<double>(static_cast<size_t>(states_)), norms);
  }

 private:
  Term input(int place) { return {&expr_, expr_.input(place)}; }

  int states_;
  ScalarExpr expr_;
};

UpdateRule sgd_rule(double momentum, bool nesterov) {
  RuleWriter write(momentum != 0 ? 1 : 0);
  const Term w = write.weight();
  const Term g = write.grad() + write.of_step(StepInput::kDecay) * w;
  if (momentum == 0) {
    return write.rule({w - write.of_step(StepInput::kRate) * g});
  }
  const Term velocity = write.number(momentum) * write.state(0) + g;
  const Term step = nesterov ? g + write.number(momentum) * velocity : velocity;
  return write.rule({w - write.of_step(StepInput::kRate) * step, velocity});
}

UpdateRule adamw_rule(double beta1, double beta2, double eps) {
  RuleWriter write(2);
  const Term w = write.weight();
  const Term g = write.grad();
  const Term m = write.number(beta1) * write.state(0) + write.number(1 - beta1) * g;
  const Term v = write.number(beta2) * write.state(1) + write.number(1 - beta2) * (g * g);
  const Term mean = m * write.correction(beta1);
  const Term root = write.root(v * write.correction(beta2));
  const Term u = mean / (root + write.number(eps));
  const Term decay = write.of_step(StepInput::kDecay) * w;
  return write.rule({w - write.of_step(StepInput::kRate) * (u + decay), m, v});
}

UpdateRule lars_rule(double momentum, double trust) {
  RuleWriter write(1);
  const Term w = write.weight();
  const Term g = write.grad() + write.of_step(StepInput::kDecay) * w;
  const Term of_weight = write.norm(0);
  const Term of_gradient = write.norm(1);
  const Term any_zero = make(ScalarOp::kMax, write.is_zero(of_weight), write.is_zero(of_gradient));
  const Term share = write.number(trust) * of_weight / (of_gradient + write.number(kTrustEps));
  const Term velocity = write.number(momentum) * write.state(0) + write.choose(any_zero, write.number(1), share) * g;
  return write.rule({w - write.of_step(StepInput::kRate) * velocity, velocity, w, g}, 2);
}

bool same(const UpdateRule& a, const UpdateRule& b) {
  const auto equal = [](const ScalarExpr& one, const ScalarExpr& other) { return to_text(one) == to_text(other); };
  return a.states == b.states && a.first == b.first && std::ranges::equal(a.norms, b.norms, equal) &&
         equal(a.ratios, b.ratios) && equal(a.elements, b.elements) && equal(a.scalars, b.scalars);
}

// The factor c if the new value of a state is `c * state + ...`; otherwise nullopt.
std::optional<double> kept_share(const UpdateRule& rule, int state) {
  const ScalarExpr& expr = rule.elements;
  const ScalarNode& sum = expr.node(expr.results()[static_cast<size_t>(1 + state)]);
  if (sum.op != ScalarOp::kAdd || expr.node(sum.args[0]).op != ScalarOp::kMul) {
    return std::nullopt;
  }
  const double* share = expr.constant_of(expr.node(sum.args[0]).args[0]);
  return share == nullptr ? std::nullopt : std::optional(*share);
}

// Whether the new weight and every new state is a sum of inputs of an element, each with a factor. A factor may depend
// on the step and on norms.
bool is_linear(const UpdateRule& rule) {
  enum Degree { kFactor, kLinear, kOther };
  const ScalarExpr& expr = rule.elements;
  std::vector<Degree> degrees;
  for (const ScalarNode& node : expr.nodes()) {
    const auto of = [&](size_t i) { return degrees[static_cast<size_t>(node.args[i].index)]; };
    const bool sums = node.op == ScalarOp::kAdd || node.op == ScalarOp::kSub;
    const bool varies = std::ranges::any_of(
        node.args, [&](ScalarId arg) { return arg.valid() && degrees[static_cast<size_t>(arg.index)] != kFactor; });
    if (node.op == ScalarOp::kInput) {
      degrees.push_back(node.input < 2 + rule.states ? kLinear : kFactor);
    } else if (!varies) {
      degrees.push_back(kFactor);
    } else if (sums || node.op == ScalarOp::kNeg) {
      degrees.push_back(of(0) == kLinear && (!sums || of(1) == kLinear) ? kLinear : kOther);
    } else if (node.op == ScalarOp::kMul) {
      degrees.push_back(of(0) != kOther && of(1) != kOther && of(0) != of(1) ? kLinear : kOther);
    } else if (node.op == ScalarOp::kDiv) {
      degrees.push_back(of(0) == kLinear && of(1) == kFactor ? kLinear : kOther);
    } else {
      degrees.push_back(kOther);
    }
  }
  return std::ranges::all_of(expr.results(),
                             [&](ScalarId id) { return degrees[static_cast<size_t>(id.index)] == kLinear; });
}

}  // namespace

UpdateRule rule_of(const KnownUpdate& update) {
  switch (update.kind) {
    case KnownUpdate::kSgd:
      return sgd_rule(update.momentum, update.nesterov);
    case KnownUpdate::kLars:
      return lars_rule(update.momentum, update.trust);
    default:
      return adamw_rule(update.beta1, update.beta2, update.eps);
  }
}

KnownUpdate known_update(const UpdateRule& rule) {
  std::vector<KnownUpdate> candidates;
  if (rule.states == 1 && !rule.norms.empty()) {
    const auto momentum = kept_share(rule, 0);
    for (const ScalarNode& node : rule.ratios.nodes()) {
      if (momentum && node.op == ScalarOp::kConstant && candidates.size() < 8) {
        candidates.push_back({.kind = KnownUpdate::kLars, .momentum = *momentum, .trust = node.value});
      }
    }
  }
  if (rule.states == 0) {
    candidates.push_back({.kind = KnownUpdate::kSgd});
  } else if (rule.states == 1) {
    if (const auto momentum = kept_share(rule, 0)) {
      candidates.push_back({.kind = KnownUpdate::kSgd, .momentum = *momentum});
      candidates.push_back({.kind = KnownUpdate::kSgd, .momentum = *momentum, .nesterov = true});
    }
  } else if (rule.states == 2) {
    const auto beta1 = kept_share(rule, 0);
    const auto beta2 = kept_share(rule, 1);
    for (const ScalarNode& node : rule.elements.nodes()) {
      if (beta1 && beta2 && node.op == ScalarOp::kConstant && candidates.size() < 8) {
        candidates.push_back({.kind = KnownUpdate::kAdamw, .beta1 = *beta1, .beta2 = *beta2, .eps = node.value});
      }
    }
  }
  const auto found =
      std::ranges::find_if(candidates, [&](const KnownUpdate& update) { return same(rule_of(update), rule); });
  return found == candidates.end() ? KnownUpdate{} : *found;
}

KnownUpdate known_update(const CallSpec& optimizer) {
  const auto rule = read_update_rule(optimizer.args);
  return rule.ok() ? known_update(*rule) : KnownUpdate{};
}

bool steps_vanish(const CallSpec& optimizer) {
  const auto rule = read_update_rule(optimizer.args);
  const auto is_zero = [](double first) { return first == 0; };
  return rule.ok() && std::ranges::all_of(rule->first, is_zero) && is_linear(*rule);
}

}  // namespace xrun
