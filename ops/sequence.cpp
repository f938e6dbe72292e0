#include "ops/sequence.h"

#include <array>

#include "graph/autodiff.h"
#include "ops/columns.h"
#include "ops/copies.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

using Types = std::span<const TensorType>;

constexpr Init kSmall{.kind = Init::kNormal, .value = 0.02};

Status expect_sequence(std::string_view op, const TensorType& x) {
  XRUN_TRY(expect_activation(op, x));
  if (x.rank() != 3) {
    return rank_error(op, "a sequence [N, T, D]", x, kMakeSequence);
  }
  return {};
}

OpShape one_output(TensorType type) {
  OpShape shape;
  shape.outputs.push_back(std::move(type));
  return shape;
}

// ---- take ----

Result<OpShape> infer_take(Types in, const Attrs& attrs) {
  XRUN_TRY(expect_activation("take", in[0]));
  if (in[0].rank() < 3) {
    return rank_error("take", "a sequence [N, T, ...]", in[0], kMakeSequence);
  }
  XRUN_TRY(expect_range("take", "i", attrs.integer("i"), 0, in[0].dims[1] - 1));
  std::vector<int64_t> dims = in[0].dims;
  dims.erase(dims.begin() + 1);
  return one_output(with_dims(in[0], std::move(dims)));
}

Status grad_take(GradBuilder& builder) {
  Attrs attrs = builder.node().attrs;
  attrs.set("dims", builder.type(builder.input(0)).dims);
  XRUN_ASSIGN(const std::vector<ValueId> dx, builder.emit("take.grad", {builder.output_grad(0)}, std::move(attrs)));
  builder.set_grad(0, dx[0]);
  return {};
}

Result<OpShape> infer_take_grad(Types in, const Attrs& attrs) {
  return one_output(with_dims(in[0], attrs.integers("dims")));
}

// Strides of the sequence beside the dimensions of the taken position.
std::vector<int64_t> strides_without_positions(const TensorType& x, int64_t rows) {
  std::vector<int64_t> strides = block_strides(x, rows);
  strides.erase(strides.begin() + 1);
  return strides;
}

template <typename T>
class Take final : public Copies<T> {
 public:
  explicit Take(const KernelSpec& spec) {
    const TensorType& y = spec.outputs[0];
    this->copies_.push_back(
        {.from = spec.attrs.integer("i") * block_strides(spec.inputs[0], spec.rows)[1],
         .loop = StridedLoop<2>(block_dims(y, spec.rows),
                                {block_strides(y, spec.rows), strides_without_positions(spec.inputs[0], spec.rows)})});
  }
};

template <typename T>
class TakeGrad final : public Copies<T> {
 public:
  explicit TakeGrad(const KernelSpec& spec) {
    const TensorType& dx = spec.outputs[0];
    const TensorType& dy = spec.inputs[0];
    this->zeroes_ = block_elements(dx, spec.rows);
    this->copies_.push_back(
        {.to = spec.attrs.integer("i") * block_strides(dx, spec.rows)[1],
         .loop = StridedLoop<2>(block_dims(dy, spec.rows),
                                {strides_without_positions(dx, spec.rows), block_strides(dy, spec.rows)})});
  }
};

// ---- class_token ----

Result<OpShape> infer_token(Types in, const Attrs&) {
  XRUN_TRY(expect_sequence("class_token", in[0]));
  OpShape shape = one_output(with_dims(in[0], {kBatch, in[0].dims[1] + 1, in[0].dims[2]}));
  shape.params.push_back({.name = "token", .type = weight_type({in[0].dims[2]}), .init = kSmall});
  return shape;
}

Status grad_token(GradBuilder& builder) {
  XRUN_ASSIGN(const std::vector<ValueId> grads, builder.emit("class_token.grad", {builder.output_grad(0)}));
  for (int i = 0; i < 2; ++i) {
    if (builder.wanted(i)) {
      builder.set_grad(i, grads[static_cast<size_t>(i)]);
    }
  }
  return {};
}

// inputs: dy [N, T + 1, D]; outputs: dx, dtoken [D].
Result<OpShape> infer_token_grad(Types in, const Attrs&) {
  OpShape shape = one_output(with_dims(in[0], {kBatch, in[0].dims[1] - 1, in[0].dims[2]}));
  shape.outputs.push_back(weight_type({in[0].dims[2]}));
  return shape;
}

template <typename T>
class ClassToken final : public Kernel {
 public:
  explicit ClassToken(const KernelSpec& spec)
      : rows_(spec.rows), sequence_(spec.inputs[0].row_elements()), d_(spec.inputs[0].dims[2]) {}
  Status run(const KernelCall& call) const override {
    const T* x = call.inputs[0].as<T>();
    const float* const token = call.inputs[1].as<float>();
    T* y = call.outputs[0].as<T>();
    for (int64_t r = 0; r < rows_; ++r, x += sequence_, y += sequence_ + d_) {
      for (int64_t i = 0; i < d_; ++i) {
        assign(y[i], token[i]);
      }
      std::memcpy(y + d_, x, static_cast<size_t>(sequence_) * sizeof(T));
    }
    return {};
  }

 private:
  int64_t rows_;
  int64_t sequence_;
  int64_t d_;
};

template <typename T>
class ClassTokenGrad final : public Kernel {
 public:
  explicit ClassTokenGrad(const KernelSpec& spec)
      : rows_(spec.rows), sequence_(spec.outputs[0].row_elements()), d_(spec.inputs[0].dims[2]) {}
  Status run(const KernelCall& call) const override {
    const T* dy = call.inputs[0].as<T>();
    T* dx = call.outputs[0].as<T>();
    auto* const dtoken = call.outputs[1].as<float>();
    for (int64_t r = 0; r < rows_; ++r, dx += sequence_, dy += sequence_ + d_) {
      for (int64_t i = 0; i < d_; ++i) {
        dtoken[i] += to_float(dy[i]);
      }
      std::memcpy(dx, dy + d_, static_cast<size_t>(sequence_) * sizeof(T));
    }
    return {};
  }

 private:
  int64_t rows_;
  int64_t sequence_;
  int64_t d_;
};

// ---- position_embedding ----

Result<OpShape> infer_position(Types in, const Attrs& attrs) {
  XRUN_TRY(expect_sequence("position_embedding", in[0]));
  XRUN_ASSIGN(OpShape shape, same_as_input(in, attrs));
  shape.params.push_back({.name = "embedding", .type = weight_type({in[0].dims[1], in[0].dims[2]}), .init = kSmall});
  return shape;
}

Status grad_position(GradBuilder& builder) {
  if (builder.wanted(0)) {
    builder.set_grad(0, builder.output_grad(0));
  }
  if (builder.wanted(1)) {
    XRUN_ASSIGN(const std::vector<ValueId> sum, builder.emit("position_embedding.grad", {builder.output_grad(0)}));
    builder.set_grad(1, sum[0]);
  }
  return {};
}

Result<OpShape> infer_position_grad(Types in, const Attrs&) {
  return one_output(weight_type({in[0].dims[1], in[0].dims[2]}));
}

template <typename T>
struct AddRowsBody {
  XRUN_INLINE static void run(const T* x, const float* e, T* y, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
      for (int64_t i = 0; i < n; i += kLanes) {
        store_upto(y + i, load_upto(x + i, n - i) + load_upto(e + i, n - i), n - i);
      }
    }
  }
};

template <typename T>
class PositionEmbedding final : public Kernel {
 public:
  explicit PositionEmbedding(const KernelSpec& spec)
      : isa_(spec.isa), rows_(spec.rows), n_(spec.inputs[0].row_elements()) {}
  Status run(const KernelCall& call) const override {
    run_for<AddRowsBody<T>>(isa_, static_cast<const T*>(call.inputs[0].as<T>()),
                            static_cast<const float*>(call.inputs[1].as<float>()), call.outputs[0].as<T>(), rows_, n_);
    return {};
  }

 private:
  Isa isa_;
  int64_t rows_;
  int64_t n_;
};

template <typename T>
class PositionEmbeddingGrad final : public Kernel {
 public:
  explicit PositionEmbeddingGrad(const KernelSpec& spec)
      : isa_(spec.isa), rows_(spec.rows), n_(spec.inputs[0].row_elements()) {}
  Status run(const KernelCall& call) const override {
    add_column_sums(isa_, static_cast<const T*>(call.inputs[0].as<T>()), rows_, n_, call.outputs[0].as<float>());
    return {};
  }

 private:
  Isa isa_;
  int64_t rows_;
  int64_t n_;
};

constexpr Op kTake{.def = {.name = "take",
                           .signature = "(x: [N, T, ...], i: int)",
                           .group = "attention",
                           .doc = "one position of a sequence",
                           .example = "take(0)",
                           .infer = infer_take,
                           .grad = grad_take,
                           .shard = "n_*->n*"},
                   .cpu = make_by_dtype<Take>};

constexpr Op kTakeGrad{.def = {.name = "take.grad",
                               .signature = "(dy: [N, ...])",
                               .group = "attention",
                               .doc = "gradient of take: zero at the other positions",
                               .infer = infer_take_grad,
                               .shard = "n*->n_*"},
                       .cpu = make_by_dtype<TakeGrad>};

constexpr Op kClassToken{.def = {.name = "class_token",
                                 .signature = "(x: [N, T, D])",
                                 .group = "attention",
                                 .doc = "puts a trained position before the others",
                                 .example = "class_token",
                                 .infer = infer_token,
                                 .grad = grad_token,
                                 .shard = "n_d,d->n_d"},
                         .cpu = make_by_dtype<ClassToken>};

constexpr Op kClassTokenGrad{
    .def = {.name = "class_token.grad",
            .signature = "(dy: [N, T, D])",
            .group = "attention",
            .doc = "gradients of class_token: of the sequence, and of the token over the samples",
            .rows = RowProperty::kReduces,
            .infer = infer_token_grad,
            .shard = "n_d->n_d,d"},
    .cpu = make_by_dtype<ClassTokenGrad>};

constexpr Op kPosition{.def = {.name = "position_embedding",
                               .signature = "(x: [N, T, D])",
                               .group = "attention",
                               .doc = "adds a trained vector to each position",
                               .example = "position_embedding",
                               .infer = infer_position,
                               .grad = grad_position,
                               .shard = "ntd,td->ntd"},
                       .cpu = make_by_dtype<PositionEmbedding>};

constexpr Op kPositionGrad{.def = {.name = "position_embedding.grad",
                                   .signature = "(dy: [N, T, D])",
                                   .group = "attention",
                                   .doc = "gradient of the trained vectors, summed over the samples",
                                   .rows = RowProperty::kReduces,
                                   .infer = infer_position_grad,
                                   .shard = "ntd->td"},
                           .cpu = make_by_dtype<PositionEmbeddingGrad>};

constexpr std::array<const Op*, 6> kOps{&kTake, &kTakeGrad, &kClassToken, &kClassTokenGrad, &kPosition, &kPositionGrad};

}  // namespace

std::span<const Op* const> sequence_ops() { return kOps; }

}  // namespace xrun::ops
