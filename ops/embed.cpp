#include "ops/embed.h"

#include <cstring>

#include "graph/autodiff.h"
#include "ops/shape.h"
#include "ops/simd.h"

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
  if (is_image(y)) {
    return rank_error("embed", "at most two dimensions after the batch", x, "`flatten` the numbers first");
  }
  OpShape shape;
  shape.outputs.push_back(std::move(y));
  shape.params.push_back(
      {.name = "weight", .type = weight_type({rows, dim}), .init = {.kind = Init::kNormal, .value = 0.02}});
  return shape;
}

// inputs: x, dy.
Result<OpShape> infer_grad(std::span<const TensorType> in, const Attrs& attrs) {
  OpShape shape;
  shape.outputs.push_back(weight_type({attrs.integer("rows"), in[1].dims.back()}));
  return shape;
}

OpCost embed_cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return {.flops = 0, .bytes = 2 * traffic(in, out)};
}

OpCost grad_cost(std::span<const TensorType> in, std::span<const TensorType>, const Attrs&) {
  return {.flops = static_cast<double>(in[1].row_elements()), .bytes = 3 * traffic(in, {})};
}

Status grad_embed(GradBuilder& builder) {
  XRUN_ASSIGN(const std::vector<ValueId> grad, builder.emit("embed.grad", {builder.input(0), builder.output_grad(0)},
                                                            Attrs{{"rows", builder.node().attrs.integer("rows")}}));
  builder.set_grad(1, grad[0]);
  return {};
}

class EmbedBase : public Kernel {
 protected:
  EmbedBase(const KernelSpec& spec, int64_t table_rows, int64_t dim)
      : count_(block_elements(spec.inputs[0], spec.rows)), table_rows_(table_rows), dim_(dim) {}

  // Numbers come from data, so one outside the table is the data's fault.
  Status check(int32_t row) const {
    if (row < 0 || row >= table_rows_) {
      return Error{ErrorKind::kContent, "XG0402",
                   "the number " + std::to_string(row) + " has no row in an `embed` of " + std::to_string(table_rows_),
                   "numbers lie in 0.." + std::to_string(table_rows_ - 1)};
    }
    return {};
  }

  int64_t count_;
  int64_t table_rows_;
  int64_t dim_;
};

class Embed final : public EmbedBase {
 public:
  explicit Embed(const KernelSpec& spec) : EmbedBase(spec, spec.inputs[1].dims[0], spec.inputs[1].dims[1]) {}
  Status run(const KernelCall& call) const override {
    const int32_t* const x = call.inputs[0].as<int32_t>();
    const float* const table = call.inputs[1].as<float>();
    float* const y = call.outputs[0].as<float>();
    for (int64_t i = 0; i < count_; ++i) {
      XRUN_TRY(check(x[i]));
      std::memcpy(y + i * dim_, table + x[i] * dim_, static_cast<size_t>(dim_) * sizeof(float));
    }
    return {};
  }
};

template <typename T>
struct AddBody {
  XRUN_INLINE static void run(const T* dy, float* row, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(row + i, load_upto(row + i, n - i) + load_upto(dy + i, n - i), n - i);
    }
  }
};

// Rows are added in the order of the samples, so equal numbers meet in one order.
template <typename T>
class EmbedGrad final : public EmbedBase {
 public:
  explicit EmbedGrad(const KernelSpec& spec)
      : EmbedBase(spec, spec.outputs[0].dims[0], spec.outputs[0].dims[1]), isa_(spec.isa) {}
  Status run(const KernelCall& call) const override {
    const int32_t* const x = call.inputs[0].as<int32_t>();
    const T* const dy = call.inputs[1].as<T>();
    float* const sums = call.outputs[0].as<float>();
    for (int64_t i = 0; i < count_; ++i) {
      XRUN_TRY(check(x[i]));
      run_for<AddBody<T>>(isa_, dy + i * dim_, sums + x[i] * dim_, dim_);
    }
    return {};
  }

 private:
  Isa isa_;
};

Result<std::unique_ptr<Kernel>> make_embed(const KernelSpec& spec) {
  return std::unique_ptr<Kernel>(std::make_unique<Embed>(spec));
}

Result<std::unique_ptr<Kernel>> make_grad(const KernelSpec& spec) {
  if (spec.inputs[1].dtype == DType::kBF16) {
    return std::unique_ptr<Kernel>(std::make_unique<EmbedGrad<Bf16>>(spec));
  }
  return std::unique_ptr<Kernel>(std::make_unique<EmbedGrad<float>>(spec));
}

}  // namespace

constinit const Op kEmbed{.def = {.name = "embed",
                                  .signature = "(x: index(R)[N, ...], rows: int, dim: int)",
                                  .group = "dense",
                                  .doc = "a trained row for each whole number",
                                  .example = "embed(50_000, 256)",
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
                                      .infer = infer_grad,
                                      .cost = grad_cost,
                                      .shard = "n*,n*d->_d"},
                              .cpu = make_grad};

}  // namespace xrun::ops
