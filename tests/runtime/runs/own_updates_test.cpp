// Optimizers that a file declares. Formulas that have kernels give the bits of these kernels. Any number of states with
// any initial values gives the same bits under every plan, with class rows of every kind, and after a stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/command_runs.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kModel = R"(xgraph 1

option classes: int = 600

## What `sgd` and `adamw` compute, with the operands of a sum in the other order, so that no kernel knows the rules.
optimizer own_sgd(momentum = 0.9, weight_decay = 1e-3) {
  state velocity = 0
  velocity = (grad + weight_decay * weight) + momentum * velocity
  weight   = weight - lr * velocity
}

optimizer own_adamw(beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01) {
  state m = 0
  state v = 0
  m = (1 - beta1) * grad + beta1 * m
  v = beta2 * v + (1 - beta2) * (grad * grad)
  u = m * (1 / (1 - beta1 ^ step)) / (sqrt(v * (1 / (1 - beta2 ^ step))) + eps)
  weight = weight - lr * (u + weight_decay * weight)
}

## Norms of norms, five states, and first values other than 0.
optimizer deep(start = 0.25, weight_decay = 0.01) {
  state a = 0
  state b = start
  state c = -1.5
  state d = 1 / 3
  state e = 0
  n = norm(grad)
  g = if n > 0 { grad / n } else { grad }
  a = 0.9 * a + 0.1 * g
  b = 0.99 * b + 0.01 * g * g
  c = max(0.5 * c, abs(g))
  d = d + 1e-3 * a
  e = 0.5 * e + a / (sqrt(b) + abs(c) + abs(d))
  k = norm(weight) / (norm(e) + 1e-3)
  weight = weight - lr * (max(k, 0.1) * e + weight_decay * weight)
}

## Moves nothing as long as the state has its first value.
optimizer still(lr) {
  state s = 3
  s      = s
  weight = weight - lr * (s - 3) * grad
}

block scaled(x: [N, D]) -> [N, D] {
  param gamma: [D] = constant(0.5)
  return gamma * (x -> linear(D) -> bn -> relu)
}

model own {
  input x: f32[N, 16]

  feature = x -> linear(32) -> scaled -> scaled -> linear(24)
  output feature

  head id = classifier(feature, classes)
}

data made {
  source train = synthetic([16], classes, 640)
  source test  = synthetic([16], classes, 320, seed=2)

  x = pixels
}

train quick {
  batch     = 64
  steps     = 12
  norm_rows = 8
  loss      = softmax_ce(id, label)
  metrics   = [accuracy(id, label)]
  optimizer = deep
  lr        = [warmup(0 .. 1e-2, 4 steps), cosine(1e-2 .. 1e-3)]
}

train narrow {
  batch          = 64
  steps          = 12
  norm_rows      = 8
  loss           = softmax_ce(id, label)
  optimizer      = deep
  lr             = 0.01
  active_classes = sample(25%)
  groups {
    id {
      weights = bf16
      states  = bf16
    }
  }
}

run a {
  model = own
  data  = made
  train = quick
}

run b {
  model = own
  data  = made
  train = narrow
}
)";

class OwnUpdates : public CommandRuns {
 protected:
  void SetUp() override { write_model(kModel); }

  // Trains and returns the digest of the weights at the end.
  std::string train(const std::string& out, const Flags& flags, const CommandOptions& options = {},
                    const std::string& run = "a") const {
    return weights(out, with({"--run", run}, flags), options);
  }
};

TEST_F(OwnUpdates, HaveTheBitsOfTheKernels) {
  for (const auto& [own, known] : std::initializer_list<std::pair<std::string, std::string>>{
           {"own_sgd", "sgd(momentum=0.9, weight_decay=1e-3)"}, {"own_adamw", "adamw"}}) {
    for (const std::string precision : {"f32", "mixed(bf16)"}) {
      const Flags flags = with(Flags{}, "train.precision=" + precision);
      EXPECT_EQ(train(own + precision, with(flags, "train.optimizer=" + own)),
                train(known + precision, with(flags, "train.optimizer=" + known)))
          << own << ", " << precision;
    }
  }
}

TEST_F(OwnUpdates, ManyStatesAndNormsHaveTheSameBitsForEveryPlan) {
  for (const std::string precision : {"f32", "mixed(bf16)"}) {
    const Flags flags = with({"--devices", "1"}, "train.precision=" + precision);
    const std::string plain = train("one" + precision, flags);
    for (size_t i = 0; i < plans().size(); ++i) {
      EXPECT_EQ(train(precision + std::to_string(i), with(plans()[i], flags.back())), plain)
          << precision << ", plan " << i;
    }
    EXPECT_EQ(train("interpreted" + precision, flags, {.environment = {{"XRUN_JIT", "off"}}}), plain);
    const std::string parts = "parts" + precision;
    Flags stopped = with(plans()[0], flags.back());
    stopped.insert(stopped.end(), {"--steps", "5"});
    train(parts, stopped);
    EXPECT_EQ(train(parts, with(plans()[2], flags.back())), plain) << "stopped, " << precision;
  }
}

TEST_F(OwnUpdates, SampledAndNarrowClassRowsHaveTheSameBitsForEveryPlan) {
  const std::string plain = train("one", {"--devices", "1"}, {}, "b");
  for (size_t i = 0; i < plans().size(); ++i) {
    EXPECT_EQ(train(std::to_string(i), plans()[i], {}, "b"), plain) << "plan " << i;
  }
  train("parts", {"--steps", "5"}, {}, "b");
  EXPECT_EQ(train("parts", plans()[0], {}, "b"), plain);
}

TEST_F(OwnUpdates, StatesBeginWithTheirInitialValues) {
  for (const std::string run : {"a", "b"}) {
    const std::string name = run == "a" ? "quick" : "narrow";
    const Flags still = with(Flags{}, "train.optimizer=still");
    Flags one = still;
    one.insert(one.end(), {"--steps", "1"});
    const std::string first = train("one" + run, one, {}, run);
    EXPECT_EQ(train("all" + run, still, {}, run), first) << "steps move weights whose state is 3 no more";
    EXPECT_NE(train("moved" + run, {}, {}, run), first);
    // A run that starts from another run's checkpoint has new optimizer states.
    const std::string from = "moved" + run + "/ckpt/" + name + "/latest";
    one.insert(one.end(), {"--set", "train.init=checkpoint(\"" + from + "\")"});
    const std::string begun = train("begun" + run, one, {}, run);
    one[one.size() - 3] = "12";
    EXPECT_EQ(train("again" + run, one, {}, run), begun);
  }
}

}  // namespace
}  // namespace xrun::testing
