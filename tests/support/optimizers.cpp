#include "tests/support/optimizers.h"

#include <cstdlib>
#include <fmt/format.h>

#include "graph/settings/known_update.h"
#include "graph/settings/update_rule.h"

namespace xrun::test {
namespace {

// The inputs of the rule are those of make_update_rule: weight, gradient, states, rate, step, decay, norms.
UpdateRule rule_from(const std::string& text, int states) {
  const auto all = parse_scalar_expr(text);
  if (!all.ok()) {
    fmt::print(stderr, "{}\n{}\n", text, all.error().message);
    std::abort();
  }
  return *make_update_rule(*all, std::vector<double>(static_cast<size_t>(states)), 2);
}

UpdateRule lars(const Attrs& arguments) {
  return rule_from(fmt::format("t0 = x1 + x5 * x0; "
                               "t1 = {} * x2 + select(max(x6 == 0, x7 == 0), 1, {} * x6 / (x7 + 1e-08)) * t0; "
                               "x0 - x3 * t1, t1, x0, t0",
                               arguments.real("momentum"), arguments.real("trust")),
                   1);
}

UpdateRule lamb(const Attrs& arguments) {
  const double beta1 = arguments.real("beta1");
  const double beta2 = arguments.real("beta2");
  return rule_from(fmt::format("t0 = {} * x2 + {} * x1; t1 = {} * x3 + {} * (x1 * x1); "
                               "t2 = t0 * (1 / (1 - {} ^ x5)) / (sqrt(t1 * (1 / (1 - {} ^ x5))) + {}) + x6 * x0; "
                               "x0 - t2 * (x4 * select(max(x7 == 0, x8 == 0), 1, x7 / x8)), t0, t1, x0, t2",
                               beta1, 1 - beta1, beta2, 1 - beta2, beta1, beta2, arguments.real("eps")),
                   2);
}

Attrs defaults_of(const std::string& name) {
  if (name == "sgd") {
    return {{"momentum", 0.0}, {"weight_decay", 0.0}, {"nesterov", false}};
  }
  if (name == "lars") {
    return {{"momentum", 0.9}, {"weight_decay", 1e-4}, {"trust", 0.001}};
  }
  return {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", name == "lamb" ? 1e-6 : 1e-8}, {"weight_decay", 0.01}};
}

}  // namespace

CallSpec optimizer(const std::string& name, Attrs arguments) {
  CallSpec call{.name = name, .args = defaults_of(name), .span = {}};
  for (const auto& [argument, value] : arguments.all()) {
    call.args.set(argument, value);
  }
  const Attrs& given = call.args;
  if (name == "lars" || name == "lamb") {
    store_update_rule(name == "lars" ? lars(given) : lamb(given),
                      name == "lars" ? std::vector<std::string>{"velocity"} : std::vector<std::string>{"m", "v"},
                      call.args);
  } else if (name == "sgd") {
    const KnownUpdate sgd{
        .kind = KnownUpdate::kSgd, .momentum = given.real("momentum"), .nesterov = given.flag("nesterov")};
    store_update_rule(rule_of(sgd),
                      sgd.momentum != 0 ? std::vector<std::string>{"velocity"} : std::vector<std::string>{}, call.args);
  } else {
    store_update_rule(rule_of({.kind = KnownUpdate::kAdamw,
                               .beta1 = given.real("beta1"),
                               .beta2 = given.real("beta2"),
                               .eps = given.real("eps")}),
                      {"m", "v"}, call.args);
  }
  return call;
}

}  // namespace xrun::test
