// Tests: tests/runtime/cli/commands/bench_test.cpp
#include "runtime/bench/head_places.h"

#include <algorithm>

#include "runtime/bench/roofline.h"

namespace xrun::runtime {
namespace {

constexpr int64_t kRowBlock = 64;  // rows of a row block if it divides the batch; otherwise the batch is one block

HeadShape shape_of(const HeadCase& one, int64_t shard) {
  const ClassBlocks blocks{one.classes, class_block(one.classes, one.active > 0 ? one.active : one.classes)};
  const ClassRange classes = blocks.rows_of_shard(shard, one.shards);
  return {.blocks = blocks,
          .dim = one.dim,
          .shard = classes,
          .rows = one.batch,
          .norm_rows = one.batch % kRowBlock == 0 ? kRowBlock : one.batch,
          .bf16 = one.bf16,
          .features = one.bf16 ? DType::kBF16 : DType::kF32,
          .form = one.form,
          .margin = one.margin,
          .row_weight = 1 / static_cast<double>(one.batch),
          .workers = one.threads,
          .active = one.active,
          .step_rows = one.batch,
          .neighbours = one.neighbours,
          .weights = one.weights,
          .states = one.momentum.value_or(RowFormat::kF32),
          .kept_blocks = static_cast<int64_t>(one.kept * static_cast<double>(blocks.of_rows(classes).size()))};
}

Bytes weight_bytes(const HeadCase& one) {
  const Bytes scales = one.weights == RowFormat::kFp8 ? one.classes * 4 : 0;
  return align_up(one.classes * one.dim * element_bytes(one.weights)) + align_up(scales);
}

Bytes state_bytes(const HeadCase& one) {
  return one.momentum ? align_up(one.classes * one.dim * element_bytes(*one.momentum)) : 0;
}

Bytes list_bytes(const HeadCase& one) { return align_up(one.classes * one.neighbours * 4); }

int64_t kept_classes(const HeadCase& one) {
  int64_t sum = 0;
  for (int64_t r = 0; r < one.shards; ++r) {
    sum += head_kept_classes(shape_of(one, r));
  }
  return sum;
}

// The share of the classes that are active in a step.
double part_of(const HeadCase& one) {
  return one.active > 0 ? static_cast<double>(one.active) / static_cast<double>(one.classes) : 1;
}

}  // namespace

HeadPlaces::HeadPlaces(const HeadCase& one) {
  const Bytes matrix = one.batch * one.dim;
  weights = take(one.classes * one.dim * element_bytes(one.weights));
  scales = take(one.weights == RowFormat::kFp8 ? one.classes * 4 : 0);
  states = take(state_bytes(one));
  lists = take(list_bytes(one));
  features = take(matrix * (one.bf16 ? 2 : 4));
  feature_gradient = take(matrix * 4);
  labels = take(one.batch * 4);
  losses = take(one.batch * 4);
  softmax = take(one.batch * kHeadSoftmaxRow);
  Bytes most = 0;
  for (int64_t r = 0; r < one.shards; ++r) {
    Shard shard{.shape = shape_of(one, r)};
    if (shard.shape.shard.size() > 0) {
      shard.prepared = take(head_prepared_bytes(shard.shape));
      shard.selection = take(one.active > 0 ? head_selection(shard.shape).total : 0);
      shard.logits = take(head_logits_bytes(shard.shape));
      shard.stats = take(head_stats_bytes(shard.shape));
      shard.gradient = take(head_gradient_bytes(shard.shape));
      most = std::max({most, head_scratch_bytes(shard.shape, HeadPass::kForward),
                       head_scratch_bytes(shard.shape, HeadPass::kBackward)});
    }
    shards.push_back(shard);
  }
  scratch = take(most);
}

Flops head_step_flops(const HeadCase& one) {
  const double unit = 2 * static_cast<double>(one.batch) * static_cast<double>(one.dim);
  const double active = part_of(one) * static_cast<double>(one.classes);
  return unit * (4 * active - std::min(active, static_cast<double>(kept_classes(one))));
}

double head_step_exponentials(const HeadCase& one) {
  return 2 * static_cast<double>(one.batch) * part_of(one) * static_cast<double>(one.classes);
}

Bytes head_step_traffic(const HeadCase& one) {
  const auto rows = static_cast<double>(3 * weight_bytes(one) + 2 * state_bytes(one));
  return static_cast<Bytes>(part_of(one) * rows) + 2 * 4 * one.batch * kept_classes(one);
}

HeadMemory head_memory(const HeadCase& one, Bytes last_cache) {
  const HeadPlaces places(one);
  Bytes logits = 0;
  for (const HeadPlaces::Shard& shard : places.shards) {
    logits += head_logits_bytes(shard.shape);
  }
  return {.weights = weight_bytes(one),
          .states = state_bytes(one),
          .lists = list_bytes(one),
          .logits = logits,
          .buffers = places.end - weight_bytes(one) - state_bytes(one) - list_bytes(one) - logits,
          .roofline = Roofline::memory_bytes(last_cache)};
}

}  // namespace xrun::runtime
