// Products of two tensors, sample by sample. einsum("nij,njk->nik") computes y[n, i, k] = sum over j of a[n, i, j] ·
// b[n, j, k]: letters that the result lacks are summed. matmul is the product over the last two dimensions. The second
// operand may be a parameter, which all samples share; its gradient is the sum over the samples.
// Tests: tests/ops/conformance_test.cpp
#include <algorithm>
#include <array>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/dense/einsum_kernel.h"
#include "ops/dense/einsum_rule.h"
#include "ops/shape.h"
#include "ops/shard.h"

namespace xrun::ops {
namespace {

using Types = std::span<const TensorType>;

// Returns an error unless the operands are two activations, or an activation and a parameter.
Status expect_operands(std::string_view op, Types in) {
  XRUN_TRY(expect_activation(op, in[0]));
  const TensorType& b = in[1];
  return b.has_batch() || b.sharded || b.per_block() || b.dtype != DType::kF32 || b.classes > 0
             ? expect_activation(op, b)
             : Status();
}

Result<OpShape> infer_einsum(Types in, const Attrs& attrs) {
  XRUN_ASSIGN(const ProductRule rule, parse_product_rule(attrs.text("rule")));
  const auto about = [&rule] { return "`einsum` \"" + rule.text() + "\""; };
  std::array<int64_t, 256> sizes{};
  const auto size_of_letter = [&sizes](char letter) -> int64_t& { return sizes[static_cast<unsigned char>(letter)]; };
  XRUN_TRY(expect_operands("einsum", in));
  for (size_t o = 0; o < 2; ++o) {
    const std::string& letters = o == 0 ? rule.a : rule.b;
    if (letters.size() != in[o].dims.size()) {
      return shape_error(about() + " does not fit " + to_text(in[o]), "write a letter for each dimension");
    }
    for (size_t d = 0; d < letters.size(); ++d) {
      int64_t& size = size_of_letter(letters[d]);
      if (size != 0 && size != in[o].dims[d]) {
        return shape_error(about() + " does not fit " + to_text(in[0]) + " and " + to_text(in[1]),
                           "give dimensions of different sizes different letters");
      }
      size = in[o].dims[d];
    }
  }
  TensorType y = with_dims(in[0], {});
  for (const char letter : rule.y) {
    const int64_t size = size_of_letter(letter);
    if (size == 0) {
      return argument_error(about() + " has a result letter that no operand has",
                            "after `->`, use only letters that are before it");
    }
    y.dims.push_back(size);
  }
  const bool apart = in[1].has_batch() ? rule.a[0] != rule.b[0] : has_letter(rule.b, rule.a[0]);
  if (apart || rule.a[0] != rule.y[0]) {
    return shape_error(about() + " would mix samples",
                       "begin the result and each operand that has a batch with the same letter");
  }
  return OpShape{{std::move(y)}};
}

Result<OpShape> infer_matmul(Types in, const Attrs&) {
  XRUN_TRY(expect_operands("matmul", in));
  const auto& a = in[0].dims;
  const auto& b = in[1].dims;
  const bool shared = !in[1].has_batch();
  const bool fits = shared ? a.size() >= 2 && b.size() == 2
                           : a.size() >= 3 && a.size() == b.size() && std::equal(a.begin(), a.end() - 2, b.begin());
  if (!fits || a.back() != b[b.size() - 2]) {
    return shape_error("cannot multiply matrices " + to_text(in[0]) + " and " + to_text(in[1]),
                       "[N, ..., I, K] and [N, ..., K, J], or a parameter [K, J], give [N, ..., I, J]");
  }
  TensorType y = with_dims(in[0], a);
  y.dims.back() = b.back();
  return OpShape{{std::move(y)}};
}

Result<OpShape> infer_dw(Types, const Attrs& attrs) { return OpShape{{weight_type(attrs.integers("dims"))}}; }

OpCost product_cost(Types in, Types out, const Attrs& attrs) {
  const ProductRule rule = product_rule_of(in, attrs);
  double flops = 2;
  std::string seen;
  const auto count = [&](const std::string& letters, const TensorType& type) {
    for (size_t d = 0; d < letters.size(); ++d) {
      if (letters[d] != rule.a[0] && !has_letter(seen, letters[d])) {
        seen += letters[d];
        flops *= static_cast<double>(type.dims[d]);
      }
    }
  };
  count(rule.a, in[0]);
  count(rule.b, in[1]);
  return {.flops = flops, .bytes = traffic(in, out)};
}

// The gradient of an operand is the product of dy and the other operand, summed over the letters that the operand
// lacks.
Status grad_product(GradBuilder& builder) {
  const std::array<TensorType, 2> in{builder.type(builder.input(0)), builder.type(builder.input(1))};
  const ProductRule rule = product_rule_of(in, builder.node().attrs);
  const ValueId dy = builder.output_grad(0);
  const auto attrs_of = [](const ProductRule& gradient, const TensorType& of) {
    return Attrs{{"rule", gradient.text()}, {"dims", of.dims}};
  };
  XRUN_TRY(builder.set_grad_by(0, "einsum.grad", {dy, builder.input(1)}, attrs_of({rule.y, rule.b, rule.a}, in[0])));
  return builder.set_grad_by(1, in[1].has_batch() ? "einsum.grad" : "einsum.dw", {dy, builder.input(0)},
                             attrs_of({rule.y, rule.a, rule.b}, in[1]));
}

// Returns the shard rule, which has the letters of the product rule, except that the batch is n.
std::string shard_product(Types in, Types, const Attrs& attrs) {
  const ProductRule rule = product_rule_of(in, attrs);
  const auto renamed = [&rule](std::string letters) {
    for (char& c : letters) {
      c = c == rule.a[0] ? 'n' : c == 'n' ? rule.a[0] : c;
    }
    return letters;
  };
  return shard_text({renamed(rule.a), renamed(rule.b)}, {renamed(rule.y)});
}

constexpr Op kMatmul{
    .def = {.name = "matmul",
            .signature = "(a: [N, ...], b: [...])",
            .group = "dense",
            .doc = "matrix product of the last two dimensions, of two tensors or with a parameter [K, J]",
            .example = "matmul(b)",
            .aliases = "bmm batch_matmul dot mm",
            .precision = PrecisionRule::kNarrow,
            .layout = LayoutRule::kAny,
            .infer = infer_matmul,
            .cost = product_cost,
            .grad = grad_product,
            .shard_of = shard_product},
    .cpu = make_product};

constexpr Op kEinsum{
    .def = {.name = "einsum",
            .signature = "(a: [N, ...], b: [...], rule: str)",
            .group = "dense",
            .doc = "sum of products named by letters; a letter that is not in the result is summed over",
            .example = "einsum(b, \"nij,njk->nik\")",
            .aliases = "equation=rule",
            .precision = PrecisionRule::kNarrow,
            .layout = LayoutRule::kAny,
            .infer = infer_einsum,
            .cost = product_cost,
            .grad = grad_product,
            .shard_of = shard_product},
    .cpu = make_product};

// Computes the gradient of an operand. Inputs: dy and the other operand. The result may have letters that neither input
// has.
constexpr Op kEinsumGrad{.def = {.name = "einsum.grad",
                                 .signature = "(dy: [N, ...], other: [...])",
                                 .group = "dense",
                                 .doc = "gradient of a product by one of its operands",
                                 .precision = PrecisionRule::kNarrow,
                                 .layout = LayoutRule::kAny,
                                 .infer = infer_dims,
                                 .cost = product_cost,
                                 .shard_of = shard_product},
                         .cpu = make_product};

constexpr Op kEinsumDw{.def = {.name = "einsum.dw",
                               .signature = "(dy: [N, ...], a: [N, ...])",
                               .group = "dense",
                               .doc = "gradient of a product by a parameter, summed over the samples",
                               .rows = RowProperty::kReduces,
                               .precision = PrecisionRule::kNarrow,
                               .layout = LayoutRule::kAny,
                               .infer = infer_dw,
                               .cost = product_cost,
                               .shard_of = shard_product},
                       .cpu = make_product};

constexpr std::array<const Op*, 4> kOps{&kMatmul, &kEinsum, &kEinsumGrad, &kEinsumDw};

}  // namespace

std::span<const Op* const> product_ops() { return kOps; }

}  // namespace xrun::ops
