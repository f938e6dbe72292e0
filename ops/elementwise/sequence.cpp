// Operators that vision transformers use together with attention, on sequences x [N, T, D]: take(i) returns one
// position, class_token adds a trained position before the others, and position_embedding adds a trained vector to each
// position. Source: Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021.
// Tests: tests/ops/conformance_test.cpp
#include <array>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/loops/columns.h"
#include "ops/loops/copies.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

using Types = std::span<const TensorType>;

Status expect_sequence(std::string_view op, const TensorType& x) {
  XRUN_TRY(expect_activation(op, x));
  if (x.rank() != 3) {
    return rank_error(op, "a sequence [N, T, D]", x, kMakeSequence);
  }
  return {};
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
  return OpShape{{with_dims(in[0], std::move(dims))}};
}

Status grad_take(GradBuilder& builder) {
  Attrs attrs = builder.node().attrs;
  attrs.set("dims", builder.type(builder.input(0)).dims);
  return builder.set_grads_by("take.grad", {builder.output_grad(0)}, std::move(attrs));
}

// Returns the strides of a sequence without the stride of its positions, for a loop over one position.
std::vector<int64_t> strides_without_positions(const TensorType& x, int64_t rows) {
  std::vector<int64_t> strides = block_strides(x, rows);
  strides.erase(strides.begin() + 1);
  return strides;
}

Copies copies_of_take(const KernelSpec& spec) {
  const TensorType& x = spec.inputs[0];
  return copy_from(spec, spec.attrs.integer("i") * block_strides(x, spec.rows)[1],
                   strides_without_positions(x, spec.rows));
}

Copies copies_of_take_grad(const KernelSpec& spec) {
  const TensorType& dx = spec.outputs[0];
  return copy_to(spec, spec.attrs.integer("i") * block_strides(dx, spec.rows)[1],
                 strides_without_positions(dx, spec.rows));
}

// ---- class_token ----

Result<OpShape> infer_token(Types in, const Attrs&) {
  XRUN_TRY(expect_sequence("class_token", in[0]));
  return OpShape{{with_dims(in[0], {kBatch, in[0].dims[1] + 1, in[0].dims[2]})},
                 {param("token", {in[0].dims[2]}, kSmall)}};
}

Status grad_token(GradBuilder& builder) { return builder.set_grads_by("class_token.grad", {builder.output_grad(0)}); }

// Inputs: dy [N, T + 1, D]. Outputs: dx, dtoken [D].
Result<OpShape> infer_token_grad(Types in, const Attrs&) {
  return OpShape{{with_dims(in[0], {kBatch, in[0].dims[1] - 1, in[0].dims[2]}), weight_type({in[0].dims[2]})}};
}

template <typename T>
Result<std::unique_ptr<Kernel>> make_token(const KernelSpec& spec) {
  return kernel_of(
      [rows = spec.rows, sequence = spec.inputs[0].row_elements(), d = spec.inputs[0].dims[2]](const KernelCall& call) {
        const T* x = call.inputs[0].as<T>();
        const float* const token = call.inputs[1].as<float>();
        T* y = call.outputs[0].as<T>();
        for (int64_t r = 0; r < rows; ++r, x += sequence, y += sequence + d) {
          for (int64_t i = 0; i < d; ++i) {
            assign(y[i], token[i]);
          }
          std::memcpy(y + d, x, static_cast<size_t>(sequence) * sizeof(T));
        }
      });
}

template <typename T>
Result<std::unique_ptr<Kernel>> make_token_grad(const KernelSpec& spec) {
  return kernel_of([rows = spec.rows, sequence = spec.outputs[0].row_elements(),
                    d = spec.inputs[0].dims[2]](const KernelCall& call) {
    const T* dy = call.inputs[0].as<T>();
    T* dx = call.outputs[0].as<T>();
    auto* const dtoken = call.outputs[1].as<float>();
    for (int64_t r = 0; r < rows; ++r, dx += sequence, dy += sequence + d) {
      for (int64_t i = 0; i < d; ++i) {
        dtoken[i] += to_float(dy[i]);
      }
      std::memcpy(dx, dy + d, static_cast<size_t>(sequence) * sizeof(T));
    }
  });
}

// ---- position_embedding ----

Result<OpShape> infer_position(Types in, const Attrs&) {
  XRUN_TRY(expect_sequence("position_embedding", in[0]));
  return OpShape{{with_dims(in[0], in[0].dims)}, {param("embedding", {in[0].dims[1], in[0].dims[2]}, kSmall)}};
}

Status grad_position(GradBuilder& builder) {
  if (builder.wanted(0)) {
    builder.set_grad(0, builder.output_grad(0));
  }
  return builder.set_grad_by(1, "position_embedding.grad", {builder.output_grad(0)});
}

Result<OpShape> infer_position_grad(Types in, const Attrs&) {
  return OpShape{{weight_type({in[0].dims[1], in[0].dims[2]})}};
}

template <typename T>
struct AddRowsBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, const float* e, T* y, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
      for (int64_t i = 0; i < n; i += kLanes) {
        store_upto(y + i, load_upto<L>(x + i, n - i) + load_upto<L>(e + i, n - i), n - i);
      }
    }
  }
};

template <typename T>
Result<std::unique_ptr<Kernel>> make_position(const KernelSpec& spec) {
  return kernel_of([isa = spec.isa, rows = spec.rows, n = spec.inputs[0].row_elements()](const KernelCall& call) {
    run_for<AddRowsBody<T>>(isa, call.inputs[0].as<T>(), call.inputs[1].as<float>(), call.outputs[0].as<T>(), rows, n);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> make_position_grad(const KernelSpec& spec) {
  return kernel_of([isa = spec.isa, rows = spec.rows, n = spec.inputs[0].row_elements()](const KernelCall& call) {
    add_column_sums(isa, call.inputs[0].as<T>(), rows, n, call.outputs[0].as<float>());
  });
}

constexpr Op kTake{.def = {.name = "take",
                           .signature = "(x: [N, T, ...], i: int)",
                           .group = "attention",
                           .doc = "one position of a sequence",
                           .example = "take(0)",
                           .layout = LayoutRule::kAny,
                           .infer = infer_take,
                           .grad = grad_take,
                           .shard = "n_*->n*"},
                   .cpu = make_copies<copies_of_take>};

constexpr Op kTakeGrad{.def = {.name = "take.grad",
                               .signature = "(dy: [N, ...])",
                               .group = "attention",
                               .doc = "gradient of take: zero at the other positions",
                               .layout = LayoutRule::kAny,
                               .infer = infer_dims,
                               .shard = "n*->n_*"},
                       .cpu = make_copies<copies_of_take_grad>};

constexpr Op kClassToken{.def = {.name = "class_token",
                                 .signature = "(x: [N, T, D])",
                                 .group = "attention",
                                 .doc = "puts a trained position before the others",
                                 .example = "class_token",
                                 .infer = infer_token,
                                 .grad = grad_token,
                                 .shard = "n_d,d->n_d"},
                         .cpu = by_dtype<make_token<float>, make_token<Bf16>, make_token<Half>>};

constexpr Op kClassTokenGrad{
    .def = {.name = "class_token.grad",
            .signature = "(dy: [N, T, D])",
            .group = "attention",
            .doc = "gradients of class_token: of the sequence, and of the token over the samples",
            .rows = RowProperty::kReduces,
            .infer = infer_token_grad,
            .shard = "n_d->n_d,d"},
    .cpu = by_dtype<make_token_grad<float>, make_token_grad<Bf16>, make_token_grad<Half>>};

constexpr Op kPosition{.def = {.name = "position_embedding",
                               .signature = "(x: [N, T, D])",
                               .group = "attention",
                               .doc = "adds a trained vector to each position",
                               .example = "position_embedding",
                               .infer = infer_position,
                               .grad = grad_position,
                               .shard = "ntd,td->ntd"},
                       .cpu = by_dtype<make_position<float>, make_position<Bf16>, make_position<Half>>};

constexpr Op kPositionGrad{
    .def = {.name = "position_embedding.grad",
            .signature = "(dy: [N, T, D])",
            .group = "attention",
            .doc = "gradient of the trained vectors, summed over the samples",
            .rows = RowProperty::kReduces,
            .infer = infer_position_grad,
            .shard = "ntd->td"},
    .cpu = by_dtype<make_position_grad<float>, make_position_grad<Bf16>, make_position_grad<Half>>};

constexpr std::array<const Op*, 6> kOps{&kTake, &kTakeGrad, &kClassToken, &kClassTokenGrad, &kPosition, &kPositionGrad};

}  // namespace

std::span<const Op* const> sequence_ops() { return kOps; }

}  // namespace xrun::ops
