// Looks up a trained row for each whole number: y[n, .., :] = weight[x[n, ..], :]. x is index(R)[N, ...], weight is
// [rows, dim] with R <= rows.
// Tests: tests/ops/oracles_test.cpp
#include <cstring>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/initial_values.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_embed(std::span<const TensorType> in, const Attrs& attrs) {
  const TensorType& x = in[0];
  if (!x.has_batch() || x.classes == 0 || x.dtype != DType::kI32) {
    return rank_error("embed", "whole numbers, index(rows)[N, ...]", x,
                      "declare the input as whole numbers: input x: index(rows)[N, T]");
  }
  const int64_t rows = attrs.integer("rows");
  const int64_t dim = attrs.integer("dim");
  XRUN_TRY(expect_range("embed", "dim", dim, 1, 1 << 20));
  XRUN_TRY(expect_range("embed", "rows", rows, 1, int64_t{1} << 31));
  if (x.classes > rows) {
    return shape_error("`embed` has rows=" + std::to_string(rows) + " for " + to_text(x),
                       "each number needs a row: rows=" + std::to_string(x.classes));
  }
  TensorType y = weight_type(x.dims);
  y.dims.push_back(dim);
  XRUN_ASSIGN(const Init init, init_of("embed", attrs, rows, dim, kSmall));
  return OpShape{{std::move(y)}, {param("weight", {rows, dim}, init)}};
}

// Inputs: x, dy.
Result<OpShape> infer_grad(std::span<const TensorType> in, const Attrs& attrs) {
  return OpShape{{weight_type({attrs.integer("rows"), in[1].dims.back()})}};
}

OpCost embed_cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return {.flops = 0, .bytes = 2 * traffic(in, out)};
}

OpCost grad_cost(std::span<const TensorType> in, std::span<const TensorType>, const Attrs&) {
  return {.flops = static_cast<double>(in[1].row_elements()), .bytes = 3 * traffic(in, {})};
}

Status grad_embed(GradBuilder& builder) {
  return builder.set_grad_by(1, "embed.grad", {builder.input(0), builder.output_grad(0)},
                             Attrs{{"rows", builder.node().attrs.integer("rows")}});
}

// Calls body(i, row) for each number of the block. Returns an error if a number is outside of the table, since numbers
// come from data.
template <typename Body>
Status for_each_number(const KernelCall& call, int64_t count, int64_t table_rows, const Body& body) {
  const int32_t* const x = call.inputs[0].as<int32_t>();
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] < 0 || x[i] >= table_rows) {
      return Error{ErrorKind::kContent, "XG0402",
                   "the number " + std::to_string(x[i]) + " has no row in an `embed` of " + std::to_string(table_rows),
                   "numbers must be in 0.." + std::to_string(table_rows - 1)};
    }
    body(i, x[i]);
  }
  return {};
}

Result<std::unique_ptr<Kernel>> make_embed(const KernelSpec& spec) {
  return kernel_of([count = block_elements(spec.inputs[0], spec.rows), rows = spec.inputs[1].dims[0],
                    dim = spec.inputs[1].dims[1]](const KernelCall& call) {
    return for_each_number(call, count, rows, [&](int64_t i, int64_t row) {
      std::memcpy(call.outputs[0].as<float>() + i * dim, call.inputs[1].as<float>() + row * dim,
                  static_cast<size_t>(dim) * sizeof(float));
    });
  });
}

template <typename T>
struct AddBody {
  template <class L>
  XRUN_INLINE static void run(const T* dy, float* row, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(row + i, load_upto<L>(row + i, n - i) + load_upto<L>(dy + i, n - i), n - i);
    }
  }
};

// Adds rows in the order of the samples, so that rows of equal numbers are always added in the same order.
template <typename T>
Result<std::unique_ptr<Kernel>> make_grad_of(const KernelSpec& spec) {
  return kernel_of([isa = spec.isa, count = block_elements(spec.inputs[0], spec.rows), rows = spec.outputs[0].dims[0],
                    dim = spec.outputs[0].dims[1]](const KernelCall& call) {
    return for_each_number(call, count, rows, [&](int64_t i, int64_t row) {
      run_for<AddBody<T>>(isa, call.inputs[1].as<T>() + i * dim, call.outputs[0].as<float>() + row * dim, dim);
    });
  });
}

Result<std::unique_ptr<Kernel>> make_grad(const KernelSpec& spec) {
  return with_type(spec.inputs[1].dtype, [&](auto number) { return make_grad_of<decltype(number)>(spec); });
}

}  // namespace

constinit const Op kEmbed{
    .def = {.name = "embed",
            .signature = "(x: index(R)[N, ...], rows: int, dim: int, init: init = none)",
            .group = "dense",
            .doc = "a trained row for each whole number",
            .example = "embed(50_000, 256)",
            .aliases = "embedding num_embeddings=rows input_dim=rows embedding_dim=dim output_dim=dim",
            .layout = LayoutRule::kRowMajor,
            .infer = infer_embed,
            .cost = embed_cost,
            .grad = grad_embed,
            .shard = "n*,_d->n*d"},
    .cpu = make_embed};

constinit const Op kEmbedGrad{.def = {.name = "embed.grad",
                                      .signature = "(x: index(R)[N, ...], dy: [N, ...])",
                                      .group = "dense",
                                      .doc = "gradient of the rows, summed over the samples",
                                      .rows = RowProperty::kReduces,
                                      .layout = LayoutRule::kRowMajor,
                                      .infer = infer_grad,
                                      .cost = grad_cost,
                                      .shard = "n*,n*d->_d"},
                              .cpu = make_grad};

}  // namespace xrun::ops
