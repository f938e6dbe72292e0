// Sums or averages trained rows, one for each whole number of a sample: y[n, :] = 1/c · sum over l of weight[x[n, l],
// :] over the numbers other than `padding`. c is how many these are, or 1 without `mean`; without any, y is 0. x is
// index(R)[N, L], weight is [rows, dim] with R <= rows. Source: torch.nn.EmbeddingBag; Joulin et al., "Bag of Tricks
// for Efficient Text Classification", EACL 2017.
// Tests: tests/ops/dense/embed_bag_test.cpp
#include <algorithm>
#include <cstring>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/initial_values.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_bag(std::span<const TensorType> in, const Attrs& attrs) {
  const TensorType& x = in[0];
  if (x.rank() != 2 || !x.has_batch() || x.classes == 0 || x.dtype != DType::kI32) {
    return rank_error("embed_bag", "a row of whole numbers, index(rows)[N, L]", x,
                      "declare the input as whole numbers: input x: index(rows)[N, L]");
  }
  const int64_t rows = attrs.integer("rows");
  const int64_t dim = attrs.integer("dim");
  XRUN_TRY(expect_range("embed_bag", "dim", dim, 1, 1 << 20));
  XRUN_TRY(expect_range("embed_bag", "rows", rows, 1, int64_t{1} << 31));
  XRUN_TRY(expect_range("embed_bag", "padding", attrs.integer("padding"), -1, rows - 1));
  if (x.classes > rows) {
    return shape_error("`embed_bag` has rows=" + std::to_string(rows) + " for " + to_text(x),
                       "each number needs a row: rows=" + std::to_string(x.classes));
  }
  XRUN_ASSIGN(const Init init, init_of("embed_bag", attrs, rows, dim, kSmall));
  return OpShape{{weight_type({kBatch, dim})}, {param("weight", {rows, dim}, init)}};
}

// Inputs: x, dy.
Result<OpShape> infer_grad(std::span<const TensorType> in, const Attrs& attrs) {
  return OpShape{{weight_type({attrs.integer("rows"), in[1].dims.back()})}};
}

// Additions and bytes of the rows of a sample, as if no number were padding; `accesses`: how often a row is read or
// written.
OpCost cost_of(const TensorType& x, int64_t dim, int accesses) {
  const auto numbers = static_cast<double>(x.dims[1]);
  const auto elements = numbers * static_cast<double>(dim);
  const double bytes = 4 * (numbers + accesses * elements + static_cast<double>(dim));
  return {.flops = elements, .bytes = static_cast<Bytes>(std::min(bytes, 9e18))};
}
OpCost bag_cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return cost_of(in[0], out[0].dims[1], 1);
}
OpCost grad_cost(std::span<const TensorType> in, std::span<const TensorType>, const Attrs&) {
  return cost_of(in[0], in[1].dims[1], 2);
}

Status grad_bag(GradBuilder& builder) {
  const Attrs& attrs = builder.node().attrs;
  return builder.set_grad_by(
      1, "embed_bag.grad", {builder.input(0), builder.output_grad(0)},
      Attrs{
          {"rows", attrs.integer("rows")}, {"mean", attrs.flag("mean", true)}, {"padding", attrs.integer("padding")}});
}

// The numbers of the samples of a row block, and how they select rows.
struct Bags {
  explicit Bags(const KernelSpec& spec, int64_t table_rows)
      : length(spec.inputs[0].dims[1]),
        rows(table_rows),
        padding(spec.attrs.integer("padding")),
        mean(spec.attrs.flag("mean", true)) {}

  // Calls body(row) for each number of sample n that is not padding. Returns an error if a number is outside of the
  // table, since numbers come from data.
  template <typename Body>
  Status for_each_row(const int32_t* x, int64_t n, const Body& body) const {
    for (const int32_t* at = x + n * length; at < x + (n + 1) * length; ++at) {
      if (*at == padding) {
        continue;
      }
      if (*at < 0 || *at >= rows) {
        return Error{ErrorKind::kContent, "XG0402",
                     "the number " + std::to_string(*at) + " has no row in an `embed_bag` of " + std::to_string(rows),
                     "numbers must be in 0.." + std::to_string(rows - 1)};
      }
      body(*at);
    }
    return {};
  }
  // The factor of the rows of sample n.
  float factor(const int32_t* x, int64_t n) const {
    const int32_t* const first = x + n * length;
    const int64_t count = length - std::count(first, first + length, padding);
    return mean && count > 0 ? 1.0F / static_cast<float>(count) : 1.0F;
  }

  int64_t length;
  int64_t rows;
  int64_t padding;
  bool mean;
};

// to += from · factor
template <typename T>
struct AddBody {
  template <class L>
  XRUN_INLINE static void run(const T* from, float factor, float* to, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(to + i, load_upto<L>(to + i, n - i) + load_upto<L>(from + i, n - i) * factor, n - i);
    }
  }
};

struct ScaleBody {
  template <class L>
  XRUN_INLINE static void run(float factor, float* y, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(y + i, load_upto<L>(y + i, n - i) * factor, n - i);
    }
  }
};

// Sums the rows of a sample in the order of its numbers.
Result<std::unique_ptr<Kernel>> make_bag(const KernelSpec& spec) {
  const int64_t dim = spec.inputs[1].dims[1];
  return kernel_over_rows(
      spec.rows,
      [isa = spec.isa, bags = Bags(spec, spec.inputs[1].dims[0]), dim](const KernelCall& call, Range some) -> Status {
        const auto* const x = call.inputs[0].as<int32_t>();
        for (int64_t n = some.begin; n < some.end; ++n) {
          float* const y = call.outputs[0].as<float>() + n * dim;
          std::memset(y, 0, static_cast<size_t>(dim) * sizeof(float));
          XRUN_TRY(bags.for_each_row(x, n, [&](int64_t row) {
            run_for<AddBody<float>>(isa, call.inputs[1].as<float>() + row * dim, 1.0F, y, dim);
          }));
          run_for<ScaleBody>(isa, bags.factor(x, n), y, dim);
        }
        return {};
      });
}

// Adds rows in the order of the samples, so that rows of equal numbers are always added in the same order.
template <typename T>
Result<std::unique_ptr<Kernel>> make_grad_of(const KernelSpec& spec) {
  const int64_t dim = spec.outputs[0].dims[1];
  return kernel_of([isa = spec.isa, rows = spec.rows, bags = Bags(spec, spec.outputs[0].dims[0]),
                    dim](const KernelCall& call) -> Status {
    const auto* const x = call.inputs[0].as<int32_t>();
    for (int64_t n = 0; n < rows; ++n) {
      const float factor = bags.factor(x, n);
      XRUN_TRY(bags.for_each_row(x, n, [&](int64_t row) {
        run_for<AddBody<T>>(isa, call.inputs[1].as<T>() + n * dim, factor, call.outputs[0].as<float>() + row * dim,
                            dim);
      }));
    }
    return {};
  });
}

Result<std::unique_ptr<Kernel>> make_grad(const KernelSpec& spec) {
  return with_type(spec.inputs[1].dtype, [&](auto number) { return make_grad_of<decltype(number)>(spec); });
}

}  // namespace

constinit const Op kEmbedBag{
    .def = {.name = "embed_bag",
            .signature = "(x: index(R)[N, L], rows: int, dim: int, mean: bool = true, padding: int = 0, "
                         "init: init = none)",
            .group = "dense",
            .doc =
                "the mean of a trained row for each whole number, or with mean=false their sum; the number `padding` "
                "has no row (-1: all numbers have one); a step updates only rows whose gradient is not zero, and "
                "keeps the states and the decay of all others",
            .example = "embed_bag(65_536, 128)",
            .aliases = "embeddingbag num_embeddings=rows embedding_dim=dim padding_idx=padding",
            .updates_rows = true,
            .layout = LayoutRule::kRowMajor,
            .infer = infer_bag,
            .cost = bag_cost,
            .grad = grad_bag,
            .shard = "n_,_d->nd"},
    .cpu = make_bag};

constinit const Op kEmbedBagGrad{.def = {.name = "embed_bag.grad",
                                         .signature = "(x: index(R)[N, L], dy: [N, D])",
                                         .group = "dense",
                                         .doc = "gradient of the rows, summed over the samples",
                                         .rows = RowProperty::kReduces,
                                         .layout = LayoutRule::kRowMajor,
                                         .infer = infer_grad,
                                         .cost = grad_cost,
                                         .shard = "n_,nd->_d"},
                                 .cpu = make_grad};

}  // namespace xrun::ops
