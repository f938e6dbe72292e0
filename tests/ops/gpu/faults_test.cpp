// Faults that are planted in kernels (tests/ops/gpu/planted_faults.h) are found with their place.
#include "ops/gpu/update/update_decision.h"
#include "ops/optimizer/update_scalars.h"
#include "tests/ops/gpu/planted_faults.h"

namespace xrun::ops::gpu {
namespace {

using ptx::FaultKind;

constexpr std::array<uint32_t, 3> kColumnThreads{32, 8, 1};

void column_sums(Machine& at, const ptx::Module& module) {
  constexpr int64_t kRows = 600, kColumns = 37;
  const uint64_t x = at.add("x", random_floats(kRows * kColumns, 1)), sums = at.add("sums", random_floats(kColumns, 2));
  at.run(module, "column_sums_f32", {2, 1, 1}, kColumnThreads, x, sums, kRows, kColumns);
}

void transpose(Machine& at, const ptx::Module& module) {
  constexpr int64_t kRows = 37, kColumns = 70;
  const uint64_t x = at.add("x", random_floats(kRows * kColumns, 1)), y = at.empty<float>("y", kRows * kColumns);
  at.run(module, "transpose_32", {3, 2, 1}, kColumnThreads, x, y, kRows, kColumns);
}

void relu(Machine& at, const ptx::Module& module) {
  const uint64_t x = at.add("x", random_floats(300, 1)), y = at.empty<float>("y", 300);
  at.run(module, "relu_f32", {3, 1, 1}, {128, 1, 1}, x, y, int64_t{300});
}

void find_not_finite(Machine& at, const ptx::Module& module) {
  const uint64_t x = at.add("x", std::vector<float>(300, INFINITY)), flags = at.add("flags", std::vector<uint32_t>{0});
  at.run(module, "flag_not_finite_f32", {3, 1, 1}, {128, 1, 1}, x, int64_t{300}, flags, uint64_t{0});
}

void adamw(Machine& at, const ptx::Module& module) {
  const uint64_t scalars = at.add("scalars", std::vector<KnownScalars>(1)), w = at.add("w", random_floats(300, 1));
  const uint64_t g = at.add("g", random_floats(300, 2)), m = at.add("m", random_floats(300, 3));
  const uint64_t v = at.add("v", std::vector<float>(300, 1.0F));
  at.run(module, "update_adamw", {3, 1, 1}, {128, 1, 1}, scalars, w, g, m, v, int64_t{300});
}

void square_sums(Machine& at, const ptx::Module& module) {
  const uint64_t g = at.add("g", random_floats(250, 1)), sums = at.empty<double>("sums", 3);
  at.run(module, "square_sums_f32", {1, 1, 1}, {64, 1, 1}, g, sums, int64_t{250}, int64_t{96});
}

// More sums than a thread block loads at a time.
void decision(Machine& at, const ptx::Module& module) {
  constexpr int64_t kSums = 1100;
  const uint64_t sums = at.add("sums", std::vector<double>(kSums, 0.5));
  const uint64_t parts = at.add("parts", std::vector<GradientPart>{{.first = 0, .count = kSums}});
  const uint64_t made = at.empty<GpuDecision>("decision", 1), flags = at.add("flags", std::vector<uint32_t>{0});
  at.run(module, "decide_update", {1, 1, 1}, {256, 1, 1}, sums, parts, int64_t{1}, 1.0F, 2.0, int32_t{1}, int32_t{0},
         made, flags);
}

void softmax(Machine& at, const ptx::Module& module) {
  constexpr int64_t kRows = 5, kColumns = 45;
  const uint64_t x = at.add("x", random_floats(kRows * kColumns, 1)), y = at.empty<float>("y", kRows * kColumns);
  at.run(module, "softmax_f32", {1, 1, 1}, {96, 1, 1}, x, y, kRows, kColumns);
}

void cross_entropy(Machine& at, const ptx::Module& module) {
  const uint64_t x = at.add("logits", random_floats(50, 1)), loss = at.empty<float>("loss", 5);
  const uint64_t labels = at.add("labels", std::vector<int32_t>{0, 9, -1, 3, 10});
  at.run(module, "softmax_ce_f32", {1, 1, 1}, {96, 1, 1}, x, labels, loss, int64_t{5}, int64_t{10}, 1.0F, 0.0);
}

void statistics(Machine& at, const ptx::Module& module) {
  constexpr int64_t kRows = 530, kChannels = 5;
  const uint64_t x = at.add("x", random_floats(kRows * kChannels, 1));
  const uint64_t mean = at.empty<float>("mean", kChannels), var = at.empty<float>("var", kChannels);
  at.run(module, "bn_statistics_f32", {1, 1, 1}, kColumnThreads, x, mean, var, kRows, kChannels);
}

void layer_weights(Machine& at, const ptx::Module& module) {
  constexpr int64_t kRows = 70, kColumns = 5;
  const uint64_t x = at.add("x", random_floats(kRows * kColumns, 1)), dy = at.add("dy", random_floats(350, 2));
  const uint64_t means = at.add("means", random_floats(kRows, 3)), rstds = at.add("rstds", random_floats(kRows, 4));
  const uint64_t dweight = at.add("dweight", random_floats(5, 5)), dbias = at.add("dbias", random_floats(5, 6));
  at.run(module, "row_norm_weights_f32", {1, 1, 1}, kColumnThreads, x, dy, means, rstds, dweight, dbias, kRows,
         kColumns);
}

void max_pool(Machine& at, const ptx::Module& module) {
  constexpr int64_t kOut = 2 * 3 * 3 * 4;
  const uint64_t x = at.add("x", random_floats(2 * 3 * 6 * 8, 1)), y = at.empty<float>("y", kOut);
  at.run(module, "max_pool_f32", {1, 1, 1}, {128, 1, 1}, x, y, kOut, 3, 6, 8, 3, 4, 2, 2, 2, 2, 0, 0);
}

void dropout(Machine& at, const ptx::Module& module) {
  constexpr int64_t kRows = 4, kColumns = 30;
  const uint64_t x = at.add("x", random_floats(kRows * kColumns, 1)), y = at.empty<float>("y", kRows * kColumns);
  at.run(module, "dropout_f32", {1, 1, 1}, {64, 1, 1}, x, y, kRows, kColumns, uint64_t{1}, uint64_t{2}, uint64_t{3},
         uint64_t{4}, 1U << 30, 1.5F);
}

void gather(Machine& at, const ptx::Module& module) {
  const uint64_t numbers = at.add("numbers", std::vector<int32_t>{3, 0, -1, 2}), y = at.empty<float>("y", 20);
  const uint64_t table = at.add("table", random_floats(20, 1)), flags = at.add("flags", std::vector<uint32_t>{0});
  at.run(module, "gather_rows_f32", {1, 1, 1}, {32, 1, 1}, numbers, table, y, int64_t{4}, int64_t{4}, int64_t{5},
         flags);
}

void product_f32(Machine& at, const ptx::Module& module) {
  constexpr int64_t kM = 70, kN = 10, kK = 45;
  const uint64_t a = at.add("a", random_floats(kM * kK, 1)), b = at.add("b", random_floats(kN * kK, 2));
  const uint64_t bias = at.add("bias", random_floats(kN, 3)), out = at.empty<float>("out", kM * kN);
  at.run(module, "product_nt_f32", {1, 2, 1}, {256, 1, 1}, a, b, bias, out, kM, kN, kK);
}

void product_bf16(Machine& at, const ptx::Module& module) {
  constexpr int64_t kM = 65, kN = 72, kK = 72;
  const uint64_t a = at.add("a", rounded(random_floats(kM * kK, 1))),
                 b = at.add("b", rounded(random_floats(kN * kK, 2)));
  const uint64_t bias = at.add("bias", random_floats(kN, 3)), out = at.empty<uint16_t>("out", kM * kN);
  at.run(module, "product_nt_bf16", {2, 2, 1}, {128, 1, 1}, a, b, bias, out, kM, kN, kK);
}

constexpr Scene kColumnSums{"column_sums", "column_sums_f32", column_sums};
constexpr Scene kTranspose{"layout", "transpose_32", transpose};
constexpr Scene kRelu{"pointwise", "relu_f32", relu};
constexpr Scene kFinite{"finite", "flag_not_finite_f32", find_not_finite};
constexpr Scene kAdamw{"update", "update_adamw", adamw};
constexpr Scene kSquareSums{"square_sums", "square_sums_f32", square_sums};
constexpr Scene kDecision{"update_decision", "decide_update", decision};
constexpr Scene kSoftmax{"softmax", "softmax_f32", softmax};
constexpr Scene kCrossEntropy{"cross_entropy", "softmax_ce_f32", cross_entropy};
constexpr Scene kStatistics{"batch_norm", "bn_statistics_f32", statistics};
constexpr Scene kLayerWeights{"layer_norm", "row_norm_weights_f32", layer_weights};
constexpr Scene kMaxPool{"pool", "max_pool_f32", max_pool};
constexpr Scene kDropout{"dropout", "dropout_f32", dropout};
constexpr Scene kGather{"layout", "gather_rows_f32", gather};
constexpr Scene kProductF32{"product_f32", "product_nt_f32", product_f32};
constexpr Scene kProductBf16{"product_bf16", "product_nt_bf16", product_bf16};

std::vector<Planted> planted_faults() {
  using enum FaultKind;
  const std::vector<FaultKind> race{kRace, kUninitialisedMemory}, copy{kPendingCopy, kRace, kUninitialisedMemory};
  const std::vector<FaultKind> bounds{kOutOfBounds}, bounds_or_race{kOutOfBounds, kRace};
  return {
      {"first barrier removed", kColumnSums, kBarrier, "", 0, race},
      {"second barrier removed", kColumnSums, kBarrier, "", 1, race},
      {"one column too many is read", kColumnSums, kBeyond, "setp.gt.s64 \t", 1, bounds},
      {"one column too many is written", kColumnSums, kBeyond, "setp.gt.s64 \t", 3, bounds},
      {"barrier only for the first row of threads",
       kColumnSums,
       kBarrier,
       "@%p7 bar.sync 0;",
       1,
       {kDivergentBarrier, kUninitialisedRegister, kRace}},
      {"barrier removed", kTranspose, kBarrier, "", 0, race},
      {"one row too many is read", kTranspose, kBeyond, "setp.gt.s64 \t", 0, bounds_or_race},
      {"one column too many is written",
       kTranspose,
       kBeyond,
       "setp.gt.s64 \t",
       2,
       {kOutOfBounds, kUninitialisedMemory}},
      {"one element too many", kRelu, kBeyond, "setp.gt.s64 \t", 0, bounds},
      {"no guard", kRelu, "@%p1 bra[^;]*;", "", 0, bounds},
      {"store at half an element", kRelu, "(st\\.global\\.f32 \t\\[%rd\\d+)\\]", "$1+2]", 0, {kMisaligned}},
      {"load removed", kRelu, "ld\\.global\\.f32[^;]*;", "", 0, {kUninitialisedRegister}},
      {"result in the operand's place of the neighbour", kRelu, "(st\\.global\\.f32 \t\\[%rd\\d+)\\]", "$1+4]", 0,
       bounds_or_race},
      {"store instead of an atomic",
       kFinite,
       "atom\\.global\\.or\\.b32 \t%r\\d+, (\\[%rd\\d+\\]), 1;",
       "st.global.u32 \t$1, 1;",
       0,
       {kRace}},
      {"one element too many", kFinite, kBeyond, "setp.gt.s64 \t", 0, bounds},
      {"no guard", kAdamw, "@%p1 bra[^;]*;", "", 0, bounds},
      {"scalars beyond their end", kAdamw, "\\+44\\]", "+48]", 0, bounds},
      {"member mask without the second row", kSquareSums, kMask, "$1, 65535;", 0, {kDivergentWarp, kArithmetic}},
      {"sums of missing parts are written", kSquareSums, "or\\.pred", "and.pred", 0, bounds_or_race},
      {"first barrier removed", kDecision, kBarrier, "", 0, race},
      {"second barrier removed", kDecision, kBarrier, "", 1, race},
      {"third barrier removed", kDecision, kBarrier, "", 2, race},
      {"rows that do not exist are read", kSoftmax, "and\\.pred", "or.pred", 0, bounds},
      {"member mask without the first lane", kSoftmax, kMask, "$1, -2;", 0, {kDivergentWarp, kArithmetic}},
      {"one label too many is read", kCrossEntropy, "or\\.pred", "and.pred", 0, bounds_or_race},
      {"first barrier removed", kStatistics, kBarrier, "", 0, race},
      {"second barrier removed", kStatistics, kBarrier, "", 1, race},
      {"barrier removed", kLayerWeights, kBarrier, "", 0, race},
      {"one element too many", kMaxPool, kBeyond, "setp.gt.s64 \t", 0, bounds},
      {"one column too many", kDropout, kBeyond, "setp.gt.s64 \t", 3, bounds_or_race},
      {"negative numbers are looked up", kGather, "and\\.pred", "or.pred", 0, bounds},
      {"first barrier removed", kProductF32, kBarrier, "", 0, copy},
      {"second barrier removed", kProductF32, kBarrier, "", 1, copy},
      {"wait for all but two groups", kProductF32, kWait1, "cp.async.wait_group 2;", 0, copy},
      {"no wait for the last group", kProductF32, kWait0, "", 0, copy},
      {"copies of no group", kProductF32, "cp\\.async\\.commit_group;", "", 0, copy},
      {"terms that do not exist", kProductF32, "and\\.pred", "or.pred", 1, bounds},
      {"first barrier removed", kProductBf16, kBarrier, "", 0, copy},
      {"second barrier removed", kProductBf16, kBarrier, "", 1, copy},
      {"wait for all but two groups", kProductBf16, kWait1, "cp.async.wait_group 2;", 0, copy},
      {"no wait for the last group", kProductBf16, kWait0, "", 0, copy},
      {"copy from half a group of elements",
       kProductBf16,
       "(cp\\.async\\.cg[^,]*, \\[%rd\\d+)\\]",
       "$1+8]",
       0,
       {kMisaligned}},
      {"matrix at half a row", kProductBf16, "(ldmatrix[^\\[]*\\[%r\\d+)\\]", "$1+8]", 0, {kMisaligned}},
  };
}

TEST(GpuFaults, FaultsInKernelsAreFoundWithTheirPlace) { expect_found(planted_faults()); }

TEST(GpuFaults, UninitialisedMemoryIsNamed) {
  expect_named({{kColumnSums, "sums"},
                {kColumnSums, "x"},
                {kTranspose, "x"},
                {kAdamw, "v"},
                {kAdamw, "scalars"},
                {kSquareSums, "g"},
                {kDecision, "sums"},
                {kDecision, "flags"},
                {kSoftmax, "x"},
                {kCrossEntropy, "labels"},
                {kLayerWeights, "rstds"},
                {kGather, "table"},
                {kProductF32, "bias"},
                {kProductF32, "b"},
                {kProductBf16, "a"}});
}

TEST(GpuFaults, UnchangedKernelsHaveNoFaults) {
  expect_no_faults({kColumnSums, kTranspose, kRelu, kFinite, kAdamw, kSquareSums, kDecision, kSoftmax, kCrossEntropy,
                    kStatistics, kLayerWeights, kMaxPool, kDropout, kGather, kProductF32, kProductBf16});
}

}  // namespace
}  // namespace xrun::ops::gpu
