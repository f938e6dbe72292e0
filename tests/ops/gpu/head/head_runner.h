// Runs one training step of a head with the launches of ops/gpu/launch/head/ on the PTX machine, like run_step
// (tests/ops/head/head_runner.h) does on the processor: with the same random numbers, learning rate and states.
#pragma once

#include "ops/gpu/launch/head/head_join.h"
#include "ops/gpu/launch/head/head_passes.h"
#include "tests/ops/gpu/launch/launch_runner.h"
#include "tests/ops/head/head_check.h"

namespace xrun::ops::gpu {

// A plan of the processor, and how a GPU divides it into launches.
struct GpuStep {
  StepPlan plan;
  GpuHeadWork work;
  bool by_nodes = false;     // whether all shards but the first sum their dX before it is reduced
  uint32_t flags = 0;        // the flag word before the step
  bool reads_scale = false;  // whether the factor on gradients, which is 1, is not that of the scalars
  Target target = kTargets[1];
  ptx::Order order = ptx::Order::kFair;
};

inline HeadShape gpu_shape_of(const test::HeadProblem& problem, const GpuStep& step, int64_t shard, int64_t rows) {
  HeadShape shape = shape_of(problem, step.plan, shard, rows);
  shape.gpu = step.work;
  return shape;
}

class HeadOnGpu {
 public:
  HeadOnGpu(const test::HeadProblem& problem, const GpuStep& step)
      : at_(step.target, step.order), problem_(problem), step_(step), target_(gpu_target(step.target)) {
    const StepPlan& plan = step.plan;
    weight_ = rows_of(plan.weights, "weight", problem.weight);
    states_[0] = rows_of(plan.states, "state", std::vector<float>(problem.weight.size(), kFirstState));
    states_[1] = rows_of(plan.states, "second state", std::vector<float>(problem.weight.size(), kSecondState));
    bias_ = at_.add("bias", raw(problem.bias));
    for (uint64_t& state : bias_states_) {
      state = at_.add("bias state", raw(std::vector<float>(problem.bias.size(), kBiasState)));
    }
    inverses_ = at_.add("inverses", problem.form.cosine ? problem.classes * 4 : 0);
    features_ = at_.add("features", plan.narrow_features ? raw(rounded(problem.features)) : raw(problem.features));
    labels_ = at_.add("labels", raw(problem.labels));
    factors_ = at_.add("factors", raw(problem.factors));
    softmax_ = at_.add("softmax", problem.rows * kHeadSoftmaxRow);
    flags_ = at_.add("flags", raw(std::vector<uint32_t>{step.flags}));
    weight_scalars_ = scalars_of(true);
    bias_scalars_ = scalars_of(false);
    grad_scale_ = at_.add("grad scale", raw(std::vector<float>{1}));
    weight_gradient_ = at_.add("dw", static_cast<Bytes>(problem.weight.size()) * 4);
    bias_gradient_ = at_.add("db", static_cast<Bytes>(problem.bias.size()) * 4);
    for (int64_t shard = 0; shard < plan.shards; ++shard) {
      const HeadShape shape = gpu_shape_of(problem, step, shard, problem.rows);
      shards_.push_back(shape.shard);
      if (shape.shard.size() > 0) {
        at_.run(GpuHeadPasses(shape, target_).prepare(), call_of(operands_of(shape, 0), 0));
      }
    }
  }

  StepResult run() {
    const StepPlan& plan = step_.plan;
    for (int64_t first = 0; first < problem_.rows; first += plan.pass_rows) {
      const std::vector<Pass> passes = forward(first);
      combine(first, passes);
      if (plan.pass_rows == problem_.rows) {
        read_gradients();
      }
      backward(first, passes);
    }
    if (!plan.fused) {
      update();
    }
    const size_t numbers = problem_.weight.size();
    result_.weight = read_rows(plan.weights, weight_, numbers);
    result_.state = read_rows(plan.states, states_[0], numbers);
    result_.second_state = read_rows(plan.states, states_[1], numbers);
    result_.bias = read<float>(bias_, problem_.bias.size());
    result_.prepared = read<float>(inverses_, problem_.form.cosine ? static_cast<size_t>(problem_.classes) : 0);
    return result_;
  }

  uint32_t flags() const { return read<uint32_t>(flags_, 1)[0]; }

 private:
  using Addresses = std::vector<uint64_t>;
  // A pass over a shard with rows, and the memory of its results.
  struct Pass {
    HeadShape shape;
    uint64_t stats = 0, logits = 0, dx = 0;
  };

  static uint64_t bytes(int64_t count, int64_t each) { return static_cast<uint64_t>(count * each); }
  bool has_factors() const { return !problem_.factors.empty(); }

  template <class T>
  std::vector<T> read(uint64_t address, size_t count) const {
    return values_of<T>(at_.read(address, count * sizeof(T)));
  }
  uint64_t rows_of(RowFormat format, const char* name, const std::vector<float>& values) {
    return at_.add(name, format == RowFormat::kF32 ? raw(values) : NarrowRows(format, values, problem_.dim).bytes);
  }
  std::vector<float> read_rows(RowFormat format, uint64_t address, size_t count) const {
    if (format == RowFormat::kF32) {
      return read<float>(address, count);
    }
    std::vector<float> values;
    for (const uint16_t bits : read<uint16_t>(address, count)) {
      values.push_back(to_float(Bf16{bits}));
    }
    return values;
  }
  uint64_t scalars_of(bool decays) {
    const double grad_scale = step_.reads_scale ? 1e6 : 1;
    const UpdateScalars scalars = update_scalars(step_.plan.form, kStepRate, kStepDecay, decays, 0, grad_scale);
    return at_.add("scalars", raw(std::vector<KnownScalars>{scalars}));
  }

  // The operands of a pass over rows from `first` on.
  Addresses operands_of(const HeadShape& shape, int64_t first) const {
    Addresses all(static_cast<size_t>(GpuHeadOperand::kCount));
    const int64_t begin = shape.shard.begin, dim = problem_.dim;
    const auto set = [&](GpuHeadOperand which, uint64_t address, size_t after = 0) {
      all[static_cast<size_t>(which) + after] = address;
    };
    using enum GpuHeadOperand;
    set(kFeatures, features_ + bytes(first * dim, step_.plan.narrow_features ? 2 : 4));
    set(kLabels, labels_ + bytes(first, 4));
    set(kFactors, factors_ + bytes(first, 4));
    set(kSoftmax, softmax_ + bytes(first, kHeadSoftmaxRow));
    set(kWeight, weight_ + bytes(begin * dim, element_bytes(shape.weights)));
    set(kInverses, inverses_ + bytes(begin, 4));
    set(kBias, bias_ + bytes(begin, 4));
    set(kWeightScalars, weight_scalars_);
    set(kBiasScalars, bias_scalars_);
    set(kGradScale, grad_scale_);
    for (size_t i = 0; i < 2; ++i) {
      set(kWeightStates, states_[i] + bytes(begin * dim, element_bytes(shape.states)), i);
      set(kBiasStates, bias_states_[i] + bytes(begin, 4), i);
    }
    set(kWeightGradient, weight_gradient_ + bytes(begin * dim, 4));
    set(kBiasGradient, bias_gradient_ + bytes(begin, 4));
    return all;
  }
  GpuCall call_of(const Addresses& inputs, Bytes scratch) {
    return {.inputs = inputs, .scratch = at_.add("scratch", scratch), .flags = flags_, .seed = 5, .step = 3};
  }
  static void set(Addresses& all, GpuHeadOperand which, uint64_t address) { all[static_cast<size_t>(which)] = address; }

  // Calls body(shape of the shard) for all shards with rows.
  template <class Body>
  void for_shards(int64_t rows, const Body& body) const {
    for (int64_t shard = 0; shard < step_.plan.shards; ++shard) {
      if (shards_[static_cast<size_t>(shard)].size() > 0) {
        body(gpu_shape_of(problem_, step_, shard, rows));
      }
    }
  }

  std::vector<Pass> forward(int64_t first) {
    std::vector<Pass> passes;
    for_shards(step_.plan.pass_rows, [&](const HeadShape& shape) {
      Pass pass{.shape = shape,
                .stats = at_.add("stats", head_stats_bytes(shape)),
                .logits = at_.add("logits", head_logits_bytes(shape)),
                .dx = at_.add("dx", head_gradient_bytes(shape))};
      Addresses operands = operands_of(shape, first);
      set(operands, GpuHeadOperand::kStats, pass.stats);
      set(operands, GpuHeadOperand::kLogits, pass.logits);
      at_.run(GpuHeadPasses(shape, target_).forward(true),
              call_of(operands, head_scratch_bytes(shape, HeadPass::kForward)));
      add_targets(pass, first);
      passes.push_back(pass);
    });
    return passes;
  }

  // The target's logit is 0 in the statistics of all subtrees but one.
  void add_targets(const Pass& pass, int64_t first) {
    const HeadLayout layout = head_layout(pass.shape);
    result_.target.resize(static_cast<size_t>(problem_.rows));
    for (size_t subtree = 0; subtree < layout.subtrees.size(); ++subtree) {
      const int64_t plane = static_cast<int64_t>(subtree) * layout.stat_planes + 3;
      const auto targets =
          read<float>(pass.stats + bytes(plane * layout.rows_padded, 4), static_cast<size_t>(layout.rows_padded));
      for (int64_t row = 0; row < pass.shape.rows; ++row) {
        const int64_t place = row / pass.shape.norm_rows * layout.row_block_padded + row % pass.shape.norm_rows;
        result_.target[static_cast<size_t>(first + row)] += targets[static_cast<size_t>(place)];
      }
    }
  }

  void combine(int64_t first, const std::vector<Pass>& passes) {
    const GpuCombine what{.labels = true,
                          .factors = has_factors(),
                          .loss = true,
                          .checks_loss = true,
                          .hits = {1, kTop},
                          .best = {{.k = kTop}}};
    const auto rows = static_cast<size_t>(step_.plan.pass_rows);
    Addresses all(static_cast<size_t>(what.stats(shards_.size())));
    const auto add = [&](int position, int64_t each) {
      return all[static_cast<size_t>(position)] = at_.add("result", static_cast<Bytes>(rows) * each * 4);
    };
    all[GpuCombine::kLabels] = labels_ + bytes(first, 4);
    all[GpuCombine::kFactors] = factors_ + bytes(first, 4);
    all[GpuCombine::kSoftmax] = softmax_ + bytes(first, kHeadSoftmaxRow);
    const uint64_t loss = add(GpuCombine::kLoss, 1), hit1 = add(what.hit(0), 1), hit5 = add(what.hit(1), 1);
    const uint64_t best = add(what.best_classes(0), kTop), scores = add(what.best_scores(0), kTop);
    size_t next = 0;
    for (size_t shard = 0; shard < shards_.size(); ++shard) {
      all[static_cast<size_t>(what.stats(shard))] = shards_[shard].size() > 0 ? passes[next++].stats : 0;
    }
    const HeadShape& shape = passes[0].shape;
    at_.run(GpuHeadJoin(shape, shards_, target_).combine_stats(what),
            call_of(all, gpu_join_scratch(shape, shards_, true).total));
    append(result_.loss, read<float>(loss, rows));
    append(result_.hit1, read<float>(hit1, rows));
    append(result_.hit5, read<float>(hit5, rows));
    append(result_.best, read<int32_t>(best, rows * kTop));
    append(result_.scores, read<float>(scores, rows * kTop));
  }

  // The plain gradients and their squares, before any update.
  void read_gradients() {
    for_shards(problem_.rows, [&](const HeadShape& shape) {
      Addresses operands = operands_of(shape, 0);
      const int64_t blocks = shape.blocks.of_rows(shape.shard).size();
      const uint64_t squares = at_.add("squares", blocks * 8);
      set(operands, GpuHeadOperand::kWeightSquares, squares);
      set(operands, GpuHeadOperand::kBiasSquares, at_.add("bias squares", blocks * 8));
      const GpuHeadPasses passes(shape, target_);
      const Bytes scratch = head_scratch_bytes(shape, HeadPass::kUpdate);
      at_.run(passes.gradients(has_factors()), call_of(operands, scratch));
      at_.run(passes.gradient_norms(has_factors()), call_of(operands, scratch));
      for (const double sum : read<double>(squares, static_cast<size_t>(blocks))) {
        result_.squares += sum;
      }
    });
    result_.dw = read<float>(weight_gradient_, problem_.weight.size());
    result_.db = read<float>(bias_gradient_, problem_.bias.size());
  }

  void backward(int64_t first, const std::vector<Pass>& passes) {
    const GpuHeadRule rule{.form = step_.plan.form, .reads_scale = step_.reads_scale};
    for (const Pass& pass : passes) {
      Addresses operands = operands_of(pass.shape, first);
      set(operands, GpuHeadOperand::kLogits, pass.logits);
      set(operands, GpuHeadOperand::kDx, pass.dx);
      at_.run(GpuHeadPasses(pass.shape, target_).backward(has_factors(), step_.plan.fused ? &rule : nullptr),
              call_of(operands, head_scratch_bytes(pass.shape, HeadPass::kBackward)));
    }
    reduce_dx(first, passes);
  }

  void reduce_dx(int64_t first, const std::vector<Pass>& passes) {
    const HeadShape& shape = passes[0].shape;
    const int64_t rows = step_.plan.pass_rows;
    const HeadGradientRows at = head_gradient_rows(shape, 0, rows);
    std::vector<ClassRange> terms;
    std::vector<Bytes> steps(passes.size(), at.step);
    Addresses addresses(2);
    for (const Pass& pass : passes) {
      terms.push_back(pass.shape.shard);
      addresses.push_back(pass.dx);
    }
    if (step_.by_nodes && terms.size() > 2) {
      HeadShape there = shape;
      there.shard = {terms[1].begin, terms.back().end};
      const std::vector<ClassRange> others(terms.begin() + 1, terms.end());
      Addresses operands(addresses.begin() + 1, addresses.end());
      operands[GpuHeadJoin::kSum] = at_.add("sums of dx", head_gradient_rows(there, 0, rows).subtrees * at.bytes);
      at_.run(GpuHeadJoin(shape, others, target_).sum_dx(std::span(steps).subspan(1), rows, at.bytes),
              call_of(operands, gpu_dx_scratch_bytes(shape, others, rows)));
      terms = {terms[0], there.shard};
      steps = {at.step, at.bytes};
      addresses = {0, 0, addresses[2], operands[GpuHeadJoin::kSum]};
    }
    addresses[GpuHeadJoin::kFeatures] = operands_of(shape, first)[static_cast<size_t>(GpuHeadOperand::kFeatures)];
    addresses[GpuHeadJoin::kSum] = at_.add("gradient of features", rows * problem_.dim * 4);
    at_.run(GpuHeadJoin(shape, terms, target_).reduce_dx(steps, rows),
            call_of(addresses, gpu_dx_scratch_bytes(shape, terms, rows)));
    append(result_.dx, read<float>(addresses[GpuHeadJoin::kSum], static_cast<size_t>(rows * problem_.dim)));
  }

  void update() {
    for_shards(problem_.rows, [&](const HeadShape& shape) {
      at_.run(GpuHeadPasses(shape, target_)
                  .update(has_factors(), {.form = step_.plan.form, .reads_scale = step_.reads_scale}),
              call_of(operands_of(shape, 0), head_scratch_bytes(shape, HeadPass::kUpdate)));
    });
  }

  template <class T>
  static void append(std::vector<T>& to, const std::vector<T>& values) {
    to.insert(to.end(), values.begin(), values.end());
  }

  Device at_;
  const test::HeadProblem& problem_;
  const GpuStep& step_;
  GpuTarget target_;
  std::vector<ClassRange> shards_;
  uint64_t weight_ = 0, bias_ = 0, inverses_ = 0, features_ = 0, labels_ = 0, factors_ = 0, softmax_ = 0, flags_ = 0;
  uint64_t weight_scalars_ = 0, bias_scalars_ = 0, grad_scale_ = 0, weight_gradient_ = 0, bias_gradient_ = 0;
  uint64_t states_[2] = {}, bias_states_[2] = {};
  StepResult result_;
};

inline StepResult run_on_gpu(const test::HeadProblem& problem, const GpuStep& step) {
  return HeadOnGpu(problem, step).run();
}

}  // namespace xrun::ops::gpu
