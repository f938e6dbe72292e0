// Helpers for tests of compressed gradients: a session that runs step by step, and a reference in f64 of the method in
// its paper.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <numeric>

#include "graph/layouts/compression.h"
#include "runtime/train/session/session.h"
#include "runtime/train/state/checkpoint_store.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/rank_runs.h"
#include "tests/runtime/runs/small_models.h"

namespace xrun::runtime::testing {

using Vector = std::vector<double>;

inline Module compressed_module(const ModelOptions& options, const CompressSpec& compress) {
  Module module = make_module(options);
  module.train.compress = compress;
  return module;
}

// A session with its data, which a test runs step by step.
struct Running {
  planner::Program program;
  std::unique_ptr<DeviceSet> devices;
  std::unique_ptr<Session> session;
  std::unique_ptr<SyntheticRows> rows;
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

inline std::unique_ptr<Running> start(const Prepared& prepared, const ModelOptions& options, const PlanChoice& choice,
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
  running->rows = std::make_unique<SyntheticRows>(prepared.module.graph, options, 1000);
  running->rate = options.rate;
  return running;
}

inline std::vector<float> values_of(const TrainState& state, const std::string& name) {
  const StateTensor* tensor = state.find(name);
  XRUN_CHECK(tensor != nullptr, "no " + name);
  std::vector<float> values(static_cast<size_t>(tensor->rows() * tensor->row_elements()));
  state.read_values(*tensor, 0, tensor->rows(), values.data());
  return values;
}

// A reference in f64: the model out(stem(x)) with a softmax, trained by the method of docs/internals/algorithms.md,
// "Gradient compression". Each sender has a contiguous part of the batch and sums the gradients of its rows before it
// compresses them.
class Reference {
 public:
  Reference(const ModelOptions& options, int senders, const TrainState& first) : options_(options), senders_(senders) {
    for (const char* name : {"stem.weight", "stem.bias", "out.weight", "out.bias"}) {
      const auto values = values_of(first, name);
      Tensor& tensor = tensors_[name];
      tensor.weight.assign(values.begin(), values.end());
      tensor.velocity.assign(static_cast<size_t>(senders), Vector(values.size()));
      tensor.residual = tensor.velocity;
    }
  }

  // Does one training step; `x` is [batch, input].
  void step(const float* x, const int32_t* labels, double density, double rate, double momentum, double decay) {
    std::map<std::string, std::vector<Vector>> gradients;  // the gradients of each sender, by tensor
    for (int sender = 0; sender < senders_; ++sender) {
      for (auto& [name, gradient] : gradients_of(x, labels, sender)) {
        gradients[name].push_back(gradient);
      }
    }
    for (auto& [name, of_sender] : gradients) {
      if (name.ends_with("weight")) {
        send_largest(tensors_[name], of_sender, density, rate, momentum, decay);
      }
    }
    send_whole(gradients, rate, momentum);
  }

  const Vector& weight(const std::string& name) const { return tensors_.at(name).weight; }
  const Vector& residual(const std::string& name, int sender) const {
    return tensors_.at(name).residual[static_cast<size_t>(sender)];
  }

 private:
  struct Tensor {
    Vector weight;
    std::vector<Vector> velocity;  // one per sender; a tensor that is not compressed has only the first
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
    for (int r = 0; r < senders_; ++r) {
      Vector& g = gradients[static_cast<size_t>(r)];
      Vector& u = tensor.velocity[static_cast<size_t>(r)];
      Vector& v = tensor.residual[static_cast<size_t>(r)];
      const double limit = options_.clip.limit / std::sqrt(senders_);
      const double scale = options_.clip.kind == ClipSpec::kNorm && norm(g) > limit ? limit / norm(g) : 1;
      for (size_t i = 0; i < count; ++i) {
        double clipped = g[i] * scale;
        clipped = options_.clip.kind == ClipSpec::kValue ? std::clamp(clipped, -limit, limit) : clipped;
        const double a = clipped + decay / senders_ * tensor.weight[i];
        u[i] = momentum * u[i] + a;
        v[i] += nesterov_ ? a + momentum * u[i] : u[i];
      }
      std::vector<size_t> order(count);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](size_t a, size_t b) { return std::abs(v[a]) > std::abs(v[b]); });
      for (size_t k = 0; k < pairs; ++k) {
        sum[order[k]] += v[order[k]];
        v[order[k]] = u[order[k]] = 0;
      }
    }
    const double sizes[] = {norm(tensor.weight), norm(sum)};
    const double ratio = trust_ > 0 && sizes[0] > 0 && sizes[1] > 0 ? trust_ * sizes[0] / (sizes[1] + 1e-8) : 1;
    for (size_t i = 0; i < count; ++i) {
      tensor.weight[i] -= rate * ratio * sum[i];
    }
  }

  // Updates the biases, which are not compressed: they have one velocity each, and one norm over all of them.
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
        tensor.weight[i] -= rate * (nesterov_ ? clipped + momentum * tensor.velocity[0][i] : tensor.velocity[0][i]);
      }
    }
  }

  // Returns one sender's part of the gradients of the mean loss over the whole batch: the terms of its rows.
  std::map<std::string, Vector> gradients_of(const float* x, const int32_t* labels, int sender) const {
    const auto in = static_cast<size_t>(options_.input);
    const auto width = static_cast<size_t>(options_.width);
    const auto classes = static_cast<size_t>(options_.classes);
    std::map<std::string, Vector> gradients;
    for (const auto& [name, tensor] : tensors_) {
      gradients[name].resize(tensor.weight.size());
    }
    const auto at = [&](const char* name, size_t i) { return tensors_.at(name).weight[i]; };
    const int64_t rows = options_.batch / senders_;
    for (int64_t row = rows * sender; row < rows * (sender + 1); ++row) {
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
  int senders_;
  bool nesterov_ = options_.arguments.flag("nesterov", false);
  double trust_ = options_.arguments.real("trust", 0);
  std::map<std::string, Tensor> tensors_;
};

inline void expect_near(const std::vector<float>& have, const Vector& want, const std::string& what) {
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(have[i]), want[i], 2e-5 + 1e-4 * std::abs(want[i])) << what << " at " << i;
  }
}

inline constexpr int kSteps = 12;

// Returns the density of a step. The warm-up ends within the run.
inline double density_of(int64_t step) { return density_at({.density = 0.02, .warmup = TrainSpan{8}}, 8, step); }

inline ModelOptions deep_model() {
  ModelOptions options{.classes = 130, .head = true, .rate = 0.1};
  options.clip = {ClipSpec::kNorm, 0.5, true};
  return options;
}

// Compares a run with the reference step by step. `senders`: number of replicas or nodes, each with the same number of
// rows.
inline void expect_follows_paper(const Prepared& prepared, const ModelOptions& options, const PlanChoice& choice,
                                 int senders) {
  auto running = start(prepared, options, choice);
  running->session->compress_by(density_of);
  TrainState& state = running->session->state();
  Reference reference(options, senders, state);
  for (int64_t step = 0; step < kSteps; ++step) {
    running->steps(step, step + 1);
    const BatchView& batch = running->session->ring()[static_cast<size_t>(step % 2) % running->session->ring().size()];
    std::array<const std::byte*, 2> inputs{};
    for (size_t i = 0; i < prepared.module.graph.inputs.size(); ++i) {
      inputs[prepared.module.graph.inputs[i].name == "x" ? 0 : 1] = batch.inputs[i];
    }
    reference.step(reinterpret_cast<const float*>(inputs[0]), reinterpret_cast<const int32_t*>(inputs[1]),
                   density_of(step), options.rate, 0.9, 1e-3);
    for (const char* name : {"stem.weight", "stem.bias", "out.weight", "out.bias"}) {
      expect_near(values_of(state, name), reference.weight(name),
                  fmt::format("{} after step {} of {} senders", name, step, senders));
    }
  }
  for (const char* name : {"stem.weight", "out.weight"}) {
    const auto residual = values_of(state, std::string(name) + ".residual");
    const auto count = std::ssize(residual) / senders;
    ASSERT_EQ(state.find(std::string(name) + ".residual")->rows(), senders);
    for (int r = 0; r < senders; ++r) {
      expect_near({residual.begin() + r * count, residual.begin() + (r + 1) * count}, reference.residual(name, r),
                  fmt::format("residual of {} of sender {}", name, r));
    }
  }
}

// Expects that the velocities and residuals of a tensor are not all zero and have the same sum over all senders in both
// states. The sums must be exactly equal if `after` has more senders.
inline void expect_equal_sums(const TrainState& before, const TrainState& after, const std::string& name) {
  const auto senders_of = [&](const TrainState& state) { return static_cast<size_t>(state.find(name)->rows()); };
  const auto old_values = values_of(before, name);
  const auto new_values = values_of(after, name);
  const size_t count = old_values.size() / senders_of(before);
  const auto sum_of = [&](const std::vector<float>& values, size_t at) {
    double sum = 0;
    for (; at < values.size(); at += count) {
      sum += static_cast<double>(values[at]);
    }
    return sum;
  };
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    const double old_sum = sum_of(old_values, i);
    any = any || old_sum != 0;
    if (senders_of(after) > senders_of(before)) {
      ASSERT_EQ(sum_of(new_values, i), old_sum) << name << " at " << i;
    } else {
      ASSERT_NEAR(sum_of(new_values, i), old_sum, 1e-6 * (std::abs(old_sum) + 1e-2)) << name << " at " << i;
    }
  }
  EXPECT_TRUE(any) << "something was left to send";
}

// Lets `second` resume the checkpoint of `first` after step 4 with another number of senders than `before`. Expects a
// warning about it, and that the senders' velocities and residuals keep their sums.
inline void expect_goes_on(CheckpointStore& store, const Running& first, Running& second, int before) {
  const auto resumed = store.resume(second.session->state());
  ASSERT_TRUE(resumed.ok() && *resumed) << resumed.error().message;
  ASSERT_EQ((*resumed)->warnings.size(), 1U);
  EXPECT_EQ((*resumed)->warnings[0].code, "XG0718");
  EXPECT_THAT((*resumed)->warnings[0].message, ::testing::HasSubstr(fmt::format("with {} senders", before)));
  for (const std::string name : {"stem.weight.residual", "layer2.linear.weight.velocity"}) {
    expect_equal_sums(first.session->state(), second.session->state(), name);
  }
  ASSERT_TRUE(second.session->weights_changed().ok());
  second.steps(4, 6);
}

}  // namespace xrun::runtime::testing
