// Lists of launches as data: names of operators, refusals, arguments, and grids that are larger than a GPU accepts.
#include "ops/gpu/launch/gpu_kernel.h"

#include <set>

#include "ops/catalog.h"
#include "tests/ops/gpu/launch/launch_runner.h"
#include "tests/ops/graph_builder.h"

namespace xrun::ops::gpu {
namespace {

TensorType f32(std::vector<int64_t> dims) { return type_of(std::move(dims)); }

// The kernel of an operator on row blocks of `rows` rows.
Result<std::unique_ptr<GpuKernel>> made(std::string_view op, std::vector<TensorType> inputs,
                                        std::vector<TensorType> outputs, const Attrs& attrs, int64_t rows,
                                        int64_t most_blocks) {
  GpuSpec spec{.op = &find_op(op)->def, .most_blocks = most_blocks};
  spec.node.inputs = std::move(inputs);
  spec.node.outputs = std::move(outputs);
  spec.node.attrs = attrs;
  spec.node.rows = rows;
  spec.node.path = "node";
  return make_gpu_kernel(spec);
}

TEST(GpuKernels, NamesAreThoseOfOperatorsWithKernelsOfTheProcessor) {
  const std::vector<std::string_view> names = gpu_operators();
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(std::set<std::string_view>(names.begin(), names.end()).size(), names.size());
  for (const std::string_view name : names) {
    const Op* const op = find_op(name);
    ASSERT_NE(op, nullptr) << name;
    EXPECT_NE(op->cpu, nullptr) << name;
    EXPECT_TRUE(has_gpu_kernel(name));
  }
  EXPECT_FALSE(has_gpu_kernel("topk"));
  EXPECT_FALSE(has_gpu_kernel("zzz"));
}

TEST(GpuKernels, RefusalsNameTheOperatorAndTheReason) {
  const auto message = [](const Result<std::unique_ptr<GpuKernel>>& kernel) {
    EXPECT_FALSE(kernel.ok());
    return kernel.ok() ? std::string() : kernel.error().code + " " + kernel.error().message;
  };
  TensorType half = f32({kBatch, 4});
  half.dtype = DType::kF16;
  EXPECT_EQ(message(made("gelu", {half}, {half}, {}, 2, 1)), "XG0824 `gelu` has no kernel of GPUs for f16 tensors");
  EXPECT_EQ(message(made("topk", {f32({kBatch, 4})}, {f32({kBatch, 2})}, {}, 2, 1)),
            "XG0824 `topk` has no kernel of GPUs for any tensors");
  const Attrs sums{{"rule", std::string("nij,nkl->nki")}};
  EXPECT_EQ(message(made("einsum", {f32({kBatch, 5, 7}), f32({kBatch, 4, 3})}, {f32({kBatch, 4, 5})}, sums, 2, 1)),
            "XG0824 `einsum` has no kernel of GPUs for the product nij,nkl->nki, which sums letters of one operand");
}

// Two heads of 200 positions are 2 x 4 tiles, and 2 x 16 tiles of queries and keys, more than a row block of one sample
// has tiles.
TEST(GpuKernels, GradientsOfAttentionHaveAThreadBlockForEachTile) {
  const TensorType qkv = f32({kBatch, 200, 24}), relative = f32({2, 1, 399});
  const Attrs attrs{{"heads", int64_t{2}}, {"relative", true}};
  const auto kernel = made("attention.relative", {qkv, f32({kBatch, 200, 8}), relative}, {qkv, relative}, attrs, 1, 3);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  std::vector<uint32_t> blocks;
  for (const GpuLaunch& launch : (*kernel)->launches(3)) {
    blocks.push_back(launch.blocks[0]);
  }
  EXPECT_EQ(blocks, (std::vector<uint32_t>{24, 24, 96, 7})) << "7 blocks of 128 threads for 2 x 399 biases";
}

TEST(GpuKernels, ValuesOfArgumentsComeFromTheCall) {
  const std::vector<uint64_t> in{1000, 2000}, out{3000};
  const GpuCall call{.inputs = in,
                     .outputs = out,
                     .scratch = 4000,
                     .flags = 5000,
                     .seed = 7,
                     .step = 3,
                     .first_row = 40,
                     .loss_scale = 8};
  using Kind = GpuArgument::Kind;
  const auto value = [&](Kind kind, uint64_t number) {
    return value_of({.kind = kind, .operand = kind == Kind::kInput ? 1 : 0, .number = number}, call);
  };
  EXPECT_EQ(value(Kind::kInput, 16), 2016u);
  EXPECT_EQ(value(Kind::kOutput, 16), 3016u);
  EXPECT_EQ(value(Kind::kScratch, 16), 4016u);
  EXPECT_EQ(value(Kind::kFlags, 0), 5000u);
  EXPECT_EQ(value(Kind::kNumber, 16), 16u);
  EXPECT_EQ(value(Kind::kSeed, 0), 7u);
  EXPECT_EQ(value(Kind::kStep, 0), 3u);
  EXPECT_EQ(value(Kind::kFirstRow, 0), 40u);
  EXPECT_EQ(value(Kind::kLossScale, std::bit_cast<uint32_t>(0.5F)), std::bit_cast<uint32_t>(4.0F));
}

// A product of ten million rows needs three launches, each of which begins where the one before ends.
TEST(GpuKernels, ProductsOfMoreRowsThanAGridHaveSeveralLaunches) {
  constexpr int64_t kRows = 10'000'000;
  const auto kernel = made("linear", {f32({kBatch, 16}), f32({8, 16})}, {f32({kBatch, 8})}, {}, kRows / 10, 10);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  int64_t rows = 0;
  for (const GpuLaunch& launch : (*kernel)->launches(10)) {
    EXPECT_EQ(launch.kernel, "product_nt_f32");
    EXPECT_EQ(launch.arguments[0].number, static_cast<uint64_t>(rows * 16 * 4));
    EXPECT_EQ(launch.arguments[3].number, static_cast<uint64_t>(rows * 8 * 4));
    const auto count = static_cast<int64_t>(launch.arguments[4].number);
    EXPECT_EQ(launch.blocks, (std::array<uint32_t, 3>{1, blocks_for(count, 64), 1}));
    EXPECT_LE(launch.blocks[1], 65'535u);
    rows += count;
  }
  EXPECT_EQ(rows, kRows);
  EXPECT_EQ((*kernel)->launches(10).size(), 3u);
}

TEST(GpuKernels, SamplesAndRowBlocksBeyondAGridHaveLaunchesOfTheirOwn) {
  const TensorType image = f32({kBatch, 4, 2, 2});
  const auto pool = made("global_avg_pool", {image}, {f32({kBatch, 4})}, {}, 50'000, 4);
  ASSERT_TRUE(pool.ok());
  int64_t samples = 0;
  for (const GpuLaunch& launch : (*pool)->launches(4)) {
    EXPECT_EQ(launch.arguments[0].number, static_cast<uint64_t>(samples * 16 * 4));
    EXPECT_LE(launch.blocks[1], 65'535u);
    samples += launch.blocks[1];
  }
  EXPECT_EQ(samples, 200'000);

  const TensorType channel = f32({4}), statistic = f32({kPerBlock, 4});
  const auto norm = made("bn", {image, channel, channel, channel, channel}, {image, statistic, statistic},
                         {{"eps", 1e-5}, {"momentum", 0.1}}, 1, 100'000);
  ASSERT_TRUE(norm.ok());
  std::map<std::string, int64_t> blocks;
  for (const GpuLaunch& launch : (*norm)->launches(100'000)) {
    const bool statistics = launch.kernel == "bn_statistics_f32";
    EXPECT_EQ(launch.arguments[0].number, static_cast<uint64_t>(blocks[launch.kernel] * 16 * 4));
    blocks[launch.kernel] += launch.blocks[statistics ? 1 : 2];
  }
  EXPECT_EQ(blocks, (std::map<std::string, int64_t>{{"bn_f32", 100'000}, {"bn_statistics_f32", 100'000}}));

  const TensorType large = f32({kBatch, 4, 4096, 2048});
  const auto refused = made("bn", {large, channel, channel, channel, channel}, {large, statistic, statistic},
                            {{"eps", 1e-5}, {"momentum", 0.1}}, 1, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("positions"), std::string::npos) << refused.error().message;
}

// The launches of a weight gradient add the row blocks one after the other, whatever their number in a call.
TEST(GpuKernels, WeightGradientsHaveALaunchForEachRowBlock) {
  const auto kernel = made("linear.dw", {f32({kBatch, 16}), f32({kBatch, 8})}, {f32({8, 16})}, {}, 32, 4);
  ASSERT_TRUE(kernel.ok());
  const std::vector<GpuLaunch> launches = (*kernel)->launches(3);
  ASSERT_EQ(launches.size(), 3u);
  for (size_t b = 0; b < 3; ++b) {
    EXPECT_EQ(launches[b].arguments[0].number, b * 32 * 8 * 4);
    EXPECT_EQ(launches[b].arguments[1].number, b * 32 * 16 * 4);
    EXPECT_EQ(launches[b].arguments[2], (GpuArgument{.kind = GpuArgument::Kind::kOutput}));
  }
}

TEST(GpuKernels, TheErrorOfANodeHasItsPlaceInTheModel) {
  GraphBuilder builder;
  builder.call("topk", {builder.input({20})}, {{"k", int64_t{2}}});
  Node& node = builder.graph.nodes.back();
  node.span = Span{.file = 0, .begin = 7, .end = 9};
  const auto kernel = make_gpu_kernel(builder.graph, node, {.kernel = {.norm_rows = 4}});
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.error().span, node.span);
}

}  // namespace
}  // namespace xrun::ops::gpu
