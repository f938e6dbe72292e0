// How a step changes tensors: clipping of single values, freezing, and accumulation of batches.
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <span>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/session/session.h"
#include "runtime/train/state/train_state.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"

namespace xrun::runtime {
namespace {

using testing::make_module;
using testing::make_program;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::prepare_for;
using testing::SyntheticRows;

using Tensors = std::map<std::string, std::vector<float>>;

Tensors tensors_of(const TrainState& state) {
  Tensors tensors;
  for (const StateTensor& tensor : state.tensors()) {
    auto& values = tensors[tensor.name];
    values.resize(static_cast<size_t>(tensor.rows() * tensor.row_bytes()) / sizeof(float));
    state.read_rows(tensor, 0, tensor.rows(), reinterpret_cast<std::byte*>(values.data()));
  }
  return tensors;
}

struct Steps {
  Tensors before;
  Tensors after;
};

Result<Steps> run(const Module& module, const ModelOptions& options, const PlanChoice& choice, int steps) {
  const auto prepared = prepare_for(module);
  XRUN_ASSIGN(const planner::Program program, make_program(prepared, choice));
  const auto devices = make_cpu_devices(program.threads);
  XRUN_ASSIGN(auto session, Session::create(prepared.module, program, *devices, {.isa = prepared.isa}));
  session->state().initialise(prepared.module.train.seed);
  XRUN_TRY(session->weights_changed());
  Steps result{.before = tensors_of(session->state()), .after = {}};
  SyntheticRows rows(prepared.module.graph, options, 1000);
  XRUN_TRY(rows.start(0, session->ring()));
  for (int step = 0; step < steps; ++step) {
    XRUN_TRY(rows.wait(step));
    XRUN_TRY(session->step(step, options.rate, step % static_cast<int>(session->ring().size())));
  }
  result.after = tensors_of(session->state());
  return result;
}

double largest_change(const Steps& steps, const std::string& name) {
  double largest = 0;
  const auto& before = steps.before.at(name);
  const auto& after = steps.after.at(name);
  for (size_t i = 0; i < before.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(after[i] - before[i])));
  }
  return largest;
}

const PlanChoice kPlans[] = {
    {},
    {.devices = 2, .threads = 2, .stages = 2, .micro_batches = 4, .pipeline = PipelineKind::kOneFOneB, .shards = 2},
    {.devices = 2, .threads = 2, .stages = 2, .micro_batches = 2, .recompute = true, .shards = 3},
    {.devices = 2, .threads = 2, .replicas = 2, .micro_batches = 2, .shards = 2},
};

TEST(Update, ClippingByValueBoundsTheGradientsOfTrunkAndHeads) {
  constexpr double kLimit = 1e-4;
  ModelOptions options{.classes = 130, .head = true, .arguments = Attrs{}, .rate = 1};
  options.clip = {.kind = ClipSpec::kValue, .limit = kLimit};
  for (const PlanChoice& choice : kPlans) {
    const auto steps = run(make_module(options), options, choice, 1);
    ASSERT_TRUE(steps.ok()) << choice.text() << steps.error().message;
    for (const char* name : {"stem.weight", "layer1.linear.weight", "layer2.bn.bias", "id.weight", "id.bias"}) {
      // With a learning rate of 1 and no decay, the change equals the gradient, except for the rounding of the weight.
      EXPECT_LT(largest_change(*steps, name), kLimit * 1.01) << name << ", " << choice.text();
      EXPECT_GT(largest_change(*steps, name), kLimit * 0.5) << name << ", " << choice.text();
    }
  }
}

// Marks frozen parameters as the language does.
Module frozen_module(const ModelOptions& options, const std::vector<std::string>& prefixes) {
  Module module = make_module(options);
  for (Parameter& parameter : module.graph.params) {
    for (const std::string& prefix : prefixes) {
      parameter.frozen = parameter.frozen || (parameter.trained && parameter.name.starts_with(prefix + "."));
    }
  }
  return module;
}

TEST(Update, FrozenWeightsStayAndHaveNoOptimizerStateUnderAnyPlan) {
  ModelOptions options{.classes = 130, .head = true, .optimizer = "adamw", .arguments = Attrs{}, .rate = 0.01};
  options.skips = true;
  const std::vector<std::vector<std::string>> choices{
      {"stem", "layer0"},                      // the beginning: no gradient is computed below it
      {"layer1"},                              // the middle: gradients pass through it
      {"id"},                                  // the head
      {"stem", "layer0", "layer1", "layer2"},  // everything but the head
  };
  for (const auto& frozen : choices) {
    const auto is_frozen = [&](const std::string& name) {
      return std::any_of(frozen.begin(), frozen.end(), [&](const auto& f) { return name.starts_with(f + "."); });
    };
    Tensors first;
    for (const PlanChoice& choice : kPlans) {
      SCOPED_TRACE(frozen[0] + ", " + choice.text());
      const auto steps = run(frozen_module(options, frozen), options, choice, 3);
      ASSERT_TRUE(steps.ok()) << steps.error().message;
      int moved = 0;
      for (const auto& [name, values] : steps->before) {
        const bool statistics = name.find(".running_") != std::string::npos;
        const bool state = name.ends_with(".m") || name.ends_with(".v");
        if (is_frozen(name) && !statistics) {
          EXPECT_FALSE(state) << name;
          EXPECT_EQ(steps->after.at(name), values) << name;
        } else if (!state) {
          EXPECT_NE(steps->after.at(name), values) << name << " is trained, or follows the data";
          ++moved;
        }
      }
      EXPECT_GT(moved, 1);
      first = first.empty() ? steps->after : first;
      EXPECT_EQ(steps->after, first) << "the bits depend on the plan";
    }
  }
}

TEST(Update, FreezingDoesNotChangeOtherWeightsInTheFirstStep) {
  ModelOptions options{.classes = 130, .head = true, .arguments = Attrs{}, .rate = 0.1};
  const auto whole = run(make_module(options), options, {}, 1);
  const auto part = run(frozen_module(options, {"layer1", "id"}), options, {}, 1);
  ASSERT_TRUE(whole.ok() && part.ok());
  for (const auto& [name, values] : part->after) {
    const bool frozen = name.starts_with("layer1.") || name.starts_with("id.");
    if (!frozen || name.find(".running_") != std::string::npos) {
      EXPECT_EQ(values, whole->after.at(name)) << name;
    }
  }
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

// Computes in f64 the first step of lars or lamb on the values of a tensor. `ratio`: whether it has a trust ratio.
std::vector<double> first_step(const std::string& optimizer, std::span<const float> w, std::span<const float> g,
                               bool ratio, double rate, double decay) {
  std::vector<double> weights(w.begin(), w.end());
  std::vector<double> step;
  for (size_t i = 0; i < w.size(); ++i) {
    const double gradient = static_cast<double>(g[i]);
    const double direction = optimizer == "lars" ? gradient : gradient / (std::abs(gradient) + 1e-6);
    step.push_back(direction + decay * weights[i]);
  }
  const double weight = norm_of(weights);
  const double size = norm_of(step);
  double by = 1;
  if (ratio && weight > 0 && size > 0) {
    by = optimizer == "lars" ? 0.001 * weight / (size + 1e-8) : weight / size;
  }
  for (size_t i = 0; i < w.size(); ++i) {
    weights[i] -= rate * by * step[i];
  }
  return weights;
}

// Without decay, the velocity of sgd with momentum after the first step is the gradient. Each dense matrix has a trust
// ratio. Class rows and tensors of one dimension are updated without a ratio, like by sgd or adamw, and the latter
// without decay.
TEST(Update, OnlyDenseMatricesHaveTrustRatios) {
  constexpr double kDecay = 0.05;
  constexpr double kGroupDecay = 0.5;
  constexpr double kGroupRate = 0.25;
  for (const double clip : {0.0, 0.01}) {
    ModelOptions options{.width = 280, .classes = 130, .head = true, .arguments = {{"momentum", 0.9}}, .rate = 0.1};
    options.clip = clip > 0 ? ClipSpec{ClipSpec::kNorm, clip, true} : ClipSpec{};
    const auto plain = run(make_module(options), options, {}, 1);
    ASSERT_TRUE(plain.ok()) << plain.error().message;
    for (const std::string optimizer : {"lars", "lamb"}) {
      options.optimizer = optimizer;
      options.arguments = {{"weight_decay", kDecay}};
      Module module = make_module(options);
      GroupSpec group;
      group.path = "layer1";
      group.lr = kGroupRate;
      group.weight_decay = kGroupDecay;
      module.train.groups.push_back(group);
      for (const PlanChoice& choice : kPlans) {
        SCOPED_TRACE(optimizer + ", clip " + std::to_string(clip) + ", " + choice.text());
        const auto steps = run(module, options, choice, 1);
        ASSERT_TRUE(steps.ok()) << steps.error().message;
        for (const std::string name : {"stem.weight", "stem.bias", "layer0.linear.weight", "layer1.linear.weight",
                                       "layer1.bn.weight", "layer2.bn.bias", "id.weight", "id.bias"}) {
          const std::span before = plain->before.at(name);
          const std::span gradient = plain->after.at(name + ".velocity");
          const std::vector<float>& after = steps->after.at(name);
          ASSERT_EQ(steps->before.at(name), plain->before.at(name));
          const bool matrix = name.ends_with("stem.weight") || name.ends_with("linear.weight");
          const bool grouped = name.starts_with("layer1.");
          const double decay = !matrix && name != "id.weight" ? 0 : grouped ? kGroupDecay : kDecay;
          const std::vector<double> want =
              first_step(optimizer, before, gradient, matrix, options.rate * (grouped ? kGroupRate : 1), decay);
          for (size_t i = 0; i < before.size(); ++i) {
            // lamb divides the gradient by its own size, so if a gradient is near eps, its rounding changes the step.
            const double slack = optimizer == "lars" ? 1e-6 : 4e-6;
            ASSERT_NEAR(static_cast<double>(after[i]), want[i], slack * (1 + std::abs(want[i]))) << name << " " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace xrun::runtime
