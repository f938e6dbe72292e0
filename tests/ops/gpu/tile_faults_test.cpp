// Faults that are planted in the kernels of convolutions and attention are found with their place.
#include "tests/ops/gpu/planted_faults.h"

namespace xrun::ops::gpu {
namespace {

// A convolution of 3 x 3 windows with 8 input and 10 output channels, on images of 5 x 4.
constexpr int32_t kImages = 2, kIn = 8, kHeight = 5, kWidth = 4, kOut = 10, kCells = 9;
constexpr size_t kX = kImages * kHeight * kWidth * kIn, kY = kImages * kHeight * kWidth * kOut;
constexpr size_t kWeights = kOut * kIn * kCells;

template <class... Rest>
void run_conv(Machine& at, const ptx::Module& module, const char* kernel, std::array<uint32_t, 3> blocks,
              uint32_t threads, uint64_t a, uint64_t b, const Rest&... rest) {
  at.run(module, kernel, blocks, {threads, 1, 1}, a, b, rest..., kImages, kIn, kHeight, kWidth, kOut, kHeight, kWidth,
         3, 3, 1, 1, 1, 1, 1, 1, 1, 1);
}

void conv_f32(Machine& at, const ptx::Module& module) {
  const uint64_t x = at.add("x", random_floats(kX, 1)), weight = at.add("weight", random_floats(kWeights, 2));
  const uint64_t bias = at.add("bias", random_floats(kOut, 3));
  run_conv(at, module, "conv_f32", {1, 1, 1}, 256, x, weight, bias, at.empty<float>("y", kY));
}

void conv_bf16(Machine& at, const ptx::Module& module) {
  const uint64_t x = at.add("x", rounded(random_floats(kX, 1)));
  const uint64_t weight = at.add("weight", rounded(random_floats(kWeights, 2)));
  const uint64_t bias = at.add("bias", random_floats(kOut, 3));
  run_conv(at, module, "conv_bf16", {1, 1, 1}, 128, x, weight, bias, at.empty<uint16_t>("y", kY));
}

void conv_dx_f32(Machine& at, const ptx::Module& module) {
  const uint64_t dy = at.add("dy", random_floats(kY, 1)), weight = at.add("weight", random_floats(kWeights, 2));
  run_conv(at, module, "conv_dx_f32", {1, 1, 1}, 256, dy, weight, at.empty<float>("dx", kX));
}

// Each image is a row block, whose 48 positions take two stages.
void conv_dw_bf16(Machine& at, const ptx::Module& module) {
  const uint64_t x = at.add("x", rounded(random_floats(kImages * 48 * kIn, 1)));
  const uint64_t dy = at.add("dy", rounded(random_floats(kImages * 48 * kOut, 2)));
  const uint64_t dw = at.add("dw", random_floats(kOut * kIn, 3));
  at.run(module, "conv_dw_bf16", {1, 1, 1}, {128, 1, 1}, x, dy, dw, kImages, kIn, 8, 6, kOut, 8, 6, 1, 1, 1, 1, 0, 0, 1,
         1, 1, 1, int64_t{0});
}

void depthwise_dw(Machine& at, const ptx::Module& module) {
  constexpr size_t kPixels = 20 * 3 * 3;
  const uint64_t x = at.add("x", random_floats(kPixels * 5, 1)), dy = at.add("dy", random_floats(kPixels * 5, 2));
  const uint64_t dw = at.add("dw", random_floats(5 * 9, 3));
  at.run(module, "depthwise_dw_f32", {9, 1, 1}, {32, 8, 1}, x, dy, dw, int64_t{20}, 5, 3, 3, 3, 3, 3, 3, 1, 1, 1, 1, 1,
         1, int64_t{20}, int64_t{0});
}

// Attention with a head of 8 numbers; the window is the whole sequence.
constexpr int32_t kHeads = 1, kNumbers = 8;

struct Sequence {
  int32_t t;
  size_t features() const { return static_cast<size_t>(t * kHeads * kNumbers); }
  size_t stats() const { return static_cast<size_t>(kHeads * 3) * tiles() * 64; }
  uint32_t tiles() const { return blocks_for(t, 64); }
};

template <class... Addresses>
void run_attention(Machine& at, const ptx::Module& module, const char* kernel, uint32_t threads, const Sequence& s,
                   const Addresses&... addresses) {
  at.run(module, kernel, {kHeads * s.tiles(), 1, 1}, {threads, 1, 1}, addresses..., kHeads, kNumbers, 1, s.t, 1, s.t, 0,
         0, 0);
}

void attention_f32(Machine& at, const ptx::Module& module) {
  constexpr Sequence s{20};
  const uint64_t qkv = at.add("qkv", random_floats(3 * s.features(), 1));
  run_attention(at, module, "attention_f32", 256, s, qkv, uint64_t{0}, at.empty<float>("o", s.features()));
}

void attention_bf16(Machine& at, const ptx::Module& module) {
  constexpr Sequence s{66};
  const uint64_t qkv = at.add("qkv", rounded(random_floats(3 * s.features(), 1)));
  run_attention(at, module, "attention_bf16", 128, s, qkv, uint64_t{0}, at.empty<uint16_t>("o", s.features()));
}

void attention_dq(Machine& at, const ptx::Module& module) {
  constexpr Sequence s{20};
  const uint64_t qkv = at.add("qkv", random_floats(3 * s.features(), 1));
  const uint64_t d_o = at.add("do", random_floats(s.features(), 2));
  run_attention(at, module, "attention_dq_f32", 256, s, qkv, d_o, uint64_t{0},
                at.empty<float>("dqkv", 3 * s.features()), at.empty<float>("stats", s.stats()));
}

void attention_dkv(Machine& at, const ptx::Module& module) {
  constexpr Sequence s{66};
  const uint64_t qkv = at.add("qkv", rounded(random_floats(3 * s.features(), 1)));
  const uint64_t d_o = at.add("do", rounded(random_floats(s.features(), 2)));
  run_attention(at, module, "attention_dkv_bf16", 128, s, qkv, d_o, uint64_t{0},
                at.empty<uint16_t>("dqkv", 3 * s.features()), at.add("stats", random_floats(s.stats(), 3)));
}

void attention_pairs(Machine& at, const ptx::Module& module) {
  constexpr Sequence s{6};
  const uint64_t qkv = at.add("qkv", random_floats(2 * 3 * s.features(), 1));
  const uint64_t d_o = at.add("do", random_floats(2 * s.features(), 2));
  const uint64_t table = at.add("relative", random_floats(kHeads * 11, 3));
  const uint64_t stats = at.add("stats", random_floats(2 * s.stats(), 4));
  at.run(module, "attention_pairs_f32", {kHeads, 1, 1}, {256, 1, 1}, qkv, d_o, table, stats,
         at.empty<double>("pairs", kHeads * 36), kHeads, kNumbers, 1, s.t, 1, s.t, 0, 0, 0, 2, 2);
}

void attention_relative(Machine& at, const ptx::Module& module) {
  const auto values = random_floats(kHeads * 36, 1);
  const uint64_t pairs = at.add("pairs", std::vector<double>(values.begin(), values.end()));
  const uint64_t drelative = at.add("drelative", random_floats(kHeads * 11, 2));
  at.run(module, "attention_relative", {1, 1, 1}, {32, 1, 1}, pairs, drelative, int64_t{1}, kHeads, 1, 6);
}

constexpr Scene kConvF32{"conv", "conv_f32", conv_f32};
constexpr Scene kConvBf16{"conv", "conv_bf16", conv_bf16};
constexpr Scene kConvDx{"conv", "conv_dx_f32", conv_dx_f32};
constexpr Scene kConvDw{"conv", "conv_dw_bf16", conv_dw_bf16};
constexpr Scene kDepthwiseDw{"depthwise", "depthwise_dw_f32", depthwise_dw};
constexpr Scene kAttentionF32{"attention", "attention_f32", attention_f32};
constexpr Scene kAttentionBf16{"attention", "attention_bf16", attention_bf16};
constexpr Scene kAttentionDq{"attention", "attention_dq_f32", attention_dq};
constexpr Scene kAttentionDkv{"attention", "attention_dkv_bf16", attention_dkv};
constexpr Scene kAttentionPairs{"attention", "attention_pairs_f32", attention_pairs};
constexpr Scene kRelative{"attention", "attention_relative", attention_relative};

const char* const kCommit = "cp\\.async\\.commit_group;";

std::vector<Planted> planted_faults() {
  using enum ptx::FaultKind;
  const std::vector<ptx::FaultKind> race{kRace, kUninitialisedMemory};
  const std::vector<ptx::FaultKind> copy{kPendingCopy, kRace, kUninitialisedMemory}, bounds{kOutOfBounds};
  return {
      {"first barrier removed", kConvF32, kBarrier, "", 0, copy},
      {"second barrier removed", kConvF32, kBarrier, "", 1, copy},
      {"no wait for the last group", kConvF32, kWait0, "", 0, copy},
      {"copies of no group", kConvF32, kCommit, "", 0, copy},
      {"first barrier removed", kConvBf16, kBarrier, "", 0, copy},
      {"wait for all but two groups", kConvBf16, kWait1, "cp.async.wait_group 2;", 0, copy},
      {"second barrier removed", kConvDx, kBarrier, "", 1, copy},
      {"wait for all but two groups", kConvDx, kWait1, "cp.async.wait_group 2;", 0, copy},
      {"first barrier removed", kConvDw, kBarrier, "", 0, copy},
      {"second barrier removed", kConvDw, kBarrier, "", 1, copy},
      {"no wait for the last group", kConvDw, kWait0, "", 0, copy},
      {"first barrier removed", kDepthwiseDw, kBarrier, "", 0, race},
      {"second barrier removed", kDepthwiseDw, kBarrier, "", 1, race},
      {"cells beyond the image", kConvF32, "or\\.pred", "and.pred", 1, bounds},
      {"terms that do not exist", kConvF32, "and\\.pred", "or.pred", 0, bounds},
      {"output channels that do not exist", kConvDx, "and\\.pred", "or.pred", 0, bounds},
      {"cells beyond the image", kDepthwiseDw, "or\\.pred", "and.pred", 0, bounds},
      {"barrier 1 removed", kAttentionBf16, kBarrier, "", 0, copy},
      {"barrier 2 removed", kAttentionBf16, kBarrier, "", 1, copy},
      {"barrier 3 removed", kAttentionBf16, kBarrier, "", 2, copy},
      {"barrier 4 removed", kAttentionBf16, kBarrier, "", 3, copy},
      {"barrier 5 removed", kAttentionBf16, kBarrier, "", 4, copy},
      {"barrier 6 removed", kAttentionBf16, kBarrier, "", 5, copy},
      {"barrier 1 removed", kAttentionDkv, kBarrier, "", 0, copy},
      {"barrier 3 removed", kAttentionDkv, kBarrier, "", 2, copy},
      {"barrier 5 removed", kAttentionDkv, kBarrier, "", 4, copy},
      {"barrier 6 removed", kAttentionDkv, kBarrier, "", 5, copy},
      {"barrier 1 removed", kAttentionDq, kBarrier, "", 0, copy},
      {"barrier 5 removed", kAttentionDq, kBarrier, "", 4, copy},
      {"barrier 9 removed", kAttentionDq, kBarrier, "", 8, copy},
      {"barrier 1 removed", kAttentionPairs, kBarrier, "", 0, copy},
      {"barrier 2 removed", kAttentionPairs, kBarrier, "", 1, copy},
      {"no wait for the last group of scores", kAttentionBf16, kWait0, "", 0, copy},
      {"no wait for the last group of values", kAttentionBf16, kWait0, "", 1, copy},
  };
}

TEST(GpuTileFaults, FaultsInKernelsAreFoundWithTheirPlace) { expect_found(planted_faults()); }

TEST(GpuTileFaults, UninitialisedMemoryIsNamed) {
  expect_named({{kConvF32, "x"},
                {kConvF32, "weight"},
                {kConvBf16, "bias"},
                {kConvDx, "dy"},
                {kConvDw, "dw"},
                {kDepthwiseDw, "dy"},
                {kAttentionF32, "qkv"},
                {kAttentionDq, "do"},
                {kAttentionDkv, "stats"},
                {kRelative, "pairs"}});
}

TEST(GpuTileFaults, UnchangedKernelsHaveNoFaults) {
  expect_no_faults({kConvF32, kConvBf16, kConvDx, kConvDw, kDepthwiseDw, kAttentionF32, kAttentionBf16, kAttentionDq,
                    kAttentionDkv, kAttentionPairs, kRelative});
}

}  // namespace
}  // namespace xrun::ops::gpu
