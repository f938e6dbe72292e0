#include "ops/head/catch_up.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numbers>
#include <set>

#include "ops/head/class_rows.h"
#include "ops/head/row_format.h"
#include "tests/ops/head/head_runner.h"

namespace xrun::ops {
namespace {

constexpr double kMomentum = 0.9;

// The learning rate: twenty steps of warm-up, then a cosine.
double rate_of(int64_t step) {
  return step < 20 ? 0.02 * static_cast<double>(step)
                   : 0.2 + 0.2 * std::cos(std::numbers::pi * static_cast<double>(step - 20) / 500);
}

double distance(const std::vector<float>& got, const std::vector<float>& want) {
  return test::relative_error(got, std::vector<double>(want.begin(), want.end()));
}

TEST(IdleSteps, SumsFollowTheirDefinition) {
  for (const bool nesterov : {false, true}) {
    IdleSteps steps(kMomentum, nesterov);
    steps.advance(1500, rate_of);
    EXPECT_EQ(steps.step(), 1500);
    EXPECT_FALSE(steps.missed(-1));
    EXPECT_FALSE(steps.missed(1499));
    const double mu = static_cast<float>(kMomentum);
    for (const int32_t last : {0, 1, 19, 700, 1200, 1490, 1498}) {
      ASSERT_TRUE(steps.missed(last));
      double sum = 0;
      for (int64_t step = last + 1; step < 1500; ++step) {
        sum += rate_of(step) * std::pow(mu, static_cast<double>(step - last + (nesterov ? 1 : 0)));
      }
      EXPECT_NEAR(steps.shift(last), sum, 1e-13 * sum) << last;
      EXPECT_NEAR(steps.decay(last), std::pow(mu, 1499 - last), 1e-13 * std::pow(mu, 1499 - last) + 1e-18) << last;
    }
  }
}

TEST(IdleSteps, ARecomputedTableHasTheBitsOfAnExtendedTable) {
  IdleSteps grown(0.99, false);
  for (int64_t step = 1; step <= 6000; step += step % 7 + 1) {
    grown.advance(step, rate_of);
  }
  IdleSteps fresh(0.99, false);
  fresh.advance(grown.step(), rate_of);
  for (int32_t last = 0; last < grown.step(); ++last) {
    ASSERT_EQ(grown.shift(last), fresh.shift(last)) << last;
  }
}

struct CaughtUpRows {
  std::vector<float> weight;
  std::vector<float> velocity;
  std::vector<float> bias;
  std::vector<float> bias_velocity;
};

// Returns f32 copies of a shard's rows as the next step would read them.
CaughtUpRows caught_up(const HeadWeights& stored, ClassRange rows, int64_t dim) {
  const HeadCatchUp& by = stored.catch_up;
  const auto* const weight = reinterpret_cast<const float*>(stored.weight);
  CaughtUpRows out{.weight = {weight + rows.begin * dim, weight + rows.end * dim},
                   .velocity = {by.velocity + rows.begin * dim, by.velocity + rows.end * dim},
                   .bias = {},
                   .bias_velocity = {}};
  if (stored.bias != nullptr) {
    out.bias.assign(stored.bias + rows.begin, stored.bias + rows.end);
    out.bias_velocity.assign(by.bias_velocity + rows.begin, by.bias_velocity + rows.end);
  }
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t to = row - rows.begin;
    catch_up_weight(by, row, dim, out.weight.data() + to * dim);
    catch_up_velocity(by, row, dim, out.velocity.data() + to * dim);
    if (stored.bias != nullptr) {
      catch_up_bias(by, row, out.bias.data() + to);
      catch_up_velocity(by, row, 1, out.bias_velocity.data() + to);
    }
  }
  return out;
}

// Rows that were updated once and then left alone are compared with updates by gradients of zero.
TEST(CatchUp, IdleRowsEqualRowsUpdatedWithZeroGradients) {
  constexpr int64_t kDim = 43;
  constexpr int64_t kSteps = 2000;
  for (const bool nesterov : {false, true}) {
    const OptimizerForm form{.kind = OptimizerKind::kSgd, .momentum = kMomentum, .nesterov = nesterov, .states = 1};
    IdleSteps steps(kMomentum, nesterov);
    steps.advance(kSteps, rate_of);
    std::vector<int32_t> lasts{-1, 0, 3, 500, 1500, 1900, 1990, 1998, 1999};
    const auto rows = static_cast<int64_t>(lasts.size());
    const RandomStream stream(3, 3);
    std::vector<float> weight(static_cast<size_t>(rows * kDim));
    std::vector<float> velocity(weight.size());
    std::vector<float> bias(lasts.size());
    std::vector<float> bias_velocity(lasts.size());
    uint64_t at = 0;
    for (std::vector<float>* values : {&weight, &velocity, &bias, &bias_velocity}) {
      for (float& x : *values) {
        x = stream.normal(at++);
      }
    }
    std::fill_n(velocity.begin(), kDim, 0.0F);  // this row had no update
    bias_velocity[0] = 0;
    const HeadWeights stored{.weight = reinterpret_cast<std::byte*>(weight.data()),
                             .bias = bias.data(),
                             .catch_up = {.steps = &steps,
                                          .last = lasts.data(),
                                          .velocity = velocity.data(),
                                          .bias_velocity = bias_velocity.data(),
                                          .weight_factor = 0.5,
                                          .bias_factor = 2}};
    const std::vector<float> before = weight;
    const CaughtUpRows got = caught_up(stored, {1, rows}, kDim);
    EXPECT_EQ(weight, before) << "what is stored stays";

    const std::vector<float> none(kDim);
    for (size_t row = 1; row < lasts.size(); ++row) {
      float* const w = weight.data() + row * kDim;
      float* const v = velocity.data() + row * kDim;
      for (int64_t step = lasts[row] + 1; step < kSteps; ++step) {
        update(Isa::kAvx2, form, update_scalars(form, 0.5 * rate_of(step), 0, true, step), w, none.data(), {v}, kDim);
        update(Isa::kAvx2, form, update_scalars(form, 2 * rate_of(step), 0, false, step), &bias[row], none.data(),
               {&bias_velocity[row]}, 1);
      }
      const auto got_row = got.weight.begin() + static_cast<int64_t>(row - 1) * kDim;
      EXPECT_LE(distance({got_row, got_row + kDim}, {w, w + kDim}), 1e-6) << lasts[row];
      for (size_t i = 0; i < kDim; ++i) {
        // A velocity below 1e-18 may be treated as 0.
        EXPECT_NEAR(got.velocity[(row - 1) * kDim + i], v[i], 2e-6 * std::abs(v[i]) + 1e-17) << lasts[row];
      }
      EXPECT_NEAR(got.bias[row - 1], bias[row], 2e-6 * (1 + std::abs(bias[row]))) << lasts[row];
      EXPECT_NEAR(got.bias_velocity[row - 1], bias_velocity[row], 1e-6) << lasts[row];
    }
  }
}

// Trains a head for many steps, each with some of the classes, and keeps its state between steps.
class Training {
 public:
  enum Rows { kDense, kExact };

  Training(const test::HeadProblem& problem, const StepPlan& plan, Rows rows, bool nesterov)
      : problem_(problem),
        plan_(plan),
        rows_(rows),
        form_{.kind = OptimizerKind::kSgd, .momentum = kMomentum, .nesterov = nesterov, .states = 1},
        workers_(plan.workers),
        weight(problem.weight),
        velocity(weight.size()),
        bias(problem.bias),
        bias_velocity(bias.size()),
        prepared(static_cast<size_t>(problem.classes)),
        last(static_cast<size_t>(problem.classes), -1),
        steps_(kMomentum, nesterov) {
    prepare();
  }

  void run(int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      steps_.advance(t, rate_of);
      step(t);
    }
    steps_.advance(end, rate_of);
  }

  // Computes the table of idle steps again, as after a restart.
  void resume() {
    const int64_t step = steps_.step();
    steps_ = IdleSteps(kMomentum, form_.nesterov);
    steps_.advance(step, rate_of);
  }

  // Returns weights and velocities as the next step reads them.
  std::pair<std::vector<float>, std::vector<float>> now() const {
    if (rows_ == kDense) {
      return {weight, velocity};
    }
    std::vector<float> w;
    std::vector<float> v;
    for (int64_t r = 0; r < plan_.shards; ++r) {
      const CaughtUpRows part = caught_up(weights(r), {0, shape_at(r, problem_.rows).shard.size()}, problem_.dim);
      w.insert(w.end(), part.weight.begin(), part.weight.end());
      v.insert(v.end(), part.velocity.begin(), part.velocity.end());
    }
    return {w, v};
  }

  // Returns the losses of the batch of step `t` over all classes, as an evaluation computes them.
  std::vector<float> evaluate(int64_t t) {
    const test::HeadProblem batch = batch_of(t);
    std::vector<float> seen(batch.labels.size());
    forward(batch, 0, problem_.rows, nullptr, seen.data(), nullptr, nullptr);
    return seen;
  }

 private:
  HeadShape shape_at(int64_t shard, int64_t rows) const {
    HeadShape shape = shape_of(problem_, plan_, shard, rows);
    shape.untouched = rows_ == kExact ? Untouched::kExact : Untouched::kAsIs;
    return shape;
  }

  HeadWeights weights(int64_t shard) const {
    const int64_t begin = shape_at(shard, problem_.rows).shard.begin;
    auto* self = const_cast<Training*>(this);
    HeadWeights of{.weight = reinterpret_cast<std::byte*>(self->weight.data() + begin * problem_.dim),
                   .bias = bias.empty() ? nullptr : self->bias.data() + begin,
                   .prepared = problem_.form.cosine ? self->prepared.data() + begin : nullptr};
    if (rows_ == kExact) {
      of.catch_up = {.steps = &steps_,
                     .last = self->last.data() + begin,
                     .velocity = velocity.data() + begin * problem_.dim,
                     .bias_velocity = bias.empty() ? nullptr : bias_velocity.data() + begin};
    }
    return of;
  }

  void prepare() {
    for (int64_t r = 0; r < plan_.shards; ++r) {
      HeadPasses(shape_at(r, problem_.rows), plan_.isa).prepare(weights(r), workers_);
    }
  }

  test::HeadProblem batch_of(int64_t t) const {
    test::HeadProblem batch = problem_;
    const RandomStream stream(9, static_cast<uint64_t>(t));
    stream.fill_normal(0, batch.features);
    for (size_t row = 0; row < batch.labels.size(); ++row) {
      batch.labels[row] = static_cast<int32_t>(stream.below(1'000'000 + row, static_cast<uint64_t>(batch.classes)));
    }
    return batch;
  }

  // The active classes of a shard.
  struct Selection {
    std::vector<int32_t> offsets;
    std::vector<int32_t> classes;
  };
  static Selection select(const HeadShape& shape, const std::set<int32_t>& active) {
    Selection of;
    of.classes.assign(active.lower_bound(static_cast<int32_t>(shape.shard.begin)),
                      active.lower_bound(static_cast<int32_t>(shape.shard.end)));
    const BlockRange blocks = shape.blocks.of_rows(shape.shard);
    for (int64_t block = blocks.begin; block <= blocks.end; ++block) {
      of.offsets.push_back(static_cast<int32_t>(
          std::lower_bound(of.classes.begin(), of.classes.end(), block * shape.blocks.size) - of.classes.begin()));
    }
    return of;
  }

  // Runs the forward pass over the shards. `active` holds the active classes of each shard; null: all classes.
  void forward(const test::HeadProblem& batch, int64_t first, int64_t rows, const std::vector<ActiveClasses>* active,
               float* loss, RowSoftmax* softmax, std::vector<Block>* logits) {
    std::vector<Block> stats;
    std::vector<const std::byte*> stats_at;
    std::vector<ClassRange> shards;
    for (int64_t r = 0; r < plan_.shards; ++r) {
      HeadShape shape = shape_at(r, rows);
      shape.kept_blocks = active == nullptr ? 0 : shape.kept_blocks;
      const Block scratch(head_scratch_bytes(shape, HeadPass::kForward));
      stats.emplace_back(head_stats_bytes(shape));
      stats_at.push_back(stats.back().data());
      shards.push_back(shape.shard);
      HeadRows data{.features = reinterpret_cast<const std::byte*>(batch.features.data() + first * batch.dim),
                    .labels = batch.labels.data() + first,
                    .active = active == nullptr ? nullptr : &(*active)[static_cast<size_t>(r)]};
      if (logits != nullptr) {
        logits->emplace_back(head_logits_bytes(shape));
        data.logits = logits->back().data();
      }
      HeadPasses(shape, plan_.isa).forward(data, weights(r), stats.back().data(), scratch.data(), workers_);
    }
    HeadJoin(shape_at(0, rows), shards, plan_.isa)
        .combine_stats(stats_at, batch.labels.data() + first, nullptr, softmax, loss, {},
                       active == nullptr ? 0 : active->front().all);
  }

  void step(int64_t t) {
    const test::HeadProblem batch = batch_of(t);
    std::set<int32_t> active(batch.labels.begin(), batch.labels.end());
    const RandomStream stream(10, static_cast<uint64_t>(t));
    for (uint64_t i = 0; i < batch.labels.size(); ++i) {
      active.insert(static_cast<int32_t>(stream.below(i, static_cast<uint64_t>(batch.classes))));
    }
    std::vector<Selection> selections;
    std::vector<HeadUpdate> updates;
    for (int64_t r = 0; r < plan_.shards; ++r) {
      const HeadShape shape = shape_at(r, problem_.rows);
      selections.push_back(select(shape, active));
      updates.push_back(
          {.form = form_,
           .weight = update_scalars(form_, rate_of(t), 0, true, t),
           .bias = update_scalars(form_, rate_of(t), 0, false, t),
           .weight_states = {reinterpret_cast<std::byte*>(velocity.data() + shape.shard.begin * batch.dim), nullptr},
           .bias_states = {bias.empty() ? nullptr : bias_velocity.data() + shape.shard.begin, nullptr},
           .step = t});
    }
    std::vector<ActiveClasses> parts;
    for (const Selection& one : selections) {
      parts.push_back(
          {.offsets = one.offsets.data(), .classes = one.classes.data(), .all = static_cast<int64_t>(active.size())});
    }
    std::vector<RowSoftmax> softmax(batch.labels.size());
    const size_t seen = losses.size();
    losses.resize(seen + batch.labels.size());
    const auto data_of = [&](int64_t first, const ActiveClasses& of, std::byte* logits) {
      return HeadRows{.features = reinterpret_cast<const std::byte*>(batch.features.data() + first * batch.dim),
                      .labels = batch.labels.data() + first,
                      .softmax = softmax.data() + first,
                      .logits = logits,
                      .active = &of};
    };
    for (int64_t first = 0; first < batch.rows; first += plan_.pass_rows) {
      std::vector<Block> logits;
      forward(batch, first, plan_.pass_rows, &parts, losses.data() + seen + first, softmax.data() + first, &logits);
      for (int64_t r = 0; r < plan_.shards; ++r) {
        const auto i = static_cast<size_t>(r);
        const HeadShape shape = shape_at(r, plan_.pass_rows);
        const Block scratch(head_scratch_bytes(shape, HeadPass::kBackward));
        const Block gradient(head_gradient_bytes(shape));
        HeadPasses(shape, plan_.isa)
            .backward(data_of(first, parts[i], logits[i].data()), weights(r), gradient.data(),
                      plan_.fused ? &updates[i] : nullptr, scratch.data(), workers_);
      }
    }
    for (int64_t r = 0; r < plan_.shards && !plan_.fused; ++r) {
      const HeadShape shape = shape_at(r, batch.rows);
      const Block scratch(head_scratch_bytes(shape, HeadPass::kUpdate));
      const auto i = static_cast<size_t>(r);
      HeadPasses(shape, plan_.isa)
          .update(data_of(0, parts[i], nullptr), weights(r), updates[i], scratch.data(), workers_);
    }
    if (rows_ == kDense) {
      move_others(t, active);
    }
  }

  // For dense training: applies a gradient of zero to the classes that are not active in this step.
  void move_others(int64_t t, const std::set<int32_t>& active) {
    const std::vector<float> none(static_cast<size_t>(problem_.dim));
    for (int32_t c = 0; c < problem_.classes; ++c) {
      const int64_t at = c * problem_.dim;
      if (active.contains(c)) {
        continue;
      }
      update(plan_.isa, form_, update_scalars(form_, rate_of(t), 0, true, t), weight.data() + at, none.data(),
             {velocity.data() + at}, problem_.dim);
      if (!bias.empty()) {
        update(plan_.isa, form_, update_scalars(form_, rate_of(t), 0, false, t), bias.data() + c, none.data(),
               {bias_velocity.data() + c}, 1);
      }
    }
    prepare();
  }

  const test::HeadProblem& problem_;
  StepPlan plan_;
  Rows rows_;
  OptimizerForm form_;
  ThreadWorkers workers_;

 public:
  std::vector<float> weight;
  std::vector<float> velocity;
  std::vector<float> bias;
  std::vector<float> bias_velocity;
  std::vector<float> prepared;
  std::vector<int32_t> last;
  std::vector<float> losses;

 private:
  IdleSteps steps_;
};

test::HeadProblem problem_of(bool cosine, bool bf16) {
  MarginForm form{.scale = cosine ? 16.0 : 1.0, .m2 = cosine ? 0.3 : 0.0, .m3 = cosine ? 0.1 : 0.0};
  form.filter = cosine ? 0.4 : 1;
  return make_problem({.classes = 900,
                       .dim = 40,
                       .rows = 24,
                       .bf16 = bf16,
                       .cosine = cosine,
                       .bias = !cosine,
                       .margin = form,
                       .seed = 71});
}

StepPlan plan_of(int64_t shards, int64_t pass_rows, bool fused) {
  return {.shards = shards,
          .pass_rows = pass_rows,
          .norm_rows = 12,
          .workers = static_cast<int>(shards),
          .isa = detect_isa(),
          .fused = fused,
          .kept_blocks = shards - 1,
          .active = 48};
}

TEST(CatchUp, TrainingSomeClassesGivesTheResultOfTrainingAll) {
  constexpr int64_t kSteps = 120;
  for (const bool cosine : {false, true}) {
    for (const bool nesterov : {false, true}) {
      SCOPED_TRACE("cosine " + std::to_string(cosine) + " nesterov " + std::to_string(nesterov));
      const test::HeadProblem problem = problem_of(cosine, false);
      Training dense(problem, plan_of(1, 24, true), Training::kDense, nesterov);
      Training exact(problem, plan_of(1, 24, true), Training::kExact, nesterov);
      dense.run(0, kSteps);
      exact.run(0, kSteps);
      EXPECT_GT(distance(exact.weight, dense.weight), 1e-5) << "rows that were left alone differ until they catch up";
      const auto [weight, velocity] = exact.now();
      EXPECT_LE(distance(weight, dense.weight), 1e-6);
      EXPECT_LE(distance(velocity, dense.velocity), 1e-6);
      EXPECT_LE(distance(exact.losses, dense.losses), 1e-6);
      EXPECT_LE(distance(exact.evaluate(7), dense.evaluate(7)), 1e-6);
    }
  }
}

// A tile of rows in a narrow format is caught up in f32 and rounded when it is stored.
TEST(CatchUp, NarrowRowsCatchUpInF32) {
  constexpr int64_t kRows = 24;
  constexpr int64_t kDim = 40;
  constexpr int64_t kNow = 12;
  for (const RowFormat format : {RowFormat::kBf16, RowFormat::kFp8}) {
    SCOPED_TRACE(std::string(name_of(format)));
    const HeadShape shape{.blocks = {kRows, kRows},
                          .dim = kDim,
                          .shard = {0, kRows},
                          .form = {.cosine = true},
                          .untouched = Untouched::kExact,
                          .weights = format};
    IdleSteps steps(kMomentum, false);
    steps.advance(kNow, rate_of);
    const RandomStream stream(5, 5);
    const Bytes row_bytes = kDim * element_bytes(format);
    std::vector<std::byte> stored(static_cast<size_t>(kRows * row_bytes));
    std::vector<float> scales(kRows);
    std::vector<float> values(kRows * kDim);
    std::vector<float> velocity(values.size());
    std::vector<float> prepared(kRows, -1);
    std::vector<int32_t> last(kRows);
    stream.fill_normal(0, values);
    stream.fill_normal(values.size(), velocity);
    for (int64_t row = 0; row < kRows; ++row) {
      last[static_cast<size_t>(row)] = static_cast<int32_t>(row % kNow) - 1;
      float* const of = values.data() + row * kDim;
      scales[static_cast<size_t>(row)] = store_nearest(format, of, kDim, stored.data() + row * row_bytes);
      load_row(format, stored.data() + row * row_bytes, scales[static_cast<size_t>(row)], kDim, of);
    }
    const HeadWeights weights{.weight = stored.data(),
                              .scales = format == RowFormat::kFp8 ? scales.data() : nullptr,
                              .prepared = prepared.data(),
                              .catch_up = {.steps = &steps, .last = last.data(), .velocity = velocity.data()}};
    HeadUpdate update{.step = kNow};
    update.form.states = 1;
    update.weight_states[0] = reinterpret_cast<std::byte*>(velocity.data());
    std::vector<float> rows(values.size());
    std::vector<float> states(2 * values.size());
    std::vector<float> vectors(4 * kRows);
    const HeadSlice slice{.class_rows = rows.data(), .class_states = states.data(), .class_vectors = vectors.data()};
    const ClassRows class_rows(shape, head_kernels(detect_isa(), false), weights, &update, nullptr);
    ClassTile tile = class_rows.open({0, kRows}, slice);
    class_rows.open_states(tile, slice);
    for (int64_t row = 0; row < kRows; ++row) {
      const int32_t since = last[static_cast<size_t>(row)];
      const double shift = steps.missed(since) ? steps.shift(since) : 0;
      const double decay = steps.missed(since) ? steps.decay(since) : 1;
      double square = 0;
      for (int64_t i = 0; i < kDim; ++i) {
        const auto at = static_cast<size_t>(row * kDim + i);
        const double want = values[at] - shift * velocity[at];
        EXPECT_NEAR(tile.weight[at], want, 1e-6 * (1 + std::abs(want)));
        EXPECT_NEAR(tile.weight_states[0][at], decay * velocity[at], 1e-6 * std::abs(velocity[at]));
        square += want * want;
      }
      if (steps.missed(since)) {
        EXPECT_NEAR(tile.inverse[row], 1 / std::sqrt(square), 1e-5 / std::sqrt(square));
      } else {
        EXPECT_EQ(tile.inverse[row], -1) << "the row has not changed";
      }
    }
    const std::vector<float> opened(tile.weight, tile.weight + kRows * kDim);
    class_rows.close(tile);
    EXPECT_EQ(last, std::vector<int32_t>(kRows, kNow));
    std::vector<float> now(kDim);
    for (int64_t row = 0; row < kRows; ++row) {
      load_row(format, stored.data() + row * row_bytes, scales[static_cast<size_t>(row)], kDim, now.data());
      for (int64_t i = 0; i < kDim; ++i) {
        const float want = opened[static_cast<size_t>(row * kDim + i)];
        const double step = format == RowFormat::kBf16 ? 0x1p-7 : 0x1p-3;
        EXPECT_NEAR(now[static_cast<size_t>(i)], want, step * std::abs(want) + 0.02 * step);
      }
    }
  }
}

TEST(CatchUp, BitsDoNotDependOnShardsPassesRestartsOrReaders) {
  constexpr int64_t kSteps = 60;
  for (const bool bf16 : {false, true}) {
    for (const bool cosine : {false, true}) {
      const test::HeadProblem problem = problem_of(cosine, bf16);
      Training one(problem, plan_of(1, 24, true), Training::kExact, cosine);
      one.run(0, kSteps);
      for (const int64_t shards : {1, 2, 3}) {
        for (const int64_t rows : {12, 24}) {
          SCOPED_TRACE("bf16 " + std::to_string(bf16) + " cosine " + std::to_string(cosine) + " shards " +
                       std::to_string(shards) + " rows " + std::to_string(rows));
          Training other(problem, plan_of(shards, rows, rows == 24 && shards > 1), Training::kExact, cosine);
          other.run(0, 31);
          other.evaluate(3);
          other.now();
          other.resume();
          other.run(31, kSteps);
          EXPECT_EQ(other.losses, one.losses);
          EXPECT_EQ(other.weight, one.weight);
          EXPECT_EQ(other.velocity, one.velocity);
          EXPECT_EQ(other.bias, one.bias);
          EXPECT_EQ(other.bias_velocity, one.bias_velocity);
          EXPECT_EQ(other.last, one.last);
          if (cosine) {
            EXPECT_EQ(other.prepared, one.prepared);
          }
          EXPECT_EQ(other.now(), one.now());
        }
      }
    }
  }
}

}  // namespace
}  // namespace xrun::ops
