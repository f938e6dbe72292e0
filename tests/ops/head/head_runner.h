// Runs one training step of a sharded head in the order of a plan: passes over row ranges, with the shards one after
// another.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "graph/base/random.h"
#include "ops/head/head.h"
#include "ops/head/row_format.h"
#include "ops/head/select_classes.h"
#include "ops/simd/simd.h"
#include "tests/support/head_oracle.h"

namespace xrun::ops {

// Workers that are real threads and take items in any order. With one worker the calling thread does the work.
class ThreadWorkers final : public Workers {
 public:
  explicit ThreadWorkers(int count) : count_(count) {}
  int count() const override { return count_; }
  void for_each(int64_t items, ItemBody body) override {
    for (int64_t item = 0; count_ == 1 && item < items; ++item) {
      body(item, 0);
    }
    if (count_ == 1) {
      return;
    }
    std::atomic<int64_t> next = 0;
    std::vector<std::thread> threads;
    for (int worker = 0; worker < count_; ++worker) {
      threads.emplace_back([&, worker] {
        for (int64_t item = next++; item < items; item = next++) {
          body(item, worker);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

 private:
  int count_;
};

// A block of aligned memory, as an arena allocates it, filled with NaN so that a read before the first write is
// noticed.
class Block {
 public:
  explicit Block(Bytes bytes)
      : data_(static_cast<std::byte*>(::operator new (static_cast<size_t>(bytes), std::align_val_t{64}))) {
    std::memset(data_.get(), 0xFF, static_cast<size_t>(bytes));
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

struct StepPlan {
  int64_t shards = 1;
  int64_t pass_rows = 0;  // h: rows of a pass
  int64_t norm_rows = 0;  // g: rows of a row block
  int workers = 1;
  Isa isa = Isa::kAvx2;
  bool fused = false;            // update in the backward pass; needs one pass
  bool narrow_features = false;  // features have the type to which operands are rounded
  int64_t kept_blocks = 0;       // class blocks whose logits each shard keeps
  RowFormat weights = RowFormat::kF32;
  RowFormat states = RowFormat::kF32;
  int64_t active = 0;      // number of active classes
  int64_t neighbours = 0;  // entries of each class's neighbour list, which are selected first
  std::vector<int32_t> lists;
  bool log_q = false;
  OptimizerForm form{.kind = OptimizerKind::kSgd, .momentum = 0.9, .weight_decay = 0.01, .states = 1};
};

struct StepResult {
  std::vector<float> loss;
  std::vector<float> hit1;
  std::vector<float> hit5;
  std::vector<int32_t> best;  // [rows, 5]
  std::vector<float> scores;  // [rows, 5]
  std::vector<float> target;  // [rows]: target logits as the kernels saw them
  std::vector<float> dx;
  std::vector<float> dw;
  std::vector<float> db;
  std::vector<float> weight;  // after the update
  std::vector<float> bias;
  std::vector<float> state;  // the optimizer's first state, after the update
  std::vector<float> second_state;
  std::vector<float> prepared;  // after the update
  double squares = 0;
  std::vector<int32_t> active;     // the active classes
  std::vector<float> corrections;  // log_q correction of each class in `active`

  bool operator==(const StepResult&) const = default;
};

inline constexpr int64_t kTop = 5;

inline HeadShape shape_of(const test::HeadProblem& problem, const StepPlan& plan, int64_t shard, int64_t rows) {
  const int64_t active = plan.active > 0 ? plan.active : problem.classes;
  const ClassBlocks blocks{problem.classes, class_block(problem.classes, active)};
  return {.blocks = blocks,
          .dim = problem.dim,
          .shard = blocks.rows_of_shard(shard, plan.shards),
          .rows = rows,
          .norm_rows = plan.norm_rows,
          .bf16 = problem.bf16,
          .f16 = problem.f16,
          .features = !plan.narrow_features ? DType::kF32
                      : problem.f16         ? DType::kF16
                                            : DType::kBF16,
          .form = problem.form,
          .margin = problem.margin,
          .row_weight = problem.row_weight,
          .top_k = kTop,
          .workers = plan.workers,
          .active = plan.active,
          .step_rows = problem.rows,
          .neighbours = plan.neighbours,
          .log_q = plan.log_q,
          .weights = plan.weights,
          .states = plan.states,
          .kept_blocks = plan.kept_blocks};
}

// Converts f32 rows to a row format and back.
struct NarrowRows {
  RowFormat format = RowFormat::kF32;
  int64_t dim = 0;
  std::vector<std::byte> bytes;
  std::vector<float> scales;

  NarrowRows(RowFormat as, const std::vector<float>& values, int64_t width) : format(as), dim(width) {
    const auto rows = values.size() / static_cast<size_t>(dim);
    bytes.resize(values.size() * static_cast<size_t>(element_bytes(format)));
    scales.assign(rows, 1);
    for (size_t row = 0; row < rows; ++row) {
      scales[row] = store_row(format, values.data() + row * static_cast<size_t>(dim), dim, RandomStream(0, row),
                              at(static_cast<int64_t>(row)));
    }
  }
  std::byte* at(int64_t row) { return bytes.data() + row * dim * element_bytes(format); }
  std::vector<float> values() {
    std::vector<float> out(scales.size() * static_cast<size_t>(dim));
    for (size_t row = 0; row < scales.size(); ++row) {
      load_row(format, at(static_cast<int64_t>(row)), scales[row], dim, out.data() + row * static_cast<size_t>(dim));
    }
    return out;
  }
};

inline std::vector<float> floats(const std::byte* data, size_t n) {
  std::vector<float> values(n);
  // A shard without classes has no memory to copy from.
  if (n > 0) {
    std::memcpy(values.data(), data, n * sizeof(float));
  }
  return values;
}

// The initial value of each optimizer state.
inline constexpr float kFirstState = 0.5F;
inline constexpr float kSecondState = 0.25F;
inline constexpr float kBiasState = 0.25F;

// Sums dX on the first shard's node. All other shards are on a second node, which sums their partials before it sends
// them. Returns false if one of the two nodes has no classes.
inline bool reduce_dx_by_nodes(const HeadShape& whole, const std::vector<ClassRange>& shards, Isa isa,
                               const std::vector<HeadDx>& parts, const std::byte* features, int64_t rows, float* dx) {
  const std::vector<ClassRange> others(shards.begin() + 1, shards.end());
  const ClassRange together{shards[0].end, shards.back().end};
  if (shards[0].size() == 0 || together.size() == 0) {
    return false;
  }
  HeadShape there = whole;
  there.shard = together;
  const HeadGradientRows at = head_gradient_rows(there, 0, rows);
  const Block sums(at.bytes * at.subtrees);
  HeadJoin(whole, others, isa)
      .sum_dx(std::span(parts).subspan(1), rows, reinterpret_cast<float*>(sums.data()), at.bytes);
  const HeadDx both[] = {parts[0], {sums.data(), at.bytes}};
  HeadJoin(whole, {shards[0], together}, isa).reduce_dx(both, features, rows, 1, dx);
  return true;
}

// Runs one training step with learning rate 0.1 and weight decay 0.01.
inline StepResult run_step(const test::HeadProblem& problem, const StepPlan& plan) {
  const int64_t dim = problem.dim;
  const int64_t h = plan.pass_rows;
  ThreadWorkers workers(plan.workers);
  const OptimizerForm& form = plan.form;
  const UpdateScalars scalars = update_scalars(form, 0.1, 0.01, true, 0);
  const UpdateScalars bias_scalars = update_scalars(form, 0.1, 0.01, false, 0);

  StepResult result{.loss = std::vector<float>(static_cast<size_t>(problem.rows)),
                    .hit1 = std::vector<float>(static_cast<size_t>(problem.rows)),
                    .hit5 = std::vector<float>(static_cast<size_t>(problem.rows)),
                    .best = std::vector<int32_t>(static_cast<size_t>(problem.rows * kTop)),
                    .scores = std::vector<float>(static_cast<size_t>(problem.rows * kTop)),
                    .target = std::vector<float>(static_cast<size_t>(problem.rows)),
                    .dx = std::vector<float>(problem.features.size()),
                    .dw = std::vector<float>(problem.weight.size()),
                    .db = std::vector<float>(problem.bias.size()),
                    .weight = problem.weight,
                    .bias = problem.bias,
                    .state = std::vector<float>(problem.weight.size(), kFirstState),
                    .second_state = std::vector<float>(problem.weight.size(), kSecondState)};
  std::vector<float> bias_states[2] = {std::vector<float>(problem.bias.size(), kBiasState),
                                       std::vector<float>(problem.bias.size(), kBiasState)};
  NarrowRows weight_rows(plan.weights, result.weight, dim);
  NarrowRows state_rows[2] = {{plan.states, result.state, dim}, {plan.states, result.second_state, dim}};
  std::vector<uint16_t> narrow(problem.features.size());
  for (size_t i = 0; i < narrow.size(); ++i) {
    narrow[i] = problem.f16 ? to_f16(problem.features[i]).bits : to_bf16(problem.features[i]).bits;
  }
  const auto features_at = [&](int64_t row) {
    return plan.narrow_features ? reinterpret_cast<const std::byte*>(narrow.data() + row * dim)
                                : reinterpret_cast<const std::byte*>(problem.features.data() + row * dim);
  };

  std::vector<ClassRange> shards;
  std::vector<HeadWeights> weights;
  std::vector<HeadUpdate> updates;
  std::vector<Block> prepared;
  for (int64_t r = 0; r < plan.shards; ++r) {
    const HeadShape shape = shape_of(problem, plan, r, h);
    const int64_t begin = shape.shard.begin;
    shards.push_back(shape.shard);
    prepared.emplace_back(head_prepared_bytes(shape));
    weights.push_back({.weight = weight_rows.at(begin),
                       .scales = plan.weights == RowFormat::kFp8 ? weight_rows.scales.data() + begin : nullptr,
                       .bias = problem.form.bias ? result.bias.data() + begin : nullptr,
                       .prepared = reinterpret_cast<float*>(prepared.back().data())});
    updates.push_back({.form = form, .weight = scalars, .bias = bias_scalars, .seed = 5, .step = 3});
    for (int i = 0; i < form.states; ++i) {
      updates.back().weight_states[i] = state_rows[i].at(begin);
      updates.back().bias_states[i] = problem.form.bias ? bias_states[i].data() + begin : nullptr;
    }
    HeadPasses(shape, plan.isa).prepare(weights.back(), workers);
  }

  std::vector<Block> selections;
  std::vector<ActiveClasses> active;  // indexed by shard
  std::vector<std::vector<float>> corrections;
  for (int64_t r = 0; r < plan.shards && plan.active > 0; ++r) {
    const HeadShape shape = shape_of(problem, plan, r, h);
    selections.emplace_back(head_selection(shape).total);
    active.push_back(select_classes(shape, problem.labels, 5, 3, selections.back().data(), workers,
                                    plan.lists.empty() ? nullptr : plan.lists.data()));
    const int32_t* all = active.back().classes;
    const int32_t* end = all + active.back().offsets[shape.blocks.of_rows(shape.shard).size()];
    result.active.insert(result.active.end(), all, end);
    corrections.emplace_back();
    for (const int32_t* one = all; one < end && !problem.corrections.empty(); ++one) {
      corrections.back().push_back(problem.corrections[static_cast<size_t>(*one)]);
    }
    if (plan.log_q) {
      result.corrections.insert(result.corrections.end(), active.back().corrections,
                                active.back().corrections + (end - all));
    } else {
      active.back().corrections = problem.corrections.empty() ? nullptr : corrections.back().data();
    }
  }
  const int64_t all_active = active.empty() ? 0 : active[0].all;

  std::vector<RowSoftmax> softmax(static_cast<size_t>(problem.rows));
  for (int64_t first = 0; first < problem.rows; first += h) {
    const HeadRows rows{features_at(first), problem.labels.data() + first, softmax.data() + first,
                        problem.factors.empty() ? nullptr : problem.factors.data() + first};
    const auto of_shard = [&](int64_t r, const Block* logits) {
      HeadRows its = rows;
      its.logits = logits == nullptr ? nullptr : logits->data();
      its.active = active.empty() ? nullptr : &active[static_cast<size_t>(r)];
      return its;
    };
    std::vector<Block> logits;
    std::vector<Block> stats;
    std::vector<Block> gradients;
    std::vector<const std::byte*> stats_at;
    std::vector<const std::byte*> gradients_at;
    for (int64_t r = 0; r < plan.shards; ++r) {
      const HeadShape shape = shape_of(problem, plan, r, h);
      const Block scratch(head_scratch_bytes(shape, HeadPass::kForward));
      stats.emplace_back(head_stats_bytes(shape));
      stats_at.push_back(stats.back().data());
      logits.emplace_back(head_logits_bytes(shape));
      HeadPasses(shape, plan.isa)
          .forward(of_shard(r, &logits.back()), weights[static_cast<size_t>(r)], stats.back().data(), scratch.data(),
                   workers);
    }
    const HeadShape whole = shape_of(problem, plan, 0, h);
    const HeadJoin join(whole, shards, plan.isa);
    const HeadHits hits[2] = {{1, result.hit1.data() + first}, {kTop, result.hit5.data() + first}};
    join.combine_stats(stats_at, rows.labels, rows.factors, softmax.data() + first, result.loss.data() + first, hits,
                       all_active);
    join.top_k(stats_at, kTop, result.best.data() + first * kTop, result.scores.data() + first * kTop);
    const HeadLayout layout = head_layout(whole);
    for (int64_t r = 0; r < plan.shards; ++r) {
      const HeadLayout own = head_layout(shape_of(problem, plan, r, h));
      for (size_t s = 0; s < own.subtrees.size(); ++s) {
        for (int64_t row = 0; row < h; ++row) {
          const int64_t place = row / plan.norm_rows * layout.row_block_padded + row % plan.norm_rows;
          result.target[static_cast<size_t>(first + row)] +=
              reinterpret_cast<const float*>(stats_at[static_cast<size_t>(
                  r)])[(static_cast<int64_t>(s) * layout.stat_planes + 3) * layout.rows_padded + place];
        }
      }
    }
    if (h == problem.rows) {
      // Copies the plain gradients and computes their norm before any update.
      for (int64_t r = 0; r < plan.shards; ++r) {
        const HeadShape shape = shape_of(problem, plan, r, h);
        const Block scratch(head_scratch_bytes(shape, HeadPass::kUpdate));
        const HeadPasses passes(shape, plan.isa);
        float* db = problem.form.bias ? result.db.data() + shape.shard.begin : nullptr;
        passes.gradients(of_shard(r, nullptr), weights[static_cast<size_t>(r)],
                         result.dw.data() + shape.shard.begin * dim, db, scratch.data(), workers);
        std::vector<double> squares(static_cast<size_t>(shape.blocks.of_rows(shape.shard).size()));
        passes.gradient_norms(of_shard(r, nullptr), weights[static_cast<size_t>(r)], squares.data(), nullptr,
                              scratch.data(), workers);
        for (const double s : squares) {
          result.squares += s;
        }
      }
    }
    for (int64_t r = 0; r < plan.shards; ++r) {
      const HeadShape shape = shape_of(problem, plan, r, h);
      const Block scratch(head_scratch_bytes(shape, HeadPass::kBackward));
      gradients.emplace_back(head_gradient_bytes(shape));
      gradients_at.push_back(gradients.back().data());
      HeadPasses(shape, plan.isa)
          .backward(of_shard(r, &logits[static_cast<size_t>(r)]), weights[static_cast<size_t>(r)],
                    gradients.back().data(), plan.fused ? &updates[static_cast<size_t>(r)] : nullptr, scratch.data(),
                    workers);
    }
    // Gathers in two pieces, as micro-batches would; the second piece is reduced by node.
    const int64_t half = h / plan.norm_rows / 2 * plan.norm_rows;
    for (const auto& [begin, end] : {std::pair(int64_t{0}, half), std::pair(half, h)}) {
      std::vector<HeadDx> parts;
      for (int64_t r = 0; r < plan.shards; ++r) {
        const HeadGradientRows at = head_gradient_rows(shape_of(problem, plan, r, h), begin, end);
        parts.push_back({gradients_at[static_cast<size_t>(r)] + at.begin, at.step});
      }
      float* dx = result.dx.data() + (first + begin) * dim;
      if (begin == 0 ||
          !reduce_dx_by_nodes(whole, shards, plan.isa, parts, features_at(first + begin), end - begin, dx)) {
        join.reduce_dx(parts, features_at(first + begin), end - begin, 1, dx);
      }
    }
  }
  if (!plan.fused) {
    const HeadRows rows{features_at(0), problem.labels.data(), softmax.data(),
                        problem.factors.empty() ? nullptr : problem.factors.data()};
    for (int64_t r = 0; r < plan.shards; ++r) {
      const HeadShape shape = shape_of(problem, plan, r, problem.rows);
      const Block scratch(head_scratch_bytes(shape, HeadPass::kUpdate));
      HeadRows its = rows;
      its.active = active.empty() ? nullptr : &active[static_cast<size_t>(r)];
      HeadPasses(shape, plan.isa)
          .update(its, weights[static_cast<size_t>(r)], updates[static_cast<size_t>(r)], scratch.data(), workers);
    }
  }
  result.weight = weight_rows.values();
  result.state = state_rows[0].values();
  result.second_state = state_rows[1].values();
  for (size_t r = 0; r < shards.size() && problem.form.cosine; ++r) {
    const std::vector<float> own = floats(prepared[r].data(), static_cast<size_t>(shards[r].size()));
    result.prepared.insert(result.prepared.end(), own.begin(), own.end());
  }
  return result;
}

struct ProblemSpec {
  int64_t classes = 200;
  int64_t dim = 40;
  int64_t rows = 24;
  bool bf16 = false;
  bool cosine = false;
  bool bias = false;
  MarginForm margin;
  bool extremes = false;  // some rows have cos = 1 and -1 with their class
  uint64_t seed = 1;
};

inline test::HeadProblem make_problem(const ProblemSpec& spec) {
  test::HeadProblem problem{.classes = spec.classes,
                            .dim = spec.dim,
                            .rows = spec.rows,
                            .bf16 = spec.bf16,
                            .form = {.cosine = spec.cosine, .bias = spec.bias},
                            .margin = spec.margin,
                            .row_weight = 1.0 / static_cast<double>(spec.rows)};
  const RandomStream stream(spec.seed, 99);
  uint64_t at = 0;
  for (int64_t i = 0; i < spec.rows * spec.dim; ++i) {
    problem.features.push_back(stream.normal(at++));
  }
  const float deviation = spec.cosine ? 0.05F : 1.0F / std::sqrt(static_cast<float>(spec.dim));
  for (int64_t i = 0; i < spec.classes * spec.dim; ++i) {
    problem.weight.push_back(deviation * stream.normal(at++));
  }
  for (int64_t i = 0; i < spec.classes && spec.bias; ++i) {
    problem.bias.push_back(stream.normal(at++));
  }
  for (int64_t r = 0; r < spec.rows; ++r) {
    problem.labels.push_back(static_cast<int32_t>(stream.bits(at++) % static_cast<uint32_t>(spec.classes)));
    const float sign = r % 3 == 1 ? 1.0F : -1.0F;
    for (int64_t d = 0; d < spec.dim && spec.extremes && r % 3 != 0; ++d) {
      problem.features[static_cast<size_t>(r * spec.dim + d)] =
          8 * sign * problem.weight[static_cast<size_t>(problem.labels.back() * spec.dim + d)];
    }
  }
  // Covers the first and the last class, and one class twice.
  problem.labels[0] = 0;
  problem.labels[static_cast<size_t>(spec.rows - 1)] = static_cast<int32_t>(spec.classes - 1);
  return problem;
}

}  // namespace xrun::ops
