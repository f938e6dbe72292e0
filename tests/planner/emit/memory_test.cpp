#include "planner/emit/memory.h"

#include <gtest/gtest.h>

#include "planner/verify/verify_program.h"
#include "tests/planner/decisions.h"

namespace xrun::planner::testing {
namespace {

// Returns whether no two ranges share bytes while both are alive.
bool is_legal(const std::vector<LiveRange>& ranges) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    for (size_t j = i + 1; j < ranges.size(); ++j) {
      const LiveRange& a = ranges[i];
      const LiveRange& b = ranges[j];
      if (a.first <= b.last && b.first <= a.last && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes) {
        return false;
      }
    }
  }
  return true;
}

TEST(Memory, RangesThatFollowOneAnotherShareBytes) {
  std::vector<LiveRange> ranges{{1000, 0, 1}, {1000, 2, 3}, {1000, 1, 2}};
  const Packing packing = pack(ranges);
  EXPECT_EQ(packing.bytes, 2 * 1024);
  EXPECT_EQ(packing.live_max, 2 * 1024);
  EXPECT_EQ(ranges[0].offset, ranges[1].offset);
}

TEST(Memory, AnEmptyPlanTakesNoBytes) {
  std::vector<LiveRange> none;
  EXPECT_EQ(pack(none).bytes, 0);
  std::vector<LiveRange> empty{{0, 0, 5}, {0, 0, 5}};
  EXPECT_EQ(pack(empty).bytes, 0);
}

TEST(Memory, RandomRangesNeverOverlapAndComeNearTheBound) {
  double worst = 1;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<LiveRange> ranges(1 + random() % 120);
    for (LiveRange& range : ranges) {
      range.bytes = static_cast<Bytes>(random() % 10'000);
      range.first = static_cast<int32_t>(random() % 100);
      range.last = range.first + static_cast<int32_t>(random() % (random() % 4 == 0 ? 60 : 6));
    }
    const Packing packing = pack(ranges);
    ASSERT_TRUE(is_legal(ranges)) << "seed " << seed;
    ASSERT_EQ(packing.live_max, live_max(ranges)) << "seed " << seed;
    ASSERT_GE(packing.bytes, packing.live_max) << "seed " << seed;
    for (const LiveRange& range : ranges) {
      ASSERT_EQ(range.offset % kAlignment, 0);
      ASSERT_LE(range.offset + range.bytes, packing.bytes);
    }
    worst =
        std::max(worst, static_cast<double>(packing.bytes) / static_cast<double>(std::max<Bytes>(packing.live_max, 1)));
  }
  EXPECT_LT(worst, 1.12) << "random ranges are harder than those of programs";
}

TEST(Memory, ArenasAreWithinTwoPercentOfTheLiveBytes) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    ModelOptions options = random_model(random);
    options.width = 256;
    const Module module = prepare_training(make_module(options));
    const Layout layout = random_layout(random, module.train.batch / module.train.norm_rows);
    const auto program = emit_layout(module, layout);
    ASSERT_TRUE(program.ok()) << "seed " << seed;
    for (const Arena& arena : program->arenas) {
      ASSERT_LE(static_cast<double>(arena.bytes), 1.02 * static_cast<double>(arena.live_max))
          << "seed " << seed << ": " << to_text(layout) << ", device " << arena.device;
    }
  }
}

// Sets that differ only in the numbers of their times, as those of devices with equal work do, get one packing.
TEST(Memory, KnownPackingsAreEqualToNewOnes) {
  Packings packings;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<LiveRange> ranges(1 + random() % 60);
    for (LiveRange& range : ranges) {
      range.bytes = static_cast<Bytes>(random() % 10'000);
      range.first = static_cast<int32_t>(random() % 100);
      range.last = range.first + static_cast<int32_t>(random() % 30);
    }
    for (int32_t device = 0; device < 3; ++device) {
      std::vector<LiveRange> shifted = ranges;
      for (LiveRange& range : shifted) {
        range.first += 7 * device;
        range.last += 7 * device;
      }
      std::vector<LiveRange> alone = shifted;
      const Packing packing = packings.pack(shifted);
      const Packing wanted = pack(alone);
      ASSERT_EQ(packing.bytes, wanted.bytes) << "seed " << seed;
      ASSERT_EQ(packing.live_max, wanted.live_max) << "seed " << seed;
      for (size_t i = 0; i < ranges.size(); ++i) {
        ASSERT_EQ(shifted[i].offset, alone[i].offset) << "seed " << seed << ", range " << i;
      }
    }
    ASSERT_EQ(packings.size(), seed);
  }
}

// The number of searches for a packing does not grow with the number of replicas. The first and the last device of a
// head have work of their own, and so does the host.
TEST(Memory, DevicesWithEqualWorkArePackedOnce) {
  Module module = make_module({.layers = 8, .classes = 900, .head = true, .batch = 256, .norm_rows = 8});
  module.train.compress = {.density = 0.01};
  module = prepare_training(std::move(module));
  for (const int replicas : {8, 16, 32}) {
    const Layout layout{.replicas = replicas, .micro_batches = 32, .shards = 8, .devices = replicas, .nodes = 4};
    const auto program = emit_layout(module, layout);
    ASSERT_TRUE(program.ok()) << program.error().message;
    Program again = *program;
    EXPECT_LE(place_buffers(again), 12U) << replicas << " replicas";
    for (size_t i = 0; i < again.buffers.size(); ++i) {
      ASSERT_EQ(again.buffers[i].offset, program->buffers[i].offset);
    }
  }
}

TEST(Memory, SlicesOfWorkersHoldLocalsAndTheLargestScratch) {
  const Module module = prepare_training(make_module({.layers = 2, .norm = false}));
  KernelFacts facts = make_facts(module);
  facts.nodes[1].scratch = 5000;
  const Graph& graph = module.graph;
  std::vector<NodeId> nodes;
  std::vector<ValueId> locals;
  for (int i = 0; i < 4; ++i) {
    nodes.push_back(NodeId(i));
    locals.push_back(graph.nodes[static_cast<size_t>(i)].outputs[0]);
  }
  const BlockLayout layout = layout_block(graph, facts, nodes, locals, 8, 8);
  // In a chain, only two neighbouring values are alive at a time, each with 8 rows of 64 f32.
  EXPECT_EQ(layout.kernel_offset, 2 * 8 * 64 * 4);
  EXPECT_EQ(layout.bytes, layout.kernel_offset + 5056);
  // A call of a GPU on four row blocks, of which three add to the scratch.
  facts.nodes[1].block_scratch = 100;
  const BlockLayout calls = layout_block(graph, facts, nodes, locals, 32, 8);
  EXPECT_EQ(calls.kernel_offset, 4 * layout.kernel_offset);
  EXPECT_EQ(calls.bytes, calls.kernel_offset + 5312);
}

TEST(Memory, PartialsOfADeterministicRunAreCounted) {
  const Module module = prepare_training(make_module({.layers = 1, .norm = false}));
  const auto plain = emit_layout(module, {});
  const auto partials = emit_layout(module, {.deterministic = true});
  ASSERT_TRUE(plain.ok() && partials.ok());
  Bytes one = 0;
  for (const Buffer& buffer : plain->buffers) {
    one += buffer.purpose == Purpose::kGradient ? buffer.bytes : 0;
  }
  Bytes four = 0;
  for (const Buffer& buffer : partials->buffers) {
    four += buffer.purpose == Purpose::kGradient ? buffer.bytes : 0;
  }
  EXPECT_EQ(four, 4 * one);
}

// Returns whether a buffer stays in memory from step to step because the model needs it: class rows, their optimizer
// states, and the step that last updated each row.
bool is_weight_or_state(Purpose purpose) {
  switch (purpose) {
    case Purpose::kWeight:
    case Purpose::kOptimizer:
    case Purpose::kHeadWeight:
    case Purpose::kHeadScale:
    case Purpose::kHeadOptimizer:
    case Purpose::kHeadLast:
      return true;
    default:
      return false;
  }
}

// The bound is explained in docs/internals/memory.md, "A million classes". Row blocks have 32 rows, because products in
// bf16 pad smaller blocks to that size. The graph of nearest classes is in the host arena and is not counted.
TEST(Memory, HeadsOfAMillionClassesNeedAtMost64MiBBeyondWeightsAndState) {
  const std::vector<ActiveSpec> modes{
      {.kind = ActiveSpec::kAll},
      {.kind = ActiveSpec::kSample, .amount = 0.1},
      {.kind = ActiveSpec::kSample, .amount = 0.01, .log_q = true},
      {.kind = ActiveSpec::kKnn, .amount = 0.1, .neighbours = 32, .rebuild = {1000, TrainSpan::kSteps}},
      {.kind = ActiveSpec::kKnn, .amount = 0.01, .neighbours = 32, .rebuild = {1000, TrainSpan::kSteps}}};
  Bytes most = 0;
  for (const ActiveSpec& mode : modes) {
    for (const RowFormat format : {RowFormat::kF32, RowFormat::kBf16, RowFormat::kFp8}) {
      for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16}) {
        ModelOptions options{
            .layers = 1, .input = 512, .width = 512, .classes = 1'000'000, .head = true, .head_cosine = true};
        options.precision = precision;
        options.batch = 256;
        options.norm_rows = 32;
        options.weights = format;
        Module module = make_module(options);
        module.train.active_classes = mode;
        module = prepare_training(std::move(module));
        for (const int threads : {1, 2, 16}) {
          for (const int devices : {1, 2}) {
            const auto program = emit_layout(module, {.shards = devices, .devices = devices}, true, threads);
            ASSERT_TRUE(program.ok()) << program.error().message;
            Bytes beyond = 0;
            for (const Arena& arena : program->arenas) {
              beyond += arena.device == kHost ? 0 : arena.bytes;
            }
            for (const Buffer& buffer : program->buffers) {
              beyond -= buffer.device != kHost && is_weight_or_state(buffer.purpose) ? buffer.bytes : 0;
            }
            most = std::max(most, beyond);
            EXPECT_LE(beyond, 64 * kMiB) << "mode " << mode.kind << ", active " << mode.amount << ", " << threads
                                         << " threads, " << devices << " devices";
          }
        }
      }
    }
  }
  RecordProperty("most_mib", std::to_string(most / kMiB));
}

}  // namespace
}  // namespace xrun::planner::testing
