#include "ops/dropout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "graph/autodiff.h"
#include "graph/base/random.h"
#include "ops/make_kernel.h"
#include "ops/parts.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_drop(std::string_view op, std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_TRY(expect_activation(op, inputs[0]));
  const double p = attrs.real("p");
  if (!(p >= 0) || p >= 1) {
    return argument_error("`" + std::string(op) + "` has p = " + to_text(p),
                          "the share of what is dropped lies in 0 .. 1, without 1");
  }
  return same_as_input(inputs, attrs);
}

Result<OpShape> infer_dropout(std::span<const TensorType> inputs, const Attrs& attrs) {
  return infer_drop("dropout", inputs, attrs);
}

Result<OpShape> infer_drop_path(std::span<const TensorType> inputs, const Attrs& attrs) {
  return infer_drop("drop_path", inputs, attrs);
}

bool drops_nothing(std::span<const TensorType>, const Attrs& attrs) { return attrs.real("p") == 0; }

// Linear in x with the same draws: the gradient is the operator itself on dy.
Status grad_same(GradBuilder& builder) {
  XRUN_ASSIGN(const std::vector<ValueId> dx,
              builder.emit(builder.node().op->name, {builder.output_grad(0)}, builder.node().attrs));
  builder.set_grad(0, dx[0]);
  return {};
}

template <typename T>
struct DropBody {
  XRUN_INLINE static void run(const T* x, const uint32_t* draws, uint32_t keep_from, float scale, T* y, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      U16 bits{};
      std::memcpy(&bits, draws + i, static_cast<size_t>(n - i < kLanes ? n - i : kLanes) * sizeof(uint32_t));
      const F16 kept = load_upto(x + i, n - i) * scale;
      store_upto(y + i, (bits >= keep_from) ? kept : F16{}, n - i);
    }
  }
};

template <typename T>
class Dropout final : public Kernel {
 public:
  explicit Dropout(const KernelSpec& spec)
      : isa_(spec.isa),
        training_(spec.training),
        rows_(spec.rows),
        n_(spec.inputs[0].row_elements()),
        path_(stable_hash(spec.path)),
        // The largest number where all of it rounds up to 2^32.
        keep_from_(
            static_cast<uint32_t>(std::min<int64_t>(std::lround(spec.attrs.real("p") * 0x1.0p31) * 2, UINT32_MAX))),
        scale_(static_cast<float>(1 / (1 - spec.attrs.real("p")))) {}

  int64_t parts() const override { return rows_; }

  Status run(const KernelCall& call) const override {
    const Range some = part_of(call, rows_);
    const T* x = call.inputs[0].as<T>() + some.begin * n_;
    T* y = call.outputs[0].as<T>() + some.begin * n_;
    if (!training_) {
      std::memcpy(static_cast<void*>(y), x, static_cast<size_t>(some.size() * n_) * sizeof(T));
      return {};
    }
    std::array<uint32_t, kDraws> draws;
    for (int64_t r = some.begin; r < some.end; ++r, x += n_, y += n_) {
      const RandomStream stream(call.seed, static_cast<uint64_t>(call.step), static_cast<uint64_t>(call.first_row + r),
                                path_);
      for (int64_t i = 0; i < n_; i += kDraws) {
        const int64_t n = std::min(kDraws, n_ - i);
        stream.fill(static_cast<uint64_t>(i / 4), std::span(draws).first(static_cast<size_t>(align_up(n, 4))));
        run_for<DropBody<T>>(isa_, x + i, static_cast<const uint32_t*>(draws.data()), keep_from_, scale_, y + i, n);
      }
    }
    return {};
  }

 private:
  static constexpr int64_t kDraws = 1024;  // at a time, on the stack

  Isa isa_;
  bool training_;
  int64_t rows_;
  int64_t n_;
  uint64_t path_;
  uint32_t keep_from_;  // draws below it drop the element
  float scale_;
};

template <typename T>
class DropPath final : public Kernel {
 public:
  explicit DropPath(const KernelSpec& spec)
      : isa_(spec.isa),
        training_(spec.training),
        rows_(spec.rows),
        n_(spec.inputs[0].row_elements()),
        path_(stable_hash(spec.path)),
        p_(static_cast<float>(spec.attrs.real("p"))) {}

  int64_t parts() const override { return rows_; }

  Status run(const KernelCall& call) const override {
    const Range some = part_of(call, rows_);
    const T* x = call.inputs[0].as<T>() + some.begin * n_;
    T* y = call.outputs[0].as<T>() + some.begin * n_;
    for (int64_t r = some.begin; r < some.end; ++r, x += n_, y += n_) {
      const RandomStream stream(call.seed, static_cast<uint64_t>(call.step), static_cast<uint64_t>(call.first_row + r),
                                path_);
      const float scale = !training_ ? 1.0F : (stream.uniform(0) >= p_ ? 1.0F / (1.0F - p_) : 0.0F);
      run_for<ScaleBody<T, T>>(isa_, x, scale, y, n_);
    }
    return {};
  }

 private:
  Isa isa_;
  bool training_;
  int64_t rows_;
  int64_t n_;
  uint64_t path_;
  float p_;
};

}  // namespace

constinit const Op kDropPath{.def = {.name = "drop_path",
                                     .signature = "(x: [N, ...], p: float)",
                                     .group = "regularise",
                                     .doc = "drops the branch of a whole sample with probability p in training",
                                     .example = "drop_path(0.1)",
                                     .random = true,
                                     .differs_in_eval = true,
                                     .infer = infer_drop_path,
                                     .is_identity = drops_nothing,
                                     .grad = grad_same,
                                     .shard = "n*->n*"},
                             .cpu = make_by_dtype<DropPath>};

constinit const Op kDropout{.def = {.name = "dropout",
                                    .signature = "(x: [N, ...], p: float)",
                                    .group = "regularise",
                                    .doc = "drops each element with probability p in training and scales the others",
                                    .example = "dropout(0.1)",
                                    .random = true,
                                    .differs_in_eval = true,
                                    .infer = infer_dropout,
                                    .is_identity = drops_nothing,
                                    .grad = grad_same,
                                    .shard = "n.->n."},  // an element draws by its position
                            .cpu = make_by_dtype<Dropout>};

}  // namespace xrun::ops
