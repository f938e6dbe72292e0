// Gradients of parameters, and of operands that were broadcast. They are sums of terms that have the shape of the
// result of the forward pass. `add.sum` and `param.sum` read the terms; `map.sum` computes the terms and never stores
// them.
// Tests: tests/ops/conformance_test.cpp
#include <algorithm>
#include <array>
#include <optional>

#include "graph/types/scalar_expr.h"
#include "ops/catalog.h"
#include "ops/loops/broadcast.h"
#include "ops/loops/broadcast_loop.h"
#include "ops/loops/columns.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"
#include "ops/shard.h"

namespace xrun::ops {
namespace {

// The sums of one result, in one of three orders. A result with samples is summed in f32, one term after the other.
// Sums of a parameter are added to its accumulator: if the parameter is aligned with the last dimension of features,
// its terms are added like columns (ops/loops/columns.h), otherwise in f64.
class ResultSums {
 public:
  ResultSums(const TensorType& result, const TensorType& terms, const KernelSpec& spec)
      : result_(result),
        count_(block_elements(result, spec.rows)),
        sample_sums_(count_ / spec.rows),
        sample_terms_(terms.row_elements()),
        sums_(spec.isa, result, terms, spec.rows) {
    if (result.has_batch()) {
      order_ = Order::kSamples;
    } else if (!terms.is_channels_last() && result.rank() == 1 && terms.dims.back() == count_) {
      order_ = Order::kColumns;
    }
  }

  bool is_of_samples() const { return order_ == Order::kSamples; }
  bool is_of_columns() const { return order_ == Order::kColumns; }
  Bytes scratch_bytes() const {
    const int64_t floats = order_ == Order::kNumbers ? 0 : align_up(count_, kLanes);
    const int64_t doubles = order_ == Order::kSamples ? 0 : align_up(count_, kLanes);
    return align_up(floats * static_cast<Bytes>(sizeof(float)) + doubles * static_cast<Bytes>(sizeof(double)), 64);
  }

  // Starts the sums. `some` is the range of terms that will be added, which has whole samples; `scratch` has
  // scratch_bytes() and is aligned to 64.
  void begin(Range some, std::byte* scratch) const {
    const At at = at_of(scratch);
    switch (order_) {
      case Order::kSamples:
        return std::fill(at.floats + sums_of(some).begin, at.floats + sums_of(some).end, 0.0F);
      case Order::kColumns:
        std::fill_n(at.floats, count_, 0.0F);
        [[fallthrough]];
      case Order::kNumbers:
        std::fill_n(at.doubles, count_, 0.0);
    }
  }

  // Adds the `n` terms from term `begin` on. Terms must be added in order.
  template <typename T>
  void add(const T* terms, int64_t begin, int64_t n, std::byte* scratch) const {
    const At at = at_of(scratch);
    if (order_ == Order::kSamples) {
      return sums_.add(terms, begin, n, at.floats);
    }
    if (order_ == Order::kNumbers) {
      return sums_.add(terms, begin, n, at.doubles);
    }
    const int64_t block = kSumBlock * count_;
    for (int64_t done = 0; done < n;) {
      const int64_t here = std::min(n - done, block - (begin + done) % block);
      sums_.add(terms + done, begin + done, here, at.floats);
      done += here;
      if ((begin + done) % block == 0) {
        end_block(at);
      }
    }
  }

  void end(Range some, std::byte* scratch, const TensorView& output) const {
    const At at = at_of(scratch);
    if (order_ == Order::kSamples) {
      return with_type(result_.dtype,
                       [&](auto number) { store_sums(sums_of(some), at.floats, output.as<decltype(number)>()); });
    }
    if (order_ == Order::kColumns) {
      end_block(at);
    }
    float* const y = output.as<float>();
    for (int64_t i = 0; i < count_; ++i) {
      y[i] += static_cast<float>(at.doubles[i]);
    }
  }

 private:
  enum class Order : uint8_t { kSamples, kColumns, kNumbers };
  struct At {
    float* floats;
    double* doubles;
  };
  At at_of(std::byte* scratch) const {
    auto* const floats = reinterpret_cast<float*>(scratch);
    return {floats, reinterpret_cast<double*>(order_ == Order::kColumns ? floats + align_up(count_, kLanes) : floats)};
  }
  Range sums_of(Range some) const {
    return {some.begin / sample_terms_ * sample_sums_, some.end / sample_terms_ * sample_sums_};
  }
  // Adds the f32 sums of a block of rows, which may be incomplete, to the f64 sums.
  void end_block(const At& at) const {
    for (int64_t i = 0; i < count_; ++i) {
      at.doubles[i] += static_cast<double>(at.floats[i]);
      at.floats[i] = 0;
    }
  }
  template <typename T>
  static void store_sums(Range some, const float* sums, T* y) {
    for (int64_t i = some.begin; i < some.end; ++i) {
      assign(y[i], sums[i]);
    }
  }

  TensorType result_;
  int64_t count_;
  int64_t sample_sums_;
  int64_t sample_terms_;
  BroadcastSums sums_;
  Order order_ = Order::kNumbers;
};

// Makes the kernel that sums over the dimensions in which the result has size 1. A part has whole samples.
template <typename T>
Result<std::unique_ptr<Kernel>> make_add_sum(const KernelSpec& spec) {
  const ResultSums sums(spec.outputs[0], spec.inputs[0], spec);
  const int64_t sample = spec.inputs[0].row_elements();
  return kernel_over_rows(
      spec.rows,
      [sums, sample](const KernelCall& call, Range samples) {
        const Range some{samples.begin * sample, samples.end * sample};
        sums.begin(some, call.scratch);
        sums.add(call.inputs[0].as<T>() + some.begin, some.begin, some.size(), call.scratch);
        sums.end(some, call.scratch, call.outputs[0]);
      },
      sums.scratch_bytes());
}

// Returns XG0303 unless `dims` can be broadcast to the dimensions of `terms`.
Status expect_sums(std::string_view op, const TensorType& terms, const std::vector<int64_t>& dims) {
  bool fits = dims.size() <= terms.dims.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) {
    fits = dims[dims.size() - 1 - i] == 1 || dims[dims.size() - 1 - i] == terms.dims[terms.dims.size() - 1 - i];
  }
  if (fits) {
    return {};
  }
  return argument_error("`" + std::string(op) + "` cannot sum " + to_text(terms) + " to these dimensions",
                        "each dimension of the sums is 1 or that of the terms");
}

Result<OpShape> infer_add_sum(std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_TRY(expect_sums("add.sum", inputs[0], attrs.integers("dims")));
  return infer_dims(inputs, attrs);
}

constexpr Op kAddSum{.def = {.name = "add.sum",
                             .signature = "(x: [N, ...])",
                             .group = "pointwise",
                             .doc = "sum over the dimensions that were broadcast",
                             .infer = infer_add_sum,
                             .sums = true,
                             .shard_of = shard_broadcast},
                     .cpu = by_dtype<make_add_sum<float>, make_add_sum<Bf16>, make_add_sum<Half>>};

// param.sum adds to the accumulator of a parameter: sums over the samples, and over the dimensions in which the
// parameter was broadcast.
Result<OpShape> infer_param_sum(std::span<const TensorType> inputs, const Attrs& attrs) {
  std::vector<int64_t> dims = attrs.integers("dims");
  XRUN_TRY(expect_sums("param.sum", inputs[0], dims));
  return OpShape{.outputs = {weight_type(std::move(dims))}};
}

template <typename T>
Result<std::unique_ptr<Kernel>> make_param_sum(const KernelSpec& spec) {
  const ResultSums sums(spec.outputs[0], spec.inputs[0], spec);
  const int64_t terms = block_elements(spec.inputs[0], spec.rows);
  if (sums.is_of_columns()) {
    const int64_t columns = spec.inputs[0].dims.back();
    return kernel_of([isa = spec.isa, rows = terms / columns, columns](const KernelCall& call) {
      add_column_sums(isa, call.inputs[0].as<T>(), rows, columns, call.outputs[0].as<float>());
    });
  }
  return kernel_of(
      [sums, terms](const KernelCall& call) {
        sums.begin({0, terms}, call.scratch);
        sums.add(call.inputs[0].as<T>(), 0, terms, call.scratch);
        sums.end({0, terms}, call.scratch, call.outputs[0]);
      },
      sums.scratch_bytes());
}

constexpr Op kParamSum{
    .def = {.name = "param.sum",
            .signature = "(x: [N, ...])",
            .group = "pointwise",
            .doc = "sum over the samples, and over the dimensions in which a parameter was broadcast",
            .rows = RowProperty::kReduces,
            .infer = infer_param_sum,
            .sums = true,
            .shard_of = shard_broadcast},
    .cpu = by_dtype<make_param_sum<float>, make_param_sum<Bf16>, make_param_sum<Half>>};

std::string dims_of(size_t result) { return "dims" + std::to_string(result); }

// The results of a `map`. Results with dimensions of their own (dims_of) are summed to these dimensions.
Result<OpShape> infer_map_sum(std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_ASSIGN(const ScalarExpr expr, parse_scalar_expr(attrs.text("y")));
  XRUN_ASSIGN(const TensorType whole, broadcast("combine", inputs));
  OpShape shape;
  for (size_t i = 0; i < expr.results().size(); ++i) {
    if (!attrs.has(dims_of(i))) {
      shape.outputs.push_back(whole);
      continue;
    }
    std::vector<int64_t> dims = attrs.integers(dims_of(i));
    XRUN_TRY(expect_sums("map.sum", whole, dims));
    const bool of_samples = !dims.empty() && dims[0] == kBatch;
    shape.outputs.push_back(of_samples ? with_dims(whole, std::move(dims)) : weight_type(std::move(dims)));
  }
  return shape;
}

OpCost cost_map_sum(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs& attrs) {
  const auto expr = parse_scalar_expr(attrs.text("y"));
  const auto whole = broadcast("combine", inputs);
  const double operations = expr.ok() ? static_cast<double>(expr->operations() + expr->results().size()) : 1;
  return {.flops = operations * static_cast<double>((whole.ok() ? *whole : inputs[0]).row_elements()),
          .bytes = traffic(inputs, outputs)};
}

// Number of terms computed before they are added: a few pages, which stay in the first-level cache.
constexpr int64_t kPiece = 1024;

class MapSum final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const KernelSpec& spec) {
    XRUN_ASSIGN(ScalarExpr expr, parse_scalar_expr(spec.attrs.text("y")));
    XRUN_ASSIGN(TensorType terms, broadcast("combine", spec.inputs));
    for (const auto* types : {&spec.inputs, &spec.outputs}) {
      const auto whole = std::ranges::find(*types, terms.dims, &TensorType::dims);
      terms.layout = whole == types->end() ? terms.layout : whole->layout;
    }
    KernelSpec loop = spec;
    for (size_t i = 0; i < loop.outputs.size(); ++i) {
      if (spec.attrs.has(dims_of(i))) {
        loop.outputs[i] = terms;
        loop.outputs[i].dtype = DType::kF32;
      }
    }
    return std::unique_ptr<Kernel>(new MapSum(spec, loop, terms, std::move(expr)));
  }

  // A part has whole samples. If a result is summed over the samples, there is only one part.
  int64_t parts() const override {
    return std::ranges::all_of(sums_, [](const auto& one) { return !one || one->is_of_samples(); }) ? rows_ : 1;
  }

  Bytes scratch_bytes() const override {
    Bytes bytes = align_up(loop_.scratch_bytes(), 64);
    for (const auto& one : sums_) {
      bytes += one ? kPieceBytes + one->scratch_bytes() : 0;
    }
    return bytes;
  }

  Status run(const KernelCall& call) const override {
    const Range samples = part_of(call, rows_);
    const Range some{samples.begin * sample_, samples.end * sample_};
    std::array<std::byte*, kMostOperands> terms;  // terms of a result that is summed, followed by its sums
    std::byte* free = call.scratch + align_up(loop_.scratch_bytes(), 64);
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i]) {
        terms[i] = free;
        free += kPieceBytes + sums_[i]->scratch_bytes();
        sums_[i]->begin(some, terms[i] + kPieceBytes);
      }
    }
    loop_.run_pieces(
        call.inputs, call.scratch, some, kPiece,
        [&](int64_t begin, void** outputs) {
          for (size_t i = 0; i < sums_.size(); ++i) {
            outputs[i] = sums_[i] ? terms[i] : call.outputs[i].data + begin * size_;
          }
        },
        [&](int64_t begin, int64_t n) {
          for (size_t i = 0; i < sums_.size(); ++i) {
            if (sums_[i]) {
              sums_[i]->add(reinterpret_cast<const float*>(terms[i]), begin, n, terms[i] + kPieceBytes);
            }
          }
        });
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i]) {
        sums_[i]->end(some, terms[i] + kPieceBytes, call.outputs[i]);
      }
    }
    return {};
  }

 private:
  static constexpr Bytes kPieceBytes = kPiece * static_cast<Bytes>(sizeof(float));

  MapSum(const KernelSpec& spec, const KernelSpec& loop, const TensorType& terms, ScalarExpr expr)
      : rows_(spec.rows),
        sample_(terms.row_elements()),
        size_(size_of(terms.dtype)),
        loop_(loop, std::move(expr), BroadcastLoop::Stores::kToCaches) {
    for (size_t i = 0; i < spec.outputs.size(); ++i) {
      sums_.push_back(spec.attrs.has(dims_of(i)) ? std::optional(ResultSums(spec.outputs[i], terms, spec))
                                                 : std::nullopt);
    }
  }

  int64_t rows_;
  int64_t sample_;  // number of terms in a sample
  Bytes size_;      // bytes of a result that is stored
  BroadcastLoop loop_;
  std::vector<std::optional<ResultSums>> sums_;  // the sums of each result; empty for a result that is stored
};

constexpr Op kMapSum{.def = {.name = "map.sum",
                             .signature = "(x: [N, ...])",
                             .group = "pointwise",
                             .doc = "a function of numbers, element by element, some results of which are summed",
                             .variadic = true,
                             .rows = RowProperty::kReduces,
                             .infer = infer_map_sum,
                             .cost = cost_map_sum,
                             .shard_of = shard_broadcast},
                     .cpu = MapSum::make};

constexpr std::array<const Op*, 3> kOps{&kAddSum, &kParamSum, &kMapSum};

}  // namespace

std::span<const Op* const> sum_ops() { return kOps; }

}  // namespace xrun::ops
