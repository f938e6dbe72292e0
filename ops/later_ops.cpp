// Operators of edition 1 that can be checked and counted but not run yet: signature, shapes and parameters, no kernels.
#include <array>

#include "ops/catalog.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

using Types = std::span<const TensorType>;

TensorType rows_of(const TensorType& x) { return weight_type({x.dims[0]}); }

Result<OpShape> infer_matmul(Types in, const Attrs&) {
  XRUN_TRY(expect_activation("matmul", in[0]));
  XRUN_TRY(expect_activation("matmul", in[1]));
  const auto& a = in[0].dims;
  const auto& b = in[1].dims;
  if (a.size() < 3 || a.size() != b.size() || a.back() != b[b.size() - 2] ||
      !std::equal(a.begin(), a.end() - 2, b.begin())) {
    return shape_error("cannot multiply matrices " + to_text(in[0]) + " and " + to_text(in[1]),
                       "[N, ..., I, K] and [N, ..., K, J] give [N, ..., I, J]");
  }
  TensorType y = with_dims(in[0], a);
  y.dims.back() = b.back();
  return OpShape{{std::move(y)}};
}

// "nij,njk->nik": letters of the two operands and of the result.
Result<OpShape> infer_einsum(Types in, const Attrs& attrs) {
  const std::string& rule = attrs.text("rule");
  const size_t comma = rule.find(',');
  const size_t arrow = rule.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) {
    return argument_error("`einsum` cannot read \"" + rule + "\"", "write \"nij,njk->nik\"");
  }
  const std::array<std::string, 2> operands{rule.substr(0, comma), rule.substr(comma + 1, arrow - comma - 1)};
  std::array<int64_t, 256> sizes{};
  for (size_t o = 0; o < 2; ++o) {
    XRUN_TRY(expect_activation("einsum", in[o]));
    if (operands[o].size() != in[o].dims.size()) {
      return shape_error("`einsum` \"" + rule + "\" does not fit " + to_text(in[o]),
                         "write a letter for each dimension");
    }
    for (size_t d = 0; d < operands[o].size(); ++d) {
      int64_t& size = sizes[static_cast<unsigned char>(operands[o][d])];
      if (size != 0 && size != in[o].dims[d]) {
        return shape_error("`einsum` \"" + rule + "\" does not fit " + to_text(in[0]) + " and " + to_text(in[1]),
                           "give dimensions of different sizes different letters");
      }
      size = in[o].dims[d];
    }
  }
  TensorType y = with_dims(in[0], {});
  for (const char letter : rule.substr(arrow + 2)) {
    const int64_t size = sizes[static_cast<unsigned char>(letter)];
    if (size == 0) {
      return argument_error("`einsum` \"" + rule + "\" has a result letter that no operand has",
                            "the letters behind `->` are some of those before it");
    }
    y.dims.push_back(size);
  }
  if (!y.has_batch()) {
    return shape_error("`einsum` \"" + rule + "\" would sum over the batch",
                       "keep the letter of the batch behind `->`");
  }
  return OpShape{{std::move(y)}};
}

Result<OpShape> infer_deconv(Types in, const Attrs& attrs) {
  const TensorType& x = in[0];
  XRUN_TRY(expect_image("deconv", x));
  const int64_t k = attrs.integer("k");
  const int64_t stride = attrs.integer("stride");
  const int64_t pad = attrs.integer("pad");
  const int64_t out = attrs.integer("width");
  XRUN_TRY(expect_range("deconv", "width", out, 1, 1 << 20));
  XRUN_TRY(expect_range("deconv", "stride", stride, 1, 4096));
  XRUN_TRY(expect_range("deconv", "pad", pad, 0, k - 1));
  const auto grown = [&](int64_t size) { return (size - 1) * stride - 2 * pad + k; };
  if (grown(x.dims[2]) < 1 || grown(x.dims[3]) < 1) {
    return shape_error("`deconv` with k=" + std::to_string(k) + " leaves nothing of " + to_text(x),
                       "make `k` larger or `pad` smaller");
  }
  std::vector<ParamDecl> params{param("weight", {x.dims[1], out, k, k}, he_normal(x.dims[1] * k * k))};
  if (attrs.flag("bias")) {
    params.push_back(param("bias", {out}));
  }
  return OpShape{{with_dims(x, {kBatch, out, grown(x.dims[2]), grown(x.dims[3])})}, std::move(params)};
}

Result<OpShape> infer_group_norm(Types in, const Attrs& attrs) {
  XRUN_TRY(expect_image("group_norm", in[0]));
  const int64_t channels = in[0].dims[1];
  const int64_t groups = attrs.integer("groups");
  XRUN_TRY(expect_range("group_norm", "groups", groups, 1, channels));
  if (channels % groups != 0) {
    return shape_error("`group_norm` cannot split " + to_text(in[0]) + " into " + std::to_string(groups) + " groups",
                       "let `groups` divide the channels");
  }
  return OpShape{{with_dims(in[0], in[0].dims)}, {param("weight", {channels}, kOnes), param("bias", {channels})}};
}

Result<OpShape> infer_gather(Types in, const Attrs&) {
  if (!in[0].sharded) {
    return rank_error("gather", "the logits of a head, sharded[N, C]", in[0],
                      "leave it out: dense logits are in one place");
  }
  return OpShape{{weight_type(in[0].dims)}};
}

Result<OpShape> infer_feature_metric(Types in, const Attrs&) { return OpShape{{rows_of(in[0])}}; }

constexpr Op later(std::string_view name, std::string_view signature, std::string_view group, std::string_view doc,
                   std::string_view example, Result<OpShape> (*infer)(Types, const Attrs&),
                   std::string_view aliases = {}) {
  return {.def = {.name = name,
                  .signature = signature,
                  .group = group,
                  .doc = doc,
                  .example = example,
                  .aliases = aliases,
                  .availability = Availability::kNotYet,
                  .infer = infer}};
}

constexpr std::array kLater{
    later("matmul", "(a: [N, ...], b: [N, ...])", "dense", "matrix product of the last two dimensions", "matmul(b)",
          infer_matmul),
    later("einsum", "(a: [N, ...], b: [N, ...], rule: str)", "dense", "sum of products named by letters",
          "einsum(b, \"nij,njk->nik\")", infer_einsum),
    later("deconv", "(x: [N, C, H, W], width: int, k: int, stride: int = 1, pad: int = 0, bias: bool = false)",
          "convolution", "transposed convolution; H becomes (H - 1) stride - 2 pad + k", "deconv(64, 2, stride=2)",
          infer_deconv, "conv_transpose conv_transpose2d conv2d_transpose kernel_size=k padding=pad in_channels="),
    later("group_norm", "(x: [N, C, H, W], groups: int, eps: float = 1e-5)", "norm",
          "zero mean and unit variance of each group of channels of a sample", "group_norm(32)", infer_group_norm),
    later("gather", "(logits: sharded[N, C])", "metrics", "the logits of a small head in one place", "gather(id)",
          infer_gather),
    later("verification", "(source: source, feature: [N, D], flip: bool = true)", "metrics",
          "accuracy of telling same from different pairs", "verification(lfw, feature)", infer_feature_metric),
    later("recall_at", "(k: int, feature: [N, D])", "metrics", "share of samples with their class among k neighbours",
          "recall_at(1, feature)", infer_feature_metric),
};

template <size_t kSize>
constexpr std::array<const Op*, kSize> pointers(const std::array<Op, kSize>& ops) {
  std::array<const Op*, kSize> all{};
  for (size_t i = 0; i < kSize; ++i) {
    all[i] = &ops[i];
  }
  return all;
}

constexpr auto kOps = pointers(kLater);

}  // namespace

std::span<const Op* const> later_ops() { return kOps; }

}  // namespace xrun::ops
