// Optimizers that a file declares: their update rules, and declarations that are rejected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tuple>

#include "graph/settings/known_update.h"
#include "graph/settings/update_rule.h"
#include "ops/op.h"
#include "tests/lang/checked.h"
#include "tests/support/optimizers.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Checks a small training with this optimizer. `settings` holds further settings of the training.
struct Answer : Checked {
  explicit Answer(const std::string& optimizer, const std::string& call = "own", const std::string& settings = "")
      : Checked(optimizer + R"(
model m {
  input x: f32[N, 8]

  y = x -> linear(4) -> relu -> linear(3)
  output y
}

data d {
  source train = synthetic([8], 3, 640)

  x = pixels
}

train t {
  batch     = 64
  epochs    = 1
  loss      = softmax_ce(y, label)
  lr        = 0.1
  optimizer = )" + call +
                    "\n" + settings + "}\n",
                {.ops = &ops::registry()}) {}
  const Attrs& arguments() const { return file->module.train.optimizer.args; }
};

constexpr const char* kLion = R"(
optimizer lion(lr, b1 = 0.9, b2 = 0.99, weight_decay = 0.1) {
  state m = 0
  u      = b1 * m + (1 - b1) * grad
  m      = b2 * m + (1 - b2) * grad
  weight = weight - lr * (sign(u) + weight_decay * weight)
}
)";

TEST(OwnOptimizer, ADeclarationBecomesAnUpdateRule) {
  const Answer lion(kLion, "lion(b1=0.75)");
  ASSERT_TRUE(lion.file.has_value()) << lion.rendered();
  const CallSpec& call = lion.file->module.train.optimizer;
  EXPECT_EQ(call.name, "lion");
  EXPECT_EQ(call.args.real("b1", 0), 0.75);
  EXPECT_EQ(call.args.real("weight_decay", 0), 0.1);
  EXPECT_EQ(call.args.text("rule.scalars"), "x2, x0");
  EXPECT_EQ(call.args.text("rule.elements"),
            "x0 - x4 * (sign(0.75 * x2 + 0.25 * x1) + x3 * x0), 0.99 * x2 + 0.010000000000000009 * x1");
  EXPECT_THAT(call.args.texts("rule.states"), ElementsAre("m"));
}

TEST(OwnOptimizer, ValuesThatDependOnTheStepAloneAreComputedOnce) {
  const Answer adam(
      "optimizer own(beta1 = 0.9, beta2 = 0.999) {\n  state m = 0\n  state v = 0\n"
      "  m = beta1 * m + (1 - beta1) * grad\n  v = beta2 * v + (1 - beta2) * grad ^ 2\n"
      "  weight = weight - lr * (m / (1 - beta1 ^ step)) / (sqrt(v / (1 - beta2 ^ step)) + 1e-8)\n}\n");
  ASSERT_TRUE(adam.file.has_value()) << adam.rendered();
  EXPECT_EQ(adam.arguments().text("rule.scalars"), "1 - 0.9 ^ x1, x0, 1 - 0.999 ^ x1");
  const auto rule = read_update_rule(adam.arguments());
  ASSERT_TRUE(rule.ok()) << rule.error().message;
  EXPECT_EQ(rule->states, 2);
  EXPECT_EQ(rule->scalars.results().size(), 3U);
}

TEST(OwnOptimizer, OptimizersForTestsEqualThoseOfTheLibrary) {
  for (const auto& [call, name, arguments] : std::initializer_list<std::tuple<const char*, const char*, Attrs>>{
           {"sgd", "sgd", {}},
           {"sgd(momentum=0.75)", "sgd", {{"momentum", 0.75}}},
           {"sgd(0.75, 0.5, nesterov=true)", "sgd", {{"momentum", 0.75}, {"weight_decay", 0.5}, {"nesterov", true}}},
           {"sgd(nesterov=true)", "sgd", {{"nesterov", true}}},
           {"adamw", "adamw", {}},
           {"adamw(beta1=0, beta2=0.5, eps=0.25)", "adamw", {{"beta1", 0.0}, {"beta2", 0.5}, {"eps", 0.25}}},
           {"lars(trust=0.5)", "lars", {{"trust", 0.5}}},
           {"lamb(beta1=0.5)", "lamb", {{"beta1", 0.5}}}}) {
    const Answer answer("", call);
    ASSERT_TRUE(answer.file.has_value()) << answer.rendered();
    EXPECT_EQ(to_text(answer.arguments()), to_text(test::optimizer(name, arguments).args)) << call;
  }
}

TEST(OwnOptimizer, KnownUpdatesAreRecognizedByTheirComputation) {
  const auto known = [](const std::string& text, const std::string& call) {
    return known_update(Answer(text, call).file->module.train.optimizer);
  };
  EXPECT_EQ(known("", "sgd").kind, KnownUpdate::kSgd);
  EXPECT_EQ(known("", "sgd").momentum, 0);
  const KnownUpdate nesterov = known("", "sgd(momentum=0.75, nesterov=true)");
  EXPECT_EQ(nesterov.kind, KnownUpdate::kSgd);
  EXPECT_EQ(nesterov.momentum, 0.75);
  EXPECT_TRUE(nesterov.nesterov);
  const KnownUpdate adamw = known("", "adamw(beta1=0.5, eps=0.5)");
  EXPECT_EQ(adamw.kind, KnownUpdate::kAdamw);
  EXPECT_EQ(adamw.beta1, 0.5);
  EXPECT_EQ(adamw.beta2, 0.999);
  EXPECT_EQ(adamw.eps, 0.5);
  for (const auto& [call, momentum, trust] :
       {std::tuple{"lars", 0.9, 0.001}, {"lars(momentum=0, trust=0.5)", 0.0, 0.5}, {"lars(0.5, 0, 1)", 0.5, 1.0}}) {
    EXPECT_EQ(known("", call).kind, KnownUpdate::kLars) << call;
    EXPECT_EQ(known("", call).momentum, momentum) << call;
    EXPECT_EQ(known("", call).trust, trust) << call;
  }
  for (const std::string other : {"adam", "lamb", "lion", "rmsprop", "adagrad", "nadamw"}) {
    EXPECT_EQ(known("", other).kind, KnownUpdate::kOther) << other;
  }
  const std::string same =
      "optimizer mine(mu = 0.5, weight_decay = 0.1) {\n  state speed = 0\n  all = grad + weight_decay * weight\n"
      "  speed = mu * speed + all\n  weight = weight - lr * speed\n}\n";
  EXPECT_EQ(known(same, "mine").kind, KnownUpdate::kSgd);
  EXPECT_EQ(known(same, "mine").momentum, 0.5);
  std::string turned = same;
  turned.replace(turned.find("mu * speed + all"), 16, "all + mu * speed");
  EXPECT_EQ(known(turned, "mine").kind, KnownUpdate::kOther) << "a sum in the other order";
  std::string begins = same;
  begins.replace(begins.find("speed = 0"), 9, "speed = 1");
  EXPECT_EQ(known(begins, "mine").kind, KnownUpdate::kOther) << "the state begins with another value";
}

TEST(OwnOptimizer, OnlyStepsOfSgdAndLarsVanishWithTheGradients) {
  const auto vanish = [](const std::string& call) {
    return steps_vanish(Answer("", call).file->module.train.optimizer);
  };
  for (const std::string call : {"sgd", "sgd(momentum=0.9)", "sgd(momentum=0.9, nesterov=true)", "lars"}) {
    EXPECT_TRUE(vanish(call)) << call;
  }
  for (const std::string call : {"adamw", "lamb", "adam", "lion", "rmsprop", "adagrad"}) {
    EXPECT_FALSE(vanish(call)) << call;
  }
  const Answer noise("optimizer own() {\n  weight = weight - lr * (grad + 0.5)\n}\n");
  EXPECT_FALSE(steps_vanish(noise.file->module.train.optimizer)) << "moves without a gradient";
  const Answer drift("optimizer own() {\n  state s = 0.5\n  s = s\n  weight = weight - lr * (grad + s)\n}\n");
  EXPECT_FALSE(steps_vanish(drift.file->module.train.optimizer)) << "a state that is not 0 at first";
}

TEST(OwnOptimizer, AnEqualRuleHasTheMathDigestOfTheKnownOptimizer) {
  const auto digest = [](const std::string& text, const std::string& call) {
    return Answer(text, call).file->module.math_digest;
  };
  const auto own = [](const std::string& state) {
    return "optimizer mine(mu = 0.5, weight_decay = 0.25) {\n  state " + state +
           " = 0\n  g = grad + weight_decay * weight\n  " + state + " = mu * " + state +
           " + g\n  weight = weight - lr * " + state + "\n}\n";
  };
  const std::string sgd = digest("", "sgd(0.5, weight_decay=0.25)");
  EXPECT_EQ(digest(own("velocity"), "mine"), sgd);
  EXPECT_NE(digest(own("velocity"), "mine(mu=0.75)"), sgd);
  EXPECT_NE(digest(own("velocity"), "mine(weight_decay=0)"), sgd);
  EXPECT_NE(digest(own("speed"), "mine"), sgd) << "its checkpoints have a tensor of another name";
  EXPECT_NE(digest("", "lars"), digest("", "lars(trust=0.5)"));
}

TEST(OwnOptimizer, AWeightDecayThatIsNotANumberIsRejected) {
  const std::string own =
      "optimizer own(weight_decay = 0) {\n  weight = weight - lr * (grad + weight_decay * weight)\n}\n";
  for (const std::string decay : {"true", "\"a\"", "[1]", "none"}) {
    EXPECT_THAT(Answer(own, "own(weight_decay=" + decay + ")").codes(), ElementsAre("XG0205")) << decay;
  }
}

TEST(OwnOptimizer, UnreadStatesAreRemoved) {
  EXPECT_THAT(Answer("", "sgd").arguments().texts("rule.states"), IsEmpty());
  EXPECT_EQ(Answer("", "sgd").arguments().text("rule.elements"), "x0 - x3 * (x1 + x2 * x0)");
  const Answer own(
      "optimizer own() {\n  state a = 1\n  state b = 2\n  state c = 3\n  state d = 4\n  a = a + d\n"
      "  b = b + a\n  c = c + grad\n  d = c\n  weight = weight - lr * d / (norm(c) + 1)\n}\n");
  ASSERT_TRUE(own.file.has_value()) << own.rendered();
  EXPECT_THAT(own.arguments().texts("rule.states"), ElementsAre("c"));
  EXPECT_THAT(own.arguments().reals("rule.first"), ElementsAre(3));
  EXPECT_EQ(own.arguments().text("rule.elements"), "t0 = x2 + x1; x0 - x3 * t0 / x4, t0");
  const Answer chain(
      "optimizer own() {\n  state a = 0\n  state b = 0\n  b = b + a\n  a = grad\n  weight = weight - lr * b\n}\n");
  EXPECT_THAT(chain.arguments().texts("rule.states"), ElementsAre("a", "b"));
}

TEST(OwnOptimizer, AssignmentsAreExecutedInOrder) {
  const Answer sgd("optimizer own(mu = 0.5) {\n  state v = 0\n  v = mu * v + grad\n  weight = weight - lr * v\n}\n");
  EXPECT_EQ(sgd.arguments().text("rule.elements"), "t0 = 0.5 * x2 + x1; x0 - x3 * t0, t0");
  const Answer before("optimizer own(mu = 0.5) {\n  state v = 0\n  weight = weight - lr * v\n  v = mu * v + grad\n}\n");
  EXPECT_EQ(before.arguments().text("rule.elements"), "x0 - x3 * x2, 0.5 * x2 + x1");
}

TEST(OwnOptimizer, IncompleteUpdatesAreRejected) {
  const auto answer = [](const std::string& body) { return Answer("optimizer own(mu = 0.5) {\n" + body + "}\n"); };
  EXPECT_THAT(answer("  state v = 0\n  v = v + grad\n").codes(), ElementsAre("XG0224"));
  const Answer misspelt = answer("  state v = 0\n  w = v + grad\n  weight = weight - lr * grad\n");
  EXPECT_THAT(misspelt.codes(), ElementsAre("XG0224"));
  EXPECT_THAT(misspelt.rendered(), HasSubstr("never assigns `v`"));
  EXPECT_THAT(answer("  weight = weight - lr * grad\n  weight = weight * 2\n").codes(), ElementsAre("XG0202"));
  EXPECT_THAT(answer("  lr = 3\n  weight = weight - lr * grad\n").codes(), ElementsAre("XG0202"));
  EXPECT_THAT(answer("  weight = weight - lr * gard\n").codes(), ElementsAre("XG0201"));
  EXPECT_THAT(answer("  weight = weight - lr * conv(grad, 3)\n").codes(), ElementsAre("XG0220"));
  EXPECT_THAT(answer("  state v = grad\n  v = v + grad\n  weight = weight - lr * v\n").codes(), ElementsAre("XG0228"));
  EXPECT_THAT(answer("  state v = 1e39\n  v = v + grad\n  weight = weight - lr * v\n").codes(), ElementsAre("XG0228"));
  EXPECT_THAT(answer("  state ema = 0\n  ema = ema + grad\n  weight = weight - lr * ema\n").codes(),
              ElementsAre("XG0202"));
  EXPECT_THAT(answer("  return weight\n").codes(), ElementsAre("XG0224"));
  EXPECT_THAT(answer("  state weight = 0\n  weight = weight - lr * grad\n").codes(), ElementsAre("XG0202"));
  EXPECT_THAT(Answer(kLion, "lion(lr=0.1)").codes(), ElementsAre("XG0203"));
  EXPECT_THAT(Answer(kLion, "lion(weight_decay=-1)").codes(), ElementsAre("XG0214"));
  EXPECT_THAT(Answer("optimizer own(step = 3) { weight = weight - lr * grad * step }\n").codes(),
              ElementsAre("XG0202"));
  EXPECT_THAT(Answer("optimizer own(mu, lr) { weight = weight - lr * mu * grad }\n", "own(0.5)").codes(),
              ElementsAre("XG0224"));
}

TEST(OwnOptimizer, GroupsMaySetADecayOnlyIfTheOptimizerHasOne) {
  const std::string group = "  groups {\n    linear {\n      weight_decay = 0.1\n    }\n  }\n";
  EXPECT_THAT(Answer(kLion, "lion", group).codes(), IsEmpty());
  EXPECT_THAT(Answer("optimizer own(lr) {\n  weight = weight - lr * grad\n}\n", "own", group).codes(),
              ElementsAre("XG0210"));
}

TEST(OwnOptimizer, TooManyScalarsStatesOrNormsAreRejected) {
  std::string sum = "grad";
  for (int i = 0; i < 17; ++i) {
    sum += " + grad * sin(" + std::to_string(i + 2) + " * step)";
  }
  const Answer scalars("optimizer own(lr) {\n  weight = weight - lr * (" + sum + ")\n}\n");
  EXPECT_THAT(scalars.codes(), ElementsAre("XG0216"));
  EXPECT_THAT(scalars.rendered(), HasSubstr("depend only on the step or on norms"));
  std::string states;
  std::string updates;
  for (const char name : std::string("abcdefgh")) {
    states += std::string("  state ") + name + " = 0\n";
    updates += std::string("  ") + name + " = " + name + " + grad\n";
  }
  const auto of = [&](const std::string& more) {
    return Answer("optimizer own(lr) {\n" + states + updates + more + "  weight = weight - lr * a\n}\n");
  };
  EXPECT_THAT(of("").codes(), IsEmpty());
  const Answer nine = of("  state i = 0\n  i = i + grad\n");
  EXPECT_THAT(nine.codes(), ElementsAre("XG0216"));
  EXPECT_THAT(nine.rendered(), HasSubstr("at most 8 states"));
  std::string norms = "grad";
  for (int i = 0; i < 9; ++i) {
    norms += " * norm(grad + " + std::to_string(i) + ")";
  }
  const Answer many("optimizer own(lr) {\n  weight = weight - lr * " + norms + "\n}\n");
  EXPECT_THAT(many.codes(), ElementsAre("XG0216"));
  EXPECT_THAT(many.rendered(), HasSubstr("at most 8 norms"));
}

TEST(OwnOptimizer, EachNormIsOneNumberPerTensor) {
  const Answer lars(
      "optimizer own(trust = 0.5) {\n  state v = 0.25\n  n = norm(grad)\n"
      "  v = 0.5 * v + (if n > 0 { trust * norm(weight) / n } else { 1 }) * grad\n  weight = weight - lr * v\n}\n");
  ASSERT_TRUE(lars.file.has_value()) << lars.rendered();
  EXPECT_THAT(lars.arguments().texts("rule.norms"), ElementsAre("x1", "x0"));
  EXPECT_EQ(lars.arguments().text("rule.ratios"), "select(0 < x0, 0.5 * x1 / x0, 1)");
  EXPECT_EQ(lars.arguments().text("rule.scalars"), "x0");
  EXPECT_EQ(lars.arguments().text("rule.elements"), "t0 = 0.5 * x2 + x4 * x1; x0 - x3 * t0, t0");
  EXPECT_THAT(lars.arguments().reals("rule.first"), ElementsAre(0.25));
}

// If a norm is over values that another norm has scaled, it is summed after the other norm.
TEST(OwnOptimizer, ANormOfScaledValuesIsSummedAfterTheNormThatScalesThem) {
  const Answer nested(
      "optimizer own(lr) {\n  g = grad / max(norm(grad), 1e-6)\n"
      "  weight = weight - lr * g * norm(weight) / max(norm(g + weight), 1e-6)\n}\n");
  ASSERT_TRUE(nested.file.has_value()) << nested.rendered();
  const auto rule = read_update_rule(nested.arguments());
  ASSERT_TRUE(rule.ok()) << rule.error().message;
  EXPECT_THAT(norm_levels(*rule), ElementsAre(0, 0, 1));
}

TEST(OwnOptimizer, MeaninglessNormsAreRejected) {
  const auto answer = [](const std::string& body) { return Answer("optimizer own(mu = 0.5) {\n" + body + "}\n"); };
  EXPECT_THAT(answer("  weight = weight - lr * grad * norm(mu)\n").codes(), ElementsAre("XG0229"));
  EXPECT_THAT(answer("  weight = weight - lr * grad * norm(step)\n").codes(), ElementsAre("XG0229"));
  EXPECT_THAT(answer("  weight = weight - lr * mu * norm(grad, weight)\n").codes(), ElementsAre("XG0204"));
  const Answer unguarded = answer("  weight = weight - lr * mu * grad / norm(grad)\n");
  EXPECT_THAT(unguarded.codes(), ElementsAre("XG0229"));
  EXPECT_THAT(unguarded.rendered(), HasSubstr("no finite value if norms are 0"));
  EXPECT_THAT(answer("  weight = weight - lr * mu * grad / max(norm(grad), 1e-3)\n").codes(), IsEmpty());
  EXPECT_THAT(answer("  scaled = grad * norm(scaled)\n  weight = weight - lr * mu * scaled\n").codes(),
              ElementsAre("XG0201"));
}

TEST(OwnOptimizer, UnusedOptimizersAreChecked) {
  const auto codes = [](const std::string& text) { return Answer(text, "sgd").codes(); };
  EXPECT_THAT(codes(kLion), IsEmpty());
  EXPECT_THAT(codes("optimizer own(lr) {\n  weight = weight - lr * gard\n}\n"), ElementsAre("XG0201"));
  EXPECT_THAT(codes("optimizer own(lr) {\n  u = grad\n  weight = weight - lr * grad\n}\n"), ElementsAre("XG0215"));
}

TEST(OwnOptimizer, AStoredRuleThatDoesNotFitIsRejected) {
  const Answer lion(kLion, "lion");
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, AttrValue>>{{"rule.elements", std::string("x0")},
                                                                {"rule.elements", std::string("x0, x9")},
                                                                {"rule.elements", std::string("x0,")},
                                                                {"rule.scalars", std::string("x3, x0")},
                                                                {"rule.states", TextList{"a", "b", "c"}},
                                                                {"rule.first", std::vector<double>{1, 2}},
                                                                {"rule.norms", TextList{"x9"}},
                                                                {"rule.norms", TextList{"x0, x1"}}}) {
    Attrs changed = lion.arguments();
    changed.set(key, value);
    EXPECT_FALSE(read_update_rule(changed).ok()) << key;
  }
  EXPECT_TRUE(read_update_rule(lion.arguments()).ok());
}

}  // namespace
}  // namespace xrun::lang
