// Faults that are planted in the PTX of the kernels of heads. Each is found with its place.
#include "ops/optimizer/update_scalars.h"
#include "tests/ops/gpu/planted_faults.h"

namespace xrun::ops::gpu {
namespace {

using ptx::FaultKind;

// Operands of a small head: two class blocks of 64 and 12 classes, 32 places with 30 rows, 30 of 32 dimensions.
constexpr int64_t kClasses = 76, kSize = 64, kPlaces = 32, kRows = 30, kDim = 30, kDims = 32, kTop = 2;
constexpr auto kLogits = static_cast<size_t>(kClasses * kPlaces);
constexpr std::array<uint32_t, 3> kStatsThreads{32, 8, 1};

std::vector<int32_t> some_labels() {
  std::vector<int32_t> labels;
  for (int32_t place = 0; place < kPlaces; ++place) {
    labels.push_back(place >= kRows ? -2 : place % 7 == 3 ? -1 : place % 20 * 4 % 76);
  }
  return labels;
}

std::vector<double> doubles(size_t count) {
  const auto values = random_floats(count, 20);
  return {values.begin(), values.end()};
}

void rows(Machine& at, const ptx::Module& module) {
  const uint64_t x = at.add("features", random_floats(kRows * kDim, 1)), out = at.empty<uint16_t>("out", 32 * kDims);
  const uint64_t labels = at.add("labels", std::vector<int32_t>(kRows, 5));
  at.run(module, "head_rows_f32_bf16", {9, 1, 1}, {128, 1, 1}, x, labels, out, at.empty<double>("inverses", kPlaces),
         at.empty<int32_t>("placed", kPlaces), kRows, int64_t{15}, int64_t{16}, kPlaces, kDim, kDims, kClasses);
}

void logits_f32(Machine& at, const ptx::Module& module) {
  const uint64_t w = at.add("classes", random_floats(kClasses * kDims, 1)), z = at.empty<float>("z", kLogits);
  const uint64_t x = at.add("rows", random_floats(kPlaces * kDims, 2)),
                 bias = at.add("bias", random_floats(kClasses, 3));
  at.run(module, "product_head_logits_f32", {2, 1, 1}, {256, 1, 1}, w, x, bias, z, kClasses, kPlaces, kDims, 0U);
}

// The products of the first class block take four stages.
void dx_bf16(Machine& at, const ptx::Module& module) {
  constexpr int64_t kMany = 140;
  const uint64_t g = at.add("g", rounded(random_floats(kMany * kPlaces, 1)));
  const uint64_t w = at.add("classes", rounded(random_floats(kMany * kDims, 2)));
  const uint64_t dx = at.empty<float>("dx", 2 * kPlaces * kDims);
  at.run(module, "product_head_dx_bf16", {2, 1, 1}, {128, 1, 1}, g, w, dx, kMany, int64_t{128}, kPlaces, kDims,
         kPlaces * kDims);
}

void dw_f32(Machine& at, const ptx::Module& module) {
  const uint64_t g = at.add("g", random_floats(kLogits, 1)), x = at.add("rows", random_floats(kPlaces * kDims, 2));
  const uint64_t dw = at.add("dw", random_floats(kClasses * kDims, 3));
  at.run(module, "product_head_dw_f32", {2, 1, 1}, {256, 1, 1}, g, x, dw, kClasses, kPlaces, kRows, kDims, 1U);
}

void stats(Machine& at, const ptx::Module& module) {
  const uint64_t z = at.add("z", random_floats(kLogits, 1)), out = at.empty<float>("stats", 2 * 8 * kPlaces);
  const uint64_t targets = at.add("targets", random_floats(kPlaces, 2)), psi = at.add("psi", doubles(kPlaces));
  at.run(module, "head_stats", {2, 1, 1}, kStatsThreads, z, at.add("labels", some_labels()), targets, psi, out,
         8 * kPlaces, kPlaces, kClasses, kSize, kPlaces, int64_t{0}, 1.0F, INFINITY, 1U);
}

void best(Machine& at, const ptx::Module& module) {
  const uint64_t z = at.add("z", random_floats(kLogits, 1)), out = at.empty<float>("stats", 2 * 8 * kPlaces);
  at.run(module, "head_best", {2, 1, 1}, kStatsThreads, z, out, 8 * kPlaces, kPlaces, kClasses, kSize, kPlaces,
         int64_t{0}, kTop);
}

void merge_stats(Machine& at, const ptx::Module& module) {
  const uint64_t out = at.add("stats", random_floats(4 * 8 * kPlaces, 1));
  at.run(module, "head_merge_stats", {2, 1, 1}, {64, 1, 1}, out, out, out + 8 * kPlaces * 4, 16 * kPlaces, int64_t{2},
         kPlaces, kTop);
}

void targets(Machine& at, const ptx::Module& module) {
  const uint64_t z = at.add("z", random_floats(kLogits, 1)), out = at.empty<float>("targets", kPlaces);
  at.run(module, "head_targets", {1, 1, 1}, {64, 1, 1}, z, at.add("labels", some_labels()), out, kClasses, kPlaces,
         int64_t{0});
}

void gradient(Machine& at, const ptx::Module& module) {
  const uint64_t z = at.add("z", random_floats(kLogits, 1)), g = at.empty<uint16_t>("g", kLogits);
  const uint64_t max = at.add("maxima", random_floats(kPlaces, 2)),
                 factor = at.add("factors", random_floats(kPlaces, 3));
  const uint64_t smooth = at.add("smooths", random_floats(kPlaces, 4)), d = at.add("d", random_floats(kPlaces, 5));
  const uint64_t lanes = at.add("lanes", std::vector<float>(kClasses * 16));
  at.run(module, "head_gradient_bf16", {10, 1, 1}, {128, 1, 1}, z, g, at.add("labels", some_labels()), max, factor,
         smooth, d, lanes, kClasses, int64_t{16}, kPlaces, int64_t{0}, 1.0F, INFINITY);
}

void steep_dw(Machine& at, const ptx::Module& module) {
  const uint64_t x = at.add("features", random_floats(kRows * kDim, 1));
  const uint64_t w = at.add("weight", random_floats(kClasses * kDim, 2)),
                 inverses = at.add("inverses", doubles(kPlaces));
  const uint64_t cosines = at.add("targets", random_floats(kPlaces, 3)),
                 steep = at.add("steep", random_floats(kPlaces, 4));
  const uint64_t dw = at.add("dw", random_floats(kClasses * kDims, 5));
  at.run(module, "head_steep_dw_f32_f32", {9, 1, 1}, {128, 1, 1}, x, w, inverses, at.add("labels", some_labels()),
         cosines, steep, dw, int64_t{0}, kClasses, kRows, kRows, kPlaces, kPlaces, kDim, kDims, 0U);
}

void project(Machine& at, const ptx::Module& module) {
  const uint64_t w = at.add("weight", random_floats(kClasses * kDim, 1)),
                 g = at.add("g", random_floats(kClasses * kDims, 2));
  const uint64_t inverses = at.add("inverses", random_floats(kClasses, 3));
  at.run(module, "head_project_f32", {20, 1, 1}, {128, 1, 1}, w, inverses, g, at.empty<double>("squares", kClasses),
         kClasses, kDim, kDims);
}

void update_rows(Machine& at, const ptx::Module& module) {
  const uint64_t scalars = at.add("scalars", std::vector<KnownScalars>(1));
  const uint64_t w = at.add("weight", rounded(random_floats(kClasses * kDim, 1)));
  const uint64_t g = at.add("g", random_floats(kClasses * kDims, 2)),
                 m = at.add("m", random_floats(kClasses * kDim, 3));
  const uint64_t v = at.add("v", std::vector<float>(kClasses * kDim, 1.0F)), inverses = at.empty<float>("inverses", 76);
  at.run(module, "head_update_bf16_f32", {20, 1, 1}, {128, 1, 1}, 3U, scalars, uint64_t{0},
         at.add("flags", std::vector<uint32_t>(1)), w, g, m, v, uint64_t{0}, inverses, kClasses, kDim, kDims,
         int64_t{64}, uint64_t{1}, uint64_t{2}, 0.0F);
}

constexpr Scene kRowsScene{"head_rows", "head_rows_f32_bf16", rows};
constexpr Scene kLogitsF32{"head_product_f32", "product_head_logits_f32", logits_f32};
constexpr Scene kDxBf16{"head_product_bf16", "product_head_dx_bf16", dx_bf16};
constexpr Scene kDwF32{"head_product_f32", "product_head_dw_f32", dw_f32};
constexpr Scene kStats{"head_stats", "head_stats", stats};
constexpr Scene kBest{"head_stats", "head_best", best};
constexpr Scene kMergeStats{"head_stats", "head_merge_stats", merge_stats};
constexpr Scene kTargetsScene{"head_margins", "head_targets", targets};
constexpr Scene kGradient{"head_gradient", "head_gradient_bf16", gradient};
constexpr Scene kSteepDw{"head_gradient", "head_steep_dw_f32_f32", steep_dw};
constexpr Scene kProject{"head_rows", "head_project_f32", project};
constexpr Scene kUpdate{"head_rows", "head_update_bf16_f32", update_rows};

std::vector<Planted> planted_faults() {
  using enum FaultKind;
  const std::vector<FaultKind> race{kRace, kUninitialisedMemory}, copy{kPendingCopy, kRace, kUninitialisedMemory};
  const std::vector<FaultKind> bounds{kOutOfBounds}, bounds_or_race{kOutOfBounds, kRace};
  return {
      {"first barrier removed", kStats, kBarrier, "", 0, race},
      {"barrier after the maxima removed", kStats, kBarrier, "", 1, race},
      {"barrier before the sums are read removed", kStats, kBarrier, "", 2, race},
      {"barrier between two sums removed", kStats, kBarrier, "", 3, race},
      {"first barrier removed", kBest, kBarrier, "", 0, race},
      {"barrier between rounds removed", kBest, kBarrier, "", 1, race},
      {"first barrier removed", kLogitsF32, kBarrier, "", 0, copy},
      {"no wait for the last group", kLogitsF32, "cp\\.async\\.wait_group 0;", "", 0, copy},
      {"terms that do not exist", kDwF32, "and\\.pred", "or.pred", 1, bounds},
      {"first barrier removed", kDxBf16, kBarrier, "", 0, copy},
      {"second barrier removed", kDxBf16, kBarrier, "", 1, copy},
      {"wait for all but two groups", kDxBf16, "cp\\.async\\.wait_group 1;", "cp.async.wait_group 2;", 0, copy},
      {"copy from half a group", kDxBf16, "(cp\\.async\\.cg[^,]*, \\[%rd\\d+)\\]", "$1+8]", 0, {kMisaligned}},
      {"places that do not exist", kDxBf16, "and\\.pred", "or.pred", 0, {kMisaligned, kOutOfBounds}},
      {"one place too many", kTargetsScene, "setp\\.ge\\.s64 \t", "setp.gt.s64 \t", 0, bounds},
      {"rows without a target", kTargetsScene, "or\\.pred", "and.pred", 0, bounds},
      {"one class too many", kGradient, kBeyond, "setp.gt.s64 \t", 0, bounds_or_race},
      {"one thread too many", kMergeStats, kBeyond, "setp.gt.s64 \t", 0, bounds_or_race},
      {"one row too many", kProject, kBeyond, "setp.gt.s64 \t", 0, bounds},
      {"member mask without the first lane", kProject, kMask, "$1, -2;", 0, {kDivergentWarp, kArithmetic}},
      {"squares of all lanes", kProject, "or\\.pred", "and.pred", 0, bounds_or_race},
      {"member mask without half of the warp", kUpdate, kMask, "$1, 65535;", 0, {kDivergentWarp, kArithmetic}},
      {"one row too many", kUpdate, kBeyond, "setp.gt.s64 \t", 0, bounds},
      {"every warp adds the rows of its class",
       kSteepDw,
       "vote\\.sync\\.any\\.pred \t(%p\\d+), %p\\d+, [^;]*;",
       "setp.ne.s32 \t$1, 0, 0;",
       0,
       {kRace}},
      {"one place too many", kRowsScene, kBeyond, "setp.gt.s64 \t", 0, bounds},
  };
}

TEST(GpuHeadFaults, FaultsInKernelsAreFoundWithTheirPlace) { expect_found(planted_faults()); }

TEST(GpuHeadFaults, UninitialisedMemoryIsNamed) {
  expect_named({{kRowsScene, "features"},
                {kStats, "z"},
                {kBest, "z"},
                {kGradient, "lanes"},
                {kDwF32, "dw"},
                {kDxBf16, "classes"},
                {kSteepDw, "labels"},
                {kProject, "inverses"},
                {kUpdate, "v"}});
}

// Each launch without a planted fault runs in every order.
TEST(GpuHeadFaults, UnchangedKernelsHaveNoFaults) {
  expect_no_faults({kRowsScene, kLogitsF32, kDxBf16, kDwF32, kStats, kBest, kMergeStats, kTargetsScene, kGradient,
                    kSteepDw, kProject, kUpdate});
}

}  // namespace
}  // namespace xrun::ops::gpu
