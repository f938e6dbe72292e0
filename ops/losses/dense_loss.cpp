// The kernels go through the logits row by row, one row for each position of a sample. SumBody computes the largest
// scaled logit z and the sum of exp(z - max), from which follow the loss (cross_entropy) and the gradient (GradBody).
// The maximum is subtracted so that the exponentials cannot overflow.
// Tests: tests/ops/head/head_ops_test.cpp
#include "ops/losses/dense_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/make_kernel.h"
#include "ops/simd/lane_math.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

namespace {

#include "ops/reduce/insert_best.h"

struct RowSums {
  float max = 0;     // max of z
  float exps = 0;    // sum of exp(z - max)
  double total = 0;  // sum of z
};

// Loads sixteen scaled elements. Elements after the end of the row get a value that changes neither maximum nor sum.
template <class L>
XRUN_INLINE L padded(const float* p, int64_t left, float scale) {
  if (left >= kLanes) {
    return load<L>(p) * scale;
  }
  float lanes[kLanes];
  store(lanes, load_some<L>(p, left) * scale);
  for (int64_t i = left; i < kLanes; ++i) {
    lanes[i] = -INFINITY;
  }
  return load<L>(lanes);
}

struct SumBody {
  template <class L>
  XRUN_INLINE static void run(const float* x, int64_t n, float scale, RowSums* sums) {
    L max = broadcast<L>(-INFINITY);
    for (int64_t i = 0; i < n; i += kLanes) {
      const L z = padded<L>(x + i, n - i, scale);
      max = if_less(max, z, z, max);
    }
    float lanes[kLanes];
    store(lanes, max);
    sums->max = lanes[0];
    for (const float lane : lanes) {
      sums->max = lane > sums->max ? lane : sums->max;
    }
    L exps{};
    sums->total = 0;
    for (int64_t i = 0; i < n; i += kLanes) {
      exps += exp_lanes(padded<L>(x + i, n - i, scale) - sums->max);
    }
    for (int64_t i = 0; i < n; ++i) {
      sums->total += static_cast<double>(x[i]) * static_cast<double>(scale);
    }
    sums->exps = sum_lanes(exps);
  }
};

struct GradBody {
  template <class L>
  XRUN_INLINE static void run(const float* x, int64_t n, float scale, const RowSums* sums, float factor, float smooth,
                              float* dx) {
    const float inverse = factor / sums->exps;
    for (int64_t i = 0; i < n; i += kLanes) {
      const L z = load_upto<L>(x + i, n - i) * scale;
      store_upto(dx + i, exp_lanes(z - sums->max) * inverse - smooth, n - i);
    }
  }
};

struct DenseRows {
  explicit DenseRows(const KernelSpec& spec)
      : isa(spec.isa),
        rows(spec.rows),
        classes(spec.inputs[0].dims.back()),
        positions(spec.inputs[0].row_elements() / classes),
        scale(static_cast<float>(spec.attrs.real("scale", 1))),
        smoothing(spec.attrs.real("smoothing", 0)),
        k(spec.attrs.integer("k", 1)) {}

  bool has_target(int32_t label) const { return label >= 0 && label < classes; }
  int64_t targets(const int32_t* labels) const {
    return std::count_if(labels, labels + positions, [this](int32_t label) { return has_target(label); });
  }
  RowSums sums(const float* x) const {
    RowSums sums;
    run_for<SumBody>(isa, x, classes, scale, &sums);
    return sums;
  }

  Isa isa;
  int64_t rows;
  int64_t classes;
  int64_t positions;  // positions in a row
  float scale;
  double smoothing;
  int64_t k;
};

// Returns the loss at one position. If the position has no label, the loss is 0, or NaN if a logit is NaN.
double cross_entropy(const DenseRows& of, const float* x, int32_t label) {
  const RowSums sums = of.sums(x);
  const double lse = static_cast<double>(sums.max) + std::log(static_cast<double>(sums.exps));
  if (!of.has_target(label)) {
    return 0 * lse;
  }
  const double z = static_cast<double>(x[label]) * static_cast<double>(of.scale);
  return lse - (1 - of.smoothing) * z - of.smoothing * sums.total / static_cast<double>(of.classes);
}

// Returns 1 if the label is among the k best logits and no logit is NaN, else 0.
double hit(const DenseRows& of, const float* x, int32_t label) {
  bool sound = of.has_target(label);
  int64_t ahead = 0;
  for (int64_t c = 0; sound && c < of.classes; ++c) {
    sound = x[c] == x[c];
    ahead += x[c] > x[label] || (x[c] == x[label] && c < label) ? 1 : 0;
  }
  return sound && ahead < of.k ? 1 : 0;
}

// Computes for each row the mean of `kOf`(logits, label) over its positions that have a label.
template <double (*kOf)(const DenseRows&, const float*, int32_t)>
void run_mean(const DenseRows& of, const KernelCall& call) {
  for (int64_t row = 0; row < of.rows; ++row) {
    const float* x = call.inputs[0].as<float>() + row * of.positions * of.classes;
    const int32_t* labels = call.inputs[1].as<int32_t>() + row * of.positions;
    double sum = 0;
    for (int64_t t = 0; t < of.positions; ++t) {
      sum += kOf(of, x + t * of.classes, labels[t]);
    }
    const int64_t targets = std::max<int64_t>(1, of.targets(labels));
    call.outputs[0].as<float>()[row] = static_cast<float>(sum / static_cast<double>(targets));
  }
}

void run_dense_ce_dx(const DenseRows& of, const KernelCall& call) {
  for (int64_t row = 0; row < of.rows; ++row) {
    const int32_t* labels = call.inputs[1].as<int32_t>() + row * of.positions;
    const auto targets = static_cast<float>(of.targets(labels));
    for (int64_t t = 0; t < of.positions; ++t) {
      const int64_t at = (row * of.positions + t) * of.classes;
      const float* x = call.inputs[0].as<float>() + at;
      float* dx = call.outputs[0].as<float>() + at;
      const bool has_target = of.has_target(labels[t]);
      const float factor = has_target ? call.inputs[2].as<float>()[row] * of.scale / targets : 0;
      const auto smooth = static_cast<float>(of.smoothing / static_cast<double>(of.classes)) * factor;
      const RowSums sums = of.sums(x);
      run_for<GradBody>(of.isa, x, of.classes, of.scale, static_cast<const RowSums*>(&sums), factor, smooth, dx);
      if (has_target) {
        dx[labels[t]] -= static_cast<float>(1 - of.smoothing) * factor;
      }
    }
  }
}

void run_dense_topk(const DenseRows& of, const KernelCall& call) {
  for (int64_t row = 0; row < of.rows; ++row) {
    const float* x = call.inputs[0].as<float>() + row * of.classes;
    int32_t* which = call.outputs[0].as<int32_t>() + row * of.k;
    float* value = call.outputs[1].as<float>() + row * of.k;
    std::fill_n(value, of.k, -std::numeric_limits<float>::infinity());
    std::fill_n(which, of.k, -1);
    for (int64_t c = 0; c < of.classes; ++c) {
      insert_best(value, which, 1, of.k, x[c], static_cast<int32_t>(c));
    }
  }
}

template <void (*kRun)(const DenseRows&, const KernelCall&)>
Result<std::unique_ptr<Kernel>> make(const KernelSpec& spec) {
  return kernel_of([of = DenseRows(spec)](const KernelCall& call) { kRun(of, call); });
}

}  // namespace

Result<std::unique_ptr<Kernel>> make_dense_ce(const KernelSpec& spec) { return make<run_mean<cross_entropy>>(spec); }
Result<std::unique_ptr<Kernel>> make_dense_ce_dx(const KernelSpec& spec) { return make<run_dense_ce_dx>(spec); }
Result<std::unique_ptr<Kernel>> make_dense_accuracy(const KernelSpec& spec) { return make<run_mean<hit>>(spec); }
Result<std::unique_ptr<Kernel>> make_dense_topk(const KernelSpec& spec) { return make<run_dense_topk>(spec); }

}  // namespace xrun::ops
