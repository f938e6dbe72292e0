// Runs one training step of a head with the kernels of ops/gpu/head/*.cu on the PTX machine, like run_step
// (tests/ops/head/head_runner.h) does on the processor: with the same random numbers, learning rate and states.
#pragma once

#include "tests/ops/gpu/kernel_runner.h"
#include "tests/ops/head/head_check.h"

namespace xrun::ops::gpu {

// A plan of the processor, and how a GPU groups its launches.
struct GpuStep {
  StepPlan plan;
  int64_t launch_blocks = 1;  // class blocks of a launch
  int64_t update_rows = 0;    // rows of each addition to dW; 0: all
  bool by_levels = false;     // whether each level of the tree over class blocks is one launch
  Target target = kTargets[1];
  ptx::Order order = ptx::Order::kFair;
};

class HeadOnGpu {
 public:
  HeadOnGpu(const test::HeadProblem& problem, const GpuStep& step)
      : at_(step.target, step.order),
        problem_(problem),
        step_(step),
        whole_(shape_of(problem, step.plan, 0, problem.rows)),
        dims_(head_layout(whole_).dim_padded),
        weight_(rows_of(step.plan.weights, "weight", problem.weight)),
        state_(rows_of(step.plan.states, "state", std::vector<float>(problem.weight.size(), kFirstState))),
        second_(rows_of(step.plan.states, "second state", std::vector<float>(problem.weight.size(), kSecondState))),
        bias_(problem.form.bias ? at_.add("bias", problem.bias) : 0),
        softmax_(at_.empty<float>("softmax", static_cast<size_t>(2 * problem.rows))),
        features_(step.plan.narrow_features ? at_.add("features", rounded(problem.features))
                                            : at_.add("features", problem.features)),
        labels_(at_.add("labels", problem.labels)),
        factors_(problem.factors.empty() ? 0 : at_.add("factors", problem.factors)) {
    for (uint64_t& state : bias_states_) {
      state = at_.add("bias state", std::vector<float>(problem.bias.size() + 1, kBiasState));
    }
    prepared_ = problem.form.cosine ? at_.empty<float>("inverses", static_cast<size_t>(problem.classes)) : 0;
    if (problem.form.cosine) {
      rows("head_norms_" + weight_type(), problem.classes, weight_, prepared_, problem.classes, problem.dim);
    }
  }

  StepResult run() {
    for (int64_t first = 0; first < problem_.rows; first += step_.plan.pass_rows) {
      const Rows pass = place_rows(first, step_.plan.pass_rows);
      forward(pass);
      backward(pass);
    }
    update();
    const auto numbers = static_cast<size_t>(problem_.classes * problem_.dim);
    result_.weight = read_rows(step_.plan.weights, weight_, numbers);
    result_.state = read_rows(step_.plan.states, state_, numbers);
    result_.second_state = read_rows(step_.plan.states, second_, numbers);
    if (problem_.form.bias) {
      result_.bias = at_.read<float>(bias_, problem_.bias.size());
    }
    if (problem_.form.cosine) {
      result_.prepared = at_.read<float>(prepared_, static_cast<size_t>(problem_.classes));
    }
    return result_;
  }

 private:
  // Rows of the batch with their places and the planes of their values.
  struct Rows {
    int64_t first = 0;
    int64_t count = 0;
    int64_t padded = 0;  // places of a row block
    int64_t places = 0;
    uint64_t operand = 0, inverses = 0, labels = 0, targets = 0, psi = 0, slope = 0;
    uint64_t maxima = 0, factors = 0, smooths = 0, target_gradient = 0, steep = 0;
  };
  // Logits of some classes, and these classes as operand.
  struct Logits {
    uint64_t z = 0;
    uint64_t classes = 0;
  };
  // Two class blocks whose partial results are added, and the level of their sum in the tree.
  struct Merge {
    int64_t left, right;
    int level;
  };

  bool bf16() const { return problem_.bf16; }
  std::string operand_type() const { return bf16() ? "bf16" : "f32"; }
  std::string weight_type() const { return step_.plan.weights == RowFormat::kBf16 ? "bf16" : "f32"; }
  std::string state_type() const { return step_.plan.states == RowFormat::kBf16 ? "bf16" : "f32"; }
  std::string feature_type() const { return step_.plan.narrow_features ? "bf16" : "f32"; }
  bool steep() const { return problem_.form.cosine && problem_.margin.angular(); }
  int64_t size() const { return whole_.blocks.size; }
  static uint64_t bytes(int64_t count, int64_t each) { return static_cast<uint64_t>(count * each); }
  uint64_t weight_at(int64_t c) const { return weight_ + bytes(c * problem_.dim, element_bytes(step_.plan.weights)); }
  uint64_t prepared_at(int64_t c) const { return prepared_ == 0 ? 0 : prepared_ + bytes(c, 4); }
  uint64_t features_of(const Rows& of) const {
    return features_ + bytes(of.first * problem_.dim, step_.plan.narrow_features ? 2 : 4);
  }
  uint64_t factors_of(const Rows& of) const { return factors_ == 0 ? 0 : factors_ + bytes(of.first, 4); }

  uint64_t rows_of(RowFormat format, const char* name, const std::vector<float>& values) {
    if (format == RowFormat::kF32) {
      return at_.add(name, values);
    }
    NarrowRows narrow(format, values, problem_.dim);
    std::vector<uint16_t> numbers(values.size());
    std::memcpy(numbers.data(), narrow.bytes.data(), narrow.bytes.size());
    return at_.add(name, numbers);
  }
  std::vector<float> read_rows(RowFormat format, uint64_t address, size_t count) {
    if (format == RowFormat::kF32) {
      return at_.read<float>(address, count);
    }
    std::vector<float> values;
    for (const uint16_t bits : at_.read<uint16_t>(address, count)) {
      values.push_back(to_float(Bf16{bits}));
    }
    return values;
  }

  // Launch a kernel with one thread for each of `count` elements, or with one warp for each of `count` rows.
  template <class... Arguments>
  void each(const std::string& kernel, int64_t count, const Arguments&... arguments) {
    at_.run_each(module_with(kernel), kernel, count, arguments...);
  }
  template <class... Arguments>
  void rows(const std::string& kernel, int64_t count, const Arguments&... arguments) {
    each(kernel, 32 * count, arguments...);
  }
  static std::string module_with(const std::string& kernel) {
    for (const char* name : {"head_rows", "head_stats", "head_gradient", "update"}) {
      if (module_of(90, name).find(kernel) != nullptr) {
        return name;
      }
    }
    return kernel.ends_with("_bf16") ? "head_product_bf16" : "head_product_f32";
  }
  template <class... Arguments>
  void product(const std::string& name, int64_t tiles, const Arguments&... arguments) {
    const std::string kernel = "product_head_" + name + "_" + operand_type();
    at_.run(module_with(kernel), kernel, {static_cast<uint32_t>(tiles), 1, 1}, {bf16() ? 128U : 256U, 1, 1},
            arguments...);
  }
  static int64_t tiles_of(int64_t n) { return (n + 63) / 64; }

  Rows place_rows(int64_t first, int64_t count) {
    HeadShape shape = whole_;
    shape.rows = count;
    const HeadLayout layout = head_layout(shape);
    Rows of{.first = first, .count = count, .padded = layout.row_block_padded, .places = layout.rows_padded};
    const auto places = static_cast<size_t>(of.places);
    const auto numbers = places * static_cast<size_t>(dims_);
    of.operand = bf16() ? at_.empty<uint16_t>("rows", numbers) : at_.empty<float>("rows", numbers);
    of.inverses = problem_.form.cosine ? at_.empty<double>("inverses of rows", places) : 0;
    of.labels = at_.empty<int32_t>("labels of places", places);
    for (uint64_t* plane : {&of.targets, &of.maxima, &of.factors, &of.smooths, &of.target_gradient, &of.steep}) {
      *plane = at_.empty<float>("values of rows", places);
    }
    of.psi = at_.empty<double>("psi", places);
    of.slope = at_.empty<double>("slope", places);
    rows("head_rows_" + feature_type() + "_" + operand_type(), of.places, features_of(of), labels_ + bytes(first, 4),
         of.operand, of.inverses, of.labels, count, whole_.norm_rows, of.padded, of.places, problem_.dim, dims_,
         problem_.classes);
    return of;
  }

  // `targets`: the targets' logits of the places.
  void margins(const Rows& of, uint64_t targets, ClassRange range) {
    const MarginForm& form = problem_.margin;
    each("head_margin", of.places, targets, of.labels, of.psi, of.slope, range.size(), of.places, range.begin, form.m1,
         form.m2, form.m3, static_cast<uint32_t>(form.grad), form.easy ? 1U : 0U);
  }

  Logits logits(const Rows& of, ClassRange range) {
    const int64_t count = range.size();
    const auto numbers = static_cast<size_t>(count * dims_);
    const Logits made{at_.empty<float>("z", static_cast<size_t>(count * of.places)),
                      bf16() ? at_.empty<uint16_t>("classes", numbers) : at_.empty<float>("classes", numbers)};
    rows("head_classes_" + weight_type() + "_" + operand_type(), count, weight_at(range.begin),
         prepared_at(range.begin), made.classes, count, problem_.dim, dims_);
    product("logits", tiles_of(count) * tiles_of(of.places), made.classes, of.operand,
            bias_ == 0 ? uint64_t{0} : bias_ + bytes(range.begin, 4), made.z, count, of.places, dims_,
            problem_.form.cosine ? 1U : 0U);
    each("head_targets", of.places, made.z, of.labels, of.targets, count, of.places, range.begin);
    margins(of, of.targets, range);
    return made;
  }

  float filter() const { return problem_.margin.filter < 1 ? static_cast<float>(problem_.margin.filter) : INFINITY; }

  // Replaces logits by gradients and returns these.
  uint64_t gradients(const Rows& of, ClassRange range, uint64_t z, uint64_t lanes) {
    const int64_t count = range.size();
    const MarginForm& form = problem_.margin;
    each("head_row_values", of.places, softmax_ + bytes(of.first, 8), factors_of(of), of.labels, of.psi, of.slope,
         of.maxima, of.factors, of.smooths, of.target_gradient, of.steep, of.count, whole_.norm_rows, of.padded,
         of.places, range.begin, count, problem_.classes, form.scale, form.smoothing, problem_.row_weight);
    const auto scale = static_cast<float>(form.scale);
    if (!bf16()) {
      each("head_gradient_f32", 16 * count, z, of.labels, of.maxima, of.factors, of.smooths, of.target_gradient, lanes,
           count, of.padded, of.places, range.begin, scale, filter());
      return z;
    }
    const uint64_t g = at_.empty<uint16_t>("g", static_cast<size_t>(count * of.places));
    each("head_gradient_bf16", 16 * count, z, g, of.labels, of.maxima, of.factors, of.smooths, of.target_gradient,
         lanes, count, of.padded, of.places, range.begin, scale, filter());
    return g;
  }

  // Calls body(first block, classes) for the launches of all shards.
  template <class Body>
  void for_launches(const Body& body) const {
    for (int64_t shard = 0; shard < step_.plan.shards; ++shard) {
      const BlockRange blocks = whole_.blocks.of_shard(shard, step_.plan.shards);
      for (int64_t block = blocks.begin; block < blocks.end; block += step_.launch_blocks) {
        const int64_t end = std::min(blocks.end, block + step_.launch_blocks);
        body(block, ClassRange{block * size(), std::min(problem_.classes, end * size())});
      }
    }
  }

  // Lists the merges of a range of blocks in the tree, down to the ranges in `pieces`, and returns the level.
  int list_merges(BlockRange range, const std::vector<BlockRange>& pieces, std::vector<Merge>& merges) const {
    if (range.size() == 1 || std::ranges::count(pieces, range) > 0) {
      return 0;
    }
    int64_t half = 1;
    while (2 * half < range.size()) {
      half *= 2;
    }
    const int left = list_merges({range.begin, range.begin + half}, pieces, merges);
    const int right = list_merges({range.begin + half, range.end}, pieces, merges);
    merges.push_back({range.begin, range.begin + half, 1 + std::max(left, right)});
    return merges.back().level;
  }
  // Calls launch(steps, groups, length) so that the partial results of all blocks become one: first the subtrees of
  // each shard, then the results of the shards.
  template <class Launch>
  void merge(int64_t slot, const Launch& launch) {
    std::vector<BlockRange> subtrees;
    const auto run = [&](const std::vector<Merge>& merges) {
      const int levels = merges.empty() ? 0 : step_.by_levels ? std::ranges::max(merges, {}, &Merge::level).level : 1;
      for (int level = 1; level <= levels; ++level) {
        std::vector<int64_t> steps;
        for (const Merge& one : merges) {
          if (!step_.by_levels || one.level == level) {
            steps.insert(steps.end(), {one.left * slot, one.right * slot});
          }
        }
        const auto count = static_cast<int64_t>(steps.size() / 2);
        steps.insert(steps.end(), {-1, -1});  // ends a group early
        launch(at_.add("steps", steps), step_.by_levels ? count : 1, step_.by_levels ? 1 : count + 1);
      }
    };
    for (int64_t shard = 0; shard < step_.plan.shards; ++shard) {
      for (const BlockRange& subtree : whole_.blocks.subtrees(whole_.blocks.of_shard(shard, step_.plan.shards))) {
        std::vector<Merge> merges;
        list_merges(subtree, {}, merges);
        run(merges);
        subtrees.push_back(subtree);
      }
    }
    std::vector<Merge> merges;
    list_merges({0, whole_.blocks.count()}, subtrees, merges);
    run(merges);
  }

  void forward(const Rows& of) {
    const int64_t slot = head_layout(whole_).stat_planes * of.places;
    const uint64_t stats = at_.empty<float>("stats", static_cast<size_t>(slot * whole_.blocks.count()));
    const auto scale = static_cast<float>(problem_.margin.scale);
    for_launches([&](int64_t block, ClassRange range) {
      const int64_t count = range.size();
      const Logits made = logits(of, range);
      const uint64_t out = stats + bytes(block * slot, 4);
      const std::array<uint32_t, 3> grid{blocks_for(count, size()) * static_cast<uint32_t>(of.places / 32), 1, 1};
      at_.run("head_stats", "head_stats", grid, {32, 8, 1}, made.z, of.labels, of.targets, of.psi, out, slot, count,
              size(), of.places, range.begin, scale, filter(), problem_.margin.smoothing > 0 ? 1U : 0U);
      at_.run("head_stats", "head_best", grid, {32, 8, 1}, made.z, out, slot, count, size(), of.places, range.begin,
              kTop);
    });
    merge(slot, [&](uint64_t steps, int64_t groups, int64_t length) {
      each("head_merge_stats", groups * of.places, stats, steps, groups, length, of.places, kTop);
    });
    const auto count = static_cast<size_t>(of.count);
    const uint64_t loss = at_.empty<float>("loss", count), hit = at_.empty<float>("hit", count);
    margins(of, stats + bytes(3 * of.places, 4), {0, problem_.classes});
    each("head_loss", of.count, stats, of.psi, of.labels, factors_of(of), softmax_ + bytes(of.first, 8), loss, of.count,
         whole_.norm_rows, of.padded, of.places, problem_.classes, problem_.margin.scale, problem_.margin.smoothing);
    append(result_.loss, at_.read<float>(loss, count));
    for (const int64_t k : {int64_t{1}, kTop}) {
      each("head_hits", of.count, stats, of.labels, hit, k, of.count, whole_.norm_rows, of.padded, of.places, kTop);
      append(k == 1 ? result_.hit1 : result_.hit5, at_.read<float>(hit, count));
    }
    const uint64_t best = at_.empty<int32_t>("best", count * kTop), scores = at_.empty<float>("scores", count * kTop);
    each("head_top", of.count, stats, best, scores, kTop, of.count, whole_.norm_rows, of.padded, of.places, kTop);
    append(result_.best, at_.read<int32_t>(best, count * kTop));
    append(result_.scores, at_.read<float>(scores, count * kTop));
    const auto targets = at_.read<float>(stats + bytes(3 * of.places, 4), static_cast<size_t>(of.places));
    for (int64_t row = 0; row < of.count; ++row) {
      const int64_t place = row / whole_.norm_rows * of.padded + row % whole_.norm_rows;
      result_.target.push_back(targets[static_cast<size_t>(place)]);
    }
  }

  void backward(const Rows& of) {
    const int64_t slot = of.places * dims_;
    const uint64_t dx = at_.empty<float>("dx", static_cast<size_t>(slot * whole_.blocks.count()));
    for_launches([&](int64_t block, ClassRange range) {
      const int64_t count = range.size();
      const Logits made = logits(of, range);
      const uint64_t g = gradients(of, range, made.z, 0), out = dx + bytes(block * slot, 4);
      product("dx", blocks_for(count, size()) * tiles_of(of.places) * tiles_of(dims_), g, made.classes, out, count,
              size(), of.places, dims_, slot);
      if (steep()) {
        rows("head_steep_dx_" + feature_type() + "_" + weight_type(), of.places, features_of(of),
             weight_at(range.begin), prepared_at(range.begin), of.inverses, of.labels, of.targets, of.steep, out, slot,
             range.begin, count, size(), of.count, whole_.norm_rows, of.padded, of.places, problem_.dim, dims_,
             bf16() ? 1U : 0U);
      }
    });
    merge(slot, [&](uint64_t steps, int64_t groups, int64_t length) {
      each("head_merge_dx", groups * slot, dx, steps, groups, length, slot);
    });
    const auto numbers = static_cast<size_t>(of.count * problem_.dim);
    const uint64_t out = at_.empty<float>("gradient of features", numbers);
    rows("head_reduce_dx_" + feature_type(), of.count, dx, features_of(of), of.inverses, out, of.count,
         whole_.norm_rows, of.padded, problem_.dim, dims_, 1.0F);
    append(result_.dx, at_.read<float>(out, numbers));
  }

  void update() {
    const int64_t all = step_.update_rows == 0 ? problem_.rows : step_.update_rows;
    std::vector<Rows> parts;
    for (int64_t first = 0; first < problem_.rows; first += all) {
      parts.push_back(place_rows(first, all));
    }
    for_launches([&](int64_t, ClassRange range) {
      const int64_t count = range.size();
      const auto classes = static_cast<size_t>(count);
      const uint64_t dw = at_.empty<float>("dw", classes * static_cast<size_t>(dims_));
      const uint64_t lanes = bias_ == 0 ? 0 : at_.add("lanes", std::vector<float>(classes * 16));
      for (const Rows& of : parts) {
        const Logits made = logits(of, range);
        const uint64_t g = gradients(of, range, made.z, lanes);
        product("dw", tiles_of(count) * tiles_of(dims_), g, of.operand, dw, count, of.places,
                bf16() ? of.places : of.count, dims_, &of == &parts.front() ? 0U : 1U);
      }
      for (const Rows& of : parts) {
        if (steep()) {
          rows("head_steep_dw_" + feature_type() + "_" + weight_type(), of.places, features_of(of),
               weight_at(range.begin), of.inverses, of.labels, of.targets, of.steep, dw, range.begin, count, of.count,
               whole_.norm_rows, of.padded, of.places, problem_.dim, dims_, bf16() ? 1U : 0U);
        }
      }
      finish(range, dw, lanes);
    });
  }

  // Updates classes with their complete gradients.
  void finish(ClassRange range, uint64_t dw, uint64_t lanes) {
    const int64_t count = range.size(), dim = problem_.dim;
    const auto classes = static_cast<size_t>(count);
    const OptimizerForm& form = step_.plan.form;
    const uint64_t squares = at_.empty<double>("squares", classes);
    rows("head_project_" + weight_type(), count, weight_at(range.begin), prepared_at(range.begin), dw, squares, count,
         dim, dims_);
    const auto blocks = static_cast<size_t>(blocks_for(count, size()));
    const uint64_t sums = at_.empty<double>("sums", blocks);
    rows("head_block_squares", static_cast<int64_t>(blocks), squares, sums, count, size());
    for (const double sum : at_.read<double>(sums, blocks)) {
      result_.squares += sum;
    }
    const auto padded = at_.read<float>(dw, classes * static_cast<size_t>(dims_));
    for (int64_t c = 0; c < count; ++c) {
      const auto row = padded.begin() + c * dims_;
      result_.dw.insert(result_.dw.end(), row, row + dim);
    }
    const auto scalars_of = [&](bool decays) {
      return at_.add("scalars", std::vector<KnownScalars>{update_scalars(form, kStepRate, kStepDecay, decays, 0)});
    };
    const uint32_t rule = form.states == 2 ? 3 : form.states == 0 ? 0 : form.nesterov ? 2 : 1;
    const auto state_at = [&](uint64_t state, int count_of) {
      return form.states < count_of ? 0 : state + bytes(range.begin * dim, element_bytes(step_.plan.states));
    };
    rows("head_update_" + weight_type() + "_" + state_type(), count, rule, scalars_of(true), weight_at(range.begin), dw,
         state_at(state_, 1), state_at(second_, 2), uint64_t{0}, prepared_at(range.begin), count, dim, dims_,
         range.begin, uint64_t{5}, uint64_t{3}, 0.0F);
    if (bias_ == 0) {
      return;
    }
    const uint64_t gradient = at_.empty<float>("gradient of biases", classes);
    each("head_bias_gradient", count, lanes, gradient, count);
    append(result_.db, at_.read<float>(gradient, classes));
    const uint64_t at = bytes(range.begin, 4), bias = bias_ + at, scalars = scalars_of(false);
    if (rule == 0) {
      each("update_sgd", count, scalars, bias, gradient, count);
    } else if (rule == 3) {
      each("update_adamw", count, scalars, bias, gradient, bias_states_[0] + at, bias_states_[1] + at, count);
    } else {
      each(rule == 1 ? "update_momentum" : "update_nesterov", count, scalars, bias, gradient, bias_states_[0] + at,
           count);
    }
  }

  template <class T>
  static void append(std::vector<T>& to, const std::vector<T>& values) {
    to.insert(to.end(), values.begin(), values.end());
  }

  Machine at_;
  const test::HeadProblem& problem_;
  const GpuStep& step_;
  HeadShape whole_;
  int64_t dims_;
  uint64_t weight_, state_, second_, bias_, softmax_, features_, labels_, factors_, prepared_ = 0;
  uint64_t bias_states_[2] = {0, 0};
  StepResult result_;
};

inline StepResult run_on_gpu(const test::HeadProblem& problem, const GpuStep& step) {
  return HeadOnGpu(problem, step).run();
}

}  // namespace xrun::ops::gpu
