// Compressed gradients: the trajectory of the method as its paper writes it, equal bits for every plan with as many
// replicas, and checkpoints.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <set>

#include "graph/compression.h"
#include "runtime/train/session.h"
#include "tests/runtime/checkpoint_model.h"
#include "tests/runtime/plan_maker.h"
#include "tests/runtime/rank_runs.h"
#include "tests/runtime/small_models.h"

namespace xrun::runtime {
namespace {

using testing::make_program;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::Prepared;

using Vector = std::vector<double>;

Module compressed_module(const ModelOptions& options, const CompressSpec& compress) {
  Module module = testing::make_module(options);
  module.train.compress = compress;
  return module;
}

// A session with its data, to run step by step.
struct Running {
  planner::Program program;
  std::unique_ptr<DeviceSet> devices;
  std::unique_ptr<Session> session;
  std::unique_ptr<testing::SyntheticRows> rows;
  double rate = 0;

  void steps(int64_t first, int64_t end) {
    ASSERT_TRUE(rows->start(first, session->ring()).ok());
    for (int64_t step = first; step < end; ++step) {
      ASSERT_TRUE(rows->wait(step).ok());
      const Status status = session->step(step, rate, static_cast<int>(step % std::ssize(session->ring())));
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
  }
};

std::unique_ptr<Running> start(const Prepared& prepared, const ModelOptions& options, const PlanChoice& choice,
                               bool sequential = false) {
  auto running = std::make_unique<Running>();
  auto program = make_program(prepared, choice);
  XRUN_CHECK(program.ok(), program.ok() ? "" : program.error().message);
  running->program = std::move(program).value();
  running->devices = make_cpu_devices(running->program.threads);
  auto session = Session::create(prepared.module, running->program, *running->devices,
                                 {.isa = prepared.isa, .sequential = sequential, .check_memory = true});
  XRUN_CHECK(session.ok(), session.ok() ? "" : session.error().message);
  running->session = std::move(session).value();
  running->session->state().initialise(prepared.module.train.seed);
  XRUN_CHECK(running->session->weights_changed().ok(), "weights are prepared");
  running->rows = std::make_unique<testing::SyntheticRows>(prepared.module.graph, options, 1000);
  running->rate = options.rate;
  return running;
}

std::vector<float> values_of(const TrainState& state, const std::string& name) {
  const StateTensor* tensor = state.find(name);
  XRUN_CHECK(tensor != nullptr, "no " + name);
  std::vector<float> values(static_cast<size_t>(tensor->rows() * tensor->row_elements()));
  state.read_values(*tensor, 0, tensor->rows(), values.data());
  return values;
}

// out(stem(x)) with a softmax, and the method of docs/algorithms.md, "Gradient compression", in f64.
class Reference {
 public:
  Reference(const ModelOptions& options, const CompressSpec& compress, int replicas, const TrainState& first)
      : options_(options), compress_(compress), replicas_(replicas) {
    for (const char* name : {"stem.weight", "stem.bias", "out.weight", "out.bias"}) {
      const auto values = values_of(first, name);
      Tensor& tensor = tensors_[name];
      tensor.weight.assign(values.begin(), values.end());
      tensor.velocity.assign(static_cast<size_t>(replicas), Vector(values.size()));
      tensor.residual = tensor.velocity;
    }
  }

  // `x` is [batch, input].
  void step(const float* x, const int32_t* labels, double density, double rate, double momentum, double decay) {
    std::map<std::string, std::vector<Vector>> gradients;  // by replica
    for (int replica = 0; replica < replicas_; ++replica) {
      for (auto& [name, gradient] : gradients_of(x, labels, replica)) {
        gradients[name].push_back(gradient);
      }
    }
    for (auto& [name, of_replica] : gradients) {
      if (name.ends_with("weight")) {
        send_largest(tensors_[name], of_replica, density, rate, momentum, decay);
      }
    }
    send_whole(gradients, rate, momentum);
  }

  const Vector& weight(const std::string& name) const { return tensors_.at(name).weight; }
  const Vector& residual(const std::string& name, int replica) const {
    return tensors_.at(name).residual[static_cast<size_t>(replica)];
  }

 private:
  struct Tensor {
    Vector weight;
    std::vector<Vector> velocity;  // by replica; of a tensor that is sent whole the first one
    std::vector<Vector> residual;
  };

  static double norm(const Vector& values) {
    return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  }

  void send_largest(Tensor& tensor, std::vector<Vector>& gradients, double density, double rate, double momentum,
                    double decay) const {
    const size_t count = tensor.weight.size();
    const auto pairs = static_cast<size_t>(std::max(1.0, std::ceil(density * static_cast<double>(count))));
    Vector sum(count);
    for (int r = 0; r < replicas_; ++r) {
      Vector& g = gradients[static_cast<size_t>(r)];
      Vector& u = tensor.velocity[static_cast<size_t>(r)];
      Vector& v = tensor.residual[static_cast<size_t>(r)];
      const double limit = options_.clip.limit / std::sqrt(replicas_);
      const double scale = options_.clip.kind == ClipSpec::kNorm && norm(g) > limit ? limit / norm(g) : 1;
      for (size_t i = 0; i < count; ++i) {
        double clipped = g[i] * scale;
        clipped = options_.clip.kind == ClipSpec::kValue ? std::clamp(clipped, -limit, limit) : clipped;
        u[i] = momentum * u[i] + clipped + decay / replicas_ * tensor.weight[i];
        v[i] += u[i];
      }
      std::vector<size_t> order(count);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](size_t a, size_t b) { return std::abs(v[a]) > std::abs(v[b]); });
      for (size_t k = 0; k < pairs; ++k) {
        sum[order[k]] += v[order[k]];
        v[order[k]] = u[order[k]] = 0;
      }
    }
    for (size_t i = 0; i < count; ++i) {
      tensor.weight[i] -= rate * sum[i];
    }
  }

  // Biases: one velocity, and one norm of all of them.
  void send_whole(std::map<std::string, std::vector<Vector>>& gradients, double rate, double momentum) {
    std::map<std::string, Vector> sums;
    double squares = 0;
    for (const char* name : {"stem.bias", "out.bias"}) {
      Vector& sum = sums[name];
      sum.resize(tensors_[name].weight.size());
      for (const Vector& one : gradients[name]) {
        std::ranges::transform(sum, one, sum.begin(), std::plus<>());
      }
      squares += norm(sum) * norm(sum);
    }
    const double all = std::sqrt(squares);
    const double limit = options_.clip.limit;
    const double scale = options_.clip.kind == ClipSpec::kNorm && all > limit ? limit / all : 1;
    for (auto& [name, sum] : sums) {
      Tensor& tensor = tensors_[name];
      for (size_t i = 0; i < sum.size(); ++i) {
        double clipped = sum[i] * scale;
        clipped = options_.clip.kind == ClipSpec::kValue ? std::clamp(clipped, -limit, limit) : clipped;
        tensor.velocity[0][i] = momentum * tensor.velocity[0][i] + clipped;
        tensor.weight[i] -= rate * tensor.velocity[0][i];
      }
    }
  }

  // Of the mean loss over the whole batch: the terms of the rows of one replica.
  std::map<std::string, Vector> gradients_of(const float* x, const int32_t* labels, int replica) const {
    const auto in = static_cast<size_t>(options_.input);
    const auto width = static_cast<size_t>(options_.width);
    const auto classes = static_cast<size_t>(options_.classes);
    std::map<std::string, Vector> gradients;
    for (const auto& [name, tensor] : tensors_) {
      gradients[name].resize(tensor.weight.size());
    }
    const auto at = [&](const char* name, size_t i) { return tensors_.at(name).weight[i]; };
    const int64_t rows = options_.batch / replicas_;
    for (int64_t row = rows * replica; row < rows * (replica + 1); ++row) {
      const float* const sample = x + static_cast<size_t>(row) * in;
      Vector hidden(width);
      for (size_t h = 0; h < width; ++h) {
        hidden[h] = at("stem.bias", h);
        for (size_t i = 0; i < in; ++i) {
          hidden[h] += at("stem.weight", h * in + i) * static_cast<double>(sample[i]);
        }
      }
      Vector slope(classes);
      double total = 0;
      for (size_t c = 0; c < classes; ++c) {
        double logit = at("out.bias", c);
        for (size_t h = 0; h < width; ++h) {
          logit += at("out.weight", c * width + h) * hidden[h];
        }
        total += slope[c] = std::exp(logit);
      }
      Vector hidden_slope(width);
      for (size_t c = 0; c < classes; ++c) {
        const double label = c == static_cast<size_t>(labels[row]) ? 1 : 0;
        slope[c] = (slope[c] / total - label) / static_cast<double>(options_.batch);
        gradients["out.bias"][c] += slope[c];
        for (size_t h = 0; h < width; ++h) {
          gradients["out.weight"][c * width + h] += slope[c] * hidden[h];
          hidden_slope[h] += slope[c] * at("out.weight", c * width + h);
        }
      }
      for (size_t h = 0; h < width; ++h) {
        gradients["stem.bias"][h] += hidden_slope[h];
        for (size_t i = 0; i < in; ++i) {
          gradients["stem.weight"][h * in + i] += hidden_slope[h] * static_cast<double>(sample[i]);
        }
      }
    }
    return gradients;
  }

  ModelOptions options_;
  CompressSpec compress_;
  int replicas_;
  std::map<std::string, Tensor> tensors_;
};

void expect_near(const std::vector<float>& have, const Vector& want, const std::string& what) {
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(have[i]), want[i], 2e-5 + 1e-4 * std::abs(want[i])) << what << " at " << i;
  }
}

constexpr int kSteps = 12;

// The warm-up ends within the run.
double density_of(int64_t step) { return density_at({.density = 0.02, .warmup = TrainSpan{8}}, 8, step); }

TEST(Compress, FollowsThePaperWithOneTwoAndFourReplicas) {
  const CompressSpec compress{.density = 0.02, .on = {}, .warmup = TrainSpan{8, TrainSpan::kSteps}};
  for (const ClipSpec clip : {ClipSpec{}, ClipSpec{ClipSpec::kNorm, 0.3}, ClipSpec{ClipSpec::kValue, 0.01}}) {
    ModelOptions options{.layers = 0, .rate = 0.2};
    options.clip = clip;
    const Prepared prepared = testing::prepare_for(compressed_module(options, compress));
    for (const int replicas : {1, 2, 4}) {
      auto running = start(prepared, options,
                           {.devices = replicas, .threads = replicas, .replicas = replicas, .micro_batches = replicas});
      running->session->compress_by(density_of);
      TrainState& state = running->session->state();
      Reference reference(options, compress, replicas, state);
      for (int64_t step = 0; step < kSteps; ++step) {
        running->steps(step, step + 1);
        const BatchView& batch =
            running->session->ring()[static_cast<size_t>(step % 2) % running->session->ring().size()];
        std::array<const std::byte*, 2> inputs{};
        for (size_t i = 0; i < prepared.module.graph.inputs.size(); ++i) {
          inputs[prepared.module.graph.inputs[i].name == "x" ? 0 : 1] = batch.inputs[i];
        }
        reference.step(reinterpret_cast<const float*>(inputs[0]), reinterpret_cast<const int32_t*>(inputs[1]),
                       density_of(step), options.rate, 0.9, 1e-3);
        for (const char* name : {"stem.weight", "stem.bias", "out.weight", "out.bias"}) {
          expect_near(values_of(state, name), reference.weight(name),
                      fmt::format("{} after step {} of {} replicas", name, step, replicas));
        }
      }
      for (const char* name : {"stem.weight", "out.weight"}) {
        const auto residual = values_of(state, std::string(name) + ".residual");
        const auto count = std::ssize(residual) / replicas;
        for (int r = 0; r < replicas; ++r) {
          expect_near({residual.begin() + r * count, residual.begin() + (r + 1) * count}, reference.residual(name, r),
                      fmt::format("residual of {} on replica {}", name, r));
        }
      }
    }
  }
}

// Everything that a plan may choose but the number of replicas.
std::vector<PlanChoice> choices_with(int replicas) {
  std::vector<PlanChoice> choices;
  for (const int stages : {1, 2}) {
    for (const int threads : {1, 3}) {
      for (const int micro_batches : {4, 12}) {
        choices.push_back({.devices = replicas * stages + (stages == 1 ? 1 : 0),
                           .threads = threads * (replicas * stages + 1),
                           .stages = stages,
                           .replicas = replicas,
                           .micro_batches = micro_batches,
                           .pipeline = micro_batches == 12 ? PipelineKind::kOneFOneB : PipelineKind::kGpipe,
                           .recompute = threads == 3,
                           .shards = stages + 1,
                           .overlap = threads == 1});
      }
    }
  }
  return choices;
}

ModelOptions deep_model() {
  ModelOptions options{.classes = 130, .head = true, .rate = 0.1};
  options.clip = {ClipSpec::kNorm, 0.5, true};
  return options;
}

TEST(Compress, EveryPlanWithAsManyReplicasHasTheSameBits) {
  const ModelOptions options = deep_model();
  const Prepared prepared = testing::prepare_for(
      compressed_module(options, {.density = 0.02, .on = {}, .warmup = TrainSpan{8, TrainSpan::kSteps}}));
  std::set<std::string> results;
  for (const int replicas : {1, 2, 4}) {
    std::string weights;
    std::vector<float> residual;
    for (const PlanChoice& choice : choices_with(replicas)) {
      for (const bool sequential : {false, true}) {
        SCOPED_TRACE(choice.text() + (sequential ? ", sequential" : ""));
        auto running = start(prepared, options, choice, sequential);
        running->session->compress_by(density_of);
        running->steps(0, 6);
        const TrainState& state = running->session->state();
        weights = weights.empty() ? state.weights_digest() : weights;
        residual = residual.empty() ? values_of(state, "layer1.linear.weight.residual") : residual;
        EXPECT_EQ(state.weights_digest(), weights);
        EXPECT_EQ(values_of(state, "layer1.linear.weight.residual"), residual);
      }
    }
    results.insert(weights);
  }
  EXPECT_EQ(results.size(), 3U) << "the number of replicas changes the result";
}

TEST(Compress, RanksHaveTheBitsOfOneProcess) {
  const ModelOptions options = deep_model();
  const Prepared prepared = testing::prepare_for(compressed_module(options, {.density = 0.03}));
  for (const PlanChoice& choice : choices_with(2)) {
    const auto program = make_program(prepared, choice);
    ASSERT_TRUE(program.ok()) << choice.text();
    const std::string expected = testing::run_one(prepared, options, *program).weights;
    for (const auto& result : testing::run_ranks(prepared, options, *program, 2)) {
      ASSERT_TRUE(result.status.ok()) << choice.text() << ": " << result.status.error().message;
      EXPECT_EQ(result.weights, expected) << choice.text();
    }
  }
}

TEST(Compress, OnlyNamedTensorsHaveResiduals) {
  const ModelOptions options = deep_model();
  const Prepared prepared = testing::prepare_for(compressed_module(options, {.density = 0.03, .on = {"layer1"}}));
  auto running = start(prepared, options, {.devices = 2, .threads = 2, .replicas = 2, .micro_batches = 2});
  const TrainState& state = running->session->state();
  EXPECT_NE(state.find("layer1.linear.weight.residual"), nullptr);
  EXPECT_EQ(state.find("layer0.linear.weight.residual"), nullptr);
  EXPECT_EQ(state.find("layer1.bn.weight.residual"), nullptr) << "one dimension";
  EXPECT_EQ(state.find("id.weight.residual"), nullptr) << "of a head";
  EXPECT_EQ(state.find("layer0.linear.weight.velocity")->rows(), 24) << "that of the optimizer";
  EXPECT_EQ(state.find("layer1.linear.weight.velocity")->rows(), 2) << "one of each replica";
}

class CompressedRuns : public testing::CheckpointDirectory {
 protected:
  static PlanChoice with_replicas(int replicas) {
    return {.devices = replicas, .threads = replicas, .replicas = replicas, .micro_batches = 4};
  }
  const ModelOptions model_ = deep_model();
  const Prepared prepared_ = testing::prepare_for(compressed_module(model_, {.density = 0.03}));
};

TEST_F(CompressedRuns, GoOnFromACheckpointAsIfTheyHadNotStopped) {
  for (const int replicas : {1, 2, 4}) {
    SCOPED_TRACE(replicas);
    std::filesystem::remove_all(root_);
    auto whole = start(prepared_, model_, with_replicas(replicas));
    whole->steps(0, 10);
    auto first = start(prepared_, model_, with_replicas(replicas));
    first->steps(0, 4);
    ASSERT_TRUE(store()->save(first->session->state(), 4, 4 * model_.batch).ok());
    auto second = start(prepared_, model_, with_replicas(replicas));
    const auto resumed = store()->resume(second->session->state());
    ASSERT_TRUE(resumed.ok() && *resumed) << resumed.error().message;
    EXPECT_TRUE((*resumed)->warnings.empty());
    ASSERT_TRUE(second->session->weights_changed().ok());
    second->steps(4, 10);
    EXPECT_EQ(second->session->state().weights_digest(), whole->session->state().weights_digest());
    for (const char* name : {"stem.weight.residual", "layer2.linear.weight.velocity"}) {
      EXPECT_EQ(values_of(second->session->state(), name), values_of(whole->session->state(), name)) << name;
    }
  }
}

TEST_F(CompressedRuns, KeepTheSumOfTheResidualsOnAnotherNumberOfReplicas) {
  for (const auto& [before, after] : {std::pair(2, 4), {4, 2}, {4, 1}, {1, 4}, {1, 2}}) {
    SCOPED_TRACE(fmt::format("{} to {}", before, after));
    std::filesystem::remove_all(root_);
    auto first = start(prepared_, model_, with_replicas(before));
    first->steps(0, 4);
    ASSERT_TRUE(store()->save(first->session->state(), 4, 4 * model_.batch).ok());
    auto second = start(prepared_, model_, with_replicas(after));
    const auto resumed = store()->resume(second->session->state());
    ASSERT_TRUE(resumed.ok() && *resumed) << resumed.error().message;
    ASSERT_EQ((*resumed)->warnings.size(), 1U);
    EXPECT_EQ((*resumed)->warnings[0].code, "XG0718");
    EXPECT_THAT((*resumed)->warnings[0].message, ::testing::HasSubstr(fmt::format("on {} replicas", before)));
    for (const std::string name : {"stem.weight.residual", "layer2.linear.weight.velocity"}) {
      const auto old_values = values_of(first->session->state(), name);
      const auto new_values = values_of(second->session->state(), name);
      const size_t count = old_values.size() / static_cast<size_t>(before);
      bool any = false;
      for (size_t i = 0; i < count; ++i) {
        double old_sum = 0;
        double new_sum = 0;
        for (int r = 0; r < before; ++r) {
          old_sum += static_cast<double>(old_values[static_cast<size_t>(r) * count + i]);
        }
        for (int r = 0; r < after; ++r) {
          new_sum += static_cast<double>(new_values[static_cast<size_t>(r) * count + i]);
        }
        any = any || old_sum != 0;
        if (after > before) {
          ASSERT_EQ(new_sum, old_sum) << name << " at " << i;
        } else {
          ASSERT_NEAR(new_sum, old_sum, 1e-6 * (std::abs(old_sum) + 1e-2)) << name << " at " << i;
        }
      }
      EXPECT_TRUE(any) << "something was left to send";
    }
    ASSERT_TRUE(second->session->weights_changed().ok());
    second->steps(4, 6);
  }
}

}  // namespace
}  // namespace xrun::runtime
