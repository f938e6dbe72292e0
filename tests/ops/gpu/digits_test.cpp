// Two training steps of the model of models/digits.xgraph, computed only by kernels of ops/gpu, give nearly the losses
// and weights of a computation in f64.
#include "ops/optimizer/update_scalars.h"
#include "tests/ops/gpu/kernel_runner.h"

namespace xrun::ops::gpu {
namespace {

constexpr int64_t kBatchRows = 64, kPixels = 64, kHidden = 64, kClasses = 10;
constexpr float kRate = 0.1F, kMomentum = 0.9F;

struct Layer {
  int64_t in, out;
  std::vector<float> weight, bias;
};

struct Digits {
  std::vector<float> x;
  std::vector<int32_t> labels;
  std::vector<Layer> layers;

  Digits() {
    std::mt19937_64 random(kSeed);
    for (int64_t i = 0; i < kBatchRows * kPixels; ++i) {
      x.push_back(static_cast<float>(random() % 17) / 16);
    }
    for (int64_t i = 0; i < kBatchRows; ++i) {
      labels.push_back(static_cast<int32_t>(random() % kClasses));
    }
    for (const auto& [in, out] : {std::pair{kPixels, kHidden}, std::pair{kHidden, kClasses}}) {
      layers.push_back({.in = in,
                        .out = out,
                        .weight = random_floats(static_cast<size_t>(in * out), static_cast<uint64_t>(out), -6, -3),
                        .bias = std::vector<float>(static_cast<size_t>(out), 0.0F)});
    }
  }
};

// ---- the kernels

struct LayerOnGpu {
  int64_t in, out;
  uint64_t weight, bias, weight_grad, bias_grad, weight_velocity, bias_velocity;
};

class GpuRun {
 public:
  GpuRun(Target target, const Digits& of)
      : machine_(target), x_(machine_.add("x", of.x)), labels_(machine_.add("labels", of.labels)) {
    for (const Layer& layer : of.layers) {
      const std::vector<float> weights(layer.weight.size(), 0.0F), biases(layer.bias.size(), 0.0F);
      layers_.push_back({.in = layer.in,
                         .out = layer.out,
                         .weight = machine_.add("weight", layer.weight),
                         .bias = machine_.add("bias", layer.bias),
                         .weight_grad = machine_.empty<float>("weight_grad", weights.size()),
                         .bias_grad = machine_.empty<float>("bias_grad", biases.size()),
                         .weight_velocity = machine_.add("weight_velocity", weights),
                         .bias_velocity = machine_.add("bias_velocity", biases)});
    }
    scalars_ = machine_.add("scalars", std::vector<KnownScalars>{{.rate = kRate, .momentum = kMomentum}});
    dloss_ = machine_.add("dloss", std::vector<float>(kBatchRows, 1.0F / kBatchRows));
  }

  // One step; returns the losses of the samples.
  std::vector<float> step() {
    const LayerOnGpu &first = layers_[0], &second = layers_[1];
    forward(first, x_, sums_);
    machine_.run_each("pointwise", "relu_f32", kBatchRows * kHidden, sums_, hidden_, kBatchRows * kHidden);
    forward(second, hidden_, logits_);
    machine_.run_each("cross_entropy", "softmax_ce_f32", kBatchRows * 16, logits_, labels_, loss_, kBatchRows, kClasses,
                      1.0F, 0.0);
    machine_.run_each("cross_entropy", "softmax_ce_dx_f32", kBatchRows * 16, logits_, labels_, dloss_, dlogits_,
                      kBatchRows, kClasses, 1.0F, 0.0);
    gradients(second, hidden_, dlogits_);
    machine_.run("product_f32", "product_nn_f32", {1, 1, 1}, {256, 1, 1}, dlogits_, second.weight, dhidden_, kBatchRows,
                 kHidden, kClasses);
    machine_.run_each("pointwise_grad", "relu_grad_f32", kBatchRows * kHidden, hidden_, dhidden_, dsums_,
                      kBatchRows * kHidden);
    gradients(first, x_, dsums_);
    for (const LayerOnGpu& layer : layers_) {
      update(layer.weight, layer.weight_grad, layer.weight_velocity, layer.in * layer.out);
      update(layer.bias, layer.bias_grad, layer.bias_velocity, layer.out);
    }
    return machine_.read<float>(loss_, kBatchRows);
  }
  std::vector<float> weights(size_t layer) const {
    return machine_.read<float>(layers_[layer].weight, static_cast<size_t>(layers_[layer].in * layers_[layer].out));
  }

 private:
  void forward(const LayerOnGpu& layer, uint64_t x, uint64_t y) {
    machine_.run("product_f32", "product_nt_f32", {1, 1, 1}, {256, 1, 1}, x, layer.weight, layer.bias, y, kBatchRows,
                 layer.out, layer.in);
  }
  void gradients(const LayerOnGpu& layer, uint64_t x, uint64_t dy) {
    machine_.run_each("finite", "fill_f32", layer.in * layer.out, layer.weight_grad, layer.in * layer.out, 0.0F);
    machine_.run_each("finite", "fill_f32", layer.out, layer.bias_grad, layer.out, 0.0F);
    machine_.run("product_f32", "product_tn_f32", {1, 1, 1}, {256, 1, 1}, dy, x, layer.weight_grad, layer.out, layer.in,
                 kBatchRows);
    machine_.run("column_sums", "column_sums_f32", {blocks_for(layer.out, 32), 1, 1}, {32, 8, 1}, dy, layer.bias_grad,
                 kBatchRows, layer.out);
  }
  void update(uint64_t w, uint64_t g, uint64_t velocity, int64_t n) {
    machine_.run_each("update", "update_momentum", n, scalars_, w, g, velocity, n);
  }

  Machine machine_;
  uint64_t x_, labels_, scalars_ = 0, dloss_ = 0;
  uint64_t sums_ = machine_.empty<float>("sums", kBatchRows* kHidden);
  uint64_t hidden_ = machine_.empty<float>("hidden", kBatchRows* kHidden);
  uint64_t logits_ = machine_.empty<float>("logits", kBatchRows* kClasses);
  uint64_t loss_ = machine_.empty<float>("loss", kBatchRows);
  uint64_t dlogits_ = machine_.empty<float>("dlogits", kBatchRows* kClasses);
  uint64_t dhidden_ = machine_.empty<float>("dhidden", kBatchRows* kHidden);
  uint64_t dsums_ = machine_.empty<float>("dsums", kBatchRows* kHidden);
  std::vector<LayerOnGpu> layers_;
};

// ---- the reference

using Doubles = std::vector<double>;

struct Reference {
  Doubles weight[2], bias[2], weight_velocity[2], bias_velocity[2];

  explicit Reference(const Digits& of) {
    for (size_t l = 0; l < 2; ++l) {
      weight[l] = {of.layers[l].weight.begin(), of.layers[l].weight.end()};
      bias[l] = {of.layers[l].bias.begin(), of.layers[l].bias.end()};
      weight_velocity[l].resize(weight[l].size());
      bias_velocity[l].resize(bias[l].size());
    }
  }

  Doubles step(const Digits& of) {
    const size_t rows = kBatchRows;
    const Doubles x(of.x.begin(), of.x.end());
    Doubles hidden = apply(0, x, kPixels, kHidden), dlogits, loss;
    for (double& h : hidden) {
      h = std::max(h, 0.0);
    }
    const Doubles logits = apply(1, hidden, kHidden, kClasses);
    for (size_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (size_t c = 0; c < kClasses; ++c) {
        sum += std::exp(logits[r * kClasses + c]);
      }
      const auto label = static_cast<size_t>(of.labels[r]);
      loss.push_back(std::log(sum) - logits[r * kClasses + label]);
      for (size_t c = 0; c < kClasses; ++c) {
        dlogits.push_back((std::exp(logits[r * kClasses + c]) / sum - (c == label ? 1 : 0)) / kBatchRows);
      }
    }
    Doubles dhidden(rows * kHidden);
    for (size_t i = 0; i < dhidden.size(); ++i) {
      for (size_t c = 0; hidden[i] > 0 && c < kClasses; ++c) {
        dhidden[i] += dlogits[i / kHidden * kClasses + c] * weight[1][c * kHidden + i % kHidden];
      }
    }
    update(1, hidden, dlogits, kHidden, kClasses);
    update(0, x, dhidden, kPixels, kHidden);
    return loss;
  }

 private:
  Doubles apply(size_t layer, const Doubles& x, size_t in, size_t out) const {
    Doubles y(kBatchRows * out);
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = bias[layer][i % out];
      for (size_t k = 0; k < in; ++k) {
        y[i] += x[i / out * in + k] * weight[layer][i % out * in + k];
      }
    }
    return y;
  }
  void update(size_t layer, const Doubles& x, const Doubles& dy, size_t in, size_t out) {
    Doubles weight_grad(in * out), bias_grad(out);
    for (size_t r = 0; r < kBatchRows; ++r) {
      for (size_t o = 0; o < out; ++o) {
        bias_grad[o] += dy[r * out + o];
        for (size_t i = 0; i < in; ++i) {
          weight_grad[o * in + i] += dy[r * out + o] * x[r * in + i];
        }
      }
    }
    move(weight[layer], weight_velocity[layer], weight_grad);
    move(bias[layer], bias_velocity[layer], bias_grad);
  }
  static void move(Doubles& w, Doubles& velocity, const Doubles& g) {
    for (size_t i = 0; i < w.size(); ++i) {
      velocity[i] = static_cast<double>(kMomentum) * velocity[i] + g[i];
      w[i] -= static_cast<double>(kRate) * velocity[i];
    }
  }
};

double relative_distance(const std::vector<float>& a, const Doubles& b) {
  double error = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(error / size);
}

TEST(GpuDigits, TwoStepsOfTheModelAreThoseInF64) {
  const Digits digits;
  std::vector<std::vector<float>> before;
  for (const Target target : kTargets) {
    GpuRun run(target, digits);
    Reference reference(digits);
    for (int step = 0; step < 2; ++step) {
      const auto losses = run.step();
      EXPECT_LT(relative_distance(losses, reference.step(digits)), 1e-5) << "step " << step;
      for (const size_t layer : {0, 1}) {
        EXPECT_LT(relative_distance(run.weights(layer), reference.weight[layer]), 1e-5) << "layer " << layer;
      }
    }
    // The kernels of both targets have the same bits, since f32 has no tensor cores.
    const std::vector<std::vector<float>> after{run.weights(0), run.weights(1)};
    EXPECT_TRUE(before.empty() || before == after);
    before = after;
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
