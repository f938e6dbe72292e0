// Dropout: each element is 0 with probability p, else x / (1 - p). The random draw of an element is a function of
// (seed, step, position in the global batch, operator path, element in memory order), so no mask is kept, and the
// gradient is the same operator applied to dy. drop_path draws once per sample and sets the whole sample to 0; it drops
// the branch of a residual block (Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016). Source: Srivastava
// et al., "Dropout", JMLR 2014; random numbers: docs/internals/determinism.md, "Random numbers".
// Tests: tests/ops/oracles_test.cpp, tests/ops/conformance_test.cpp
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "graph/base/random.h"
#include "graph/passes/autodiff.h"
#include "graph/settings/moved.h"
#include "ops/catalog.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_drop(std::string_view op, std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_TRY(expect_activation(op, inputs[0]));
  const double p = attrs.real("p");
  if (!(p >= 0) || p >= 1) {
    return argument_error("`" + std::string(op) + "` has p = " + to_text(p),
                          "write the share that is dropped: at least 0 and below 1");
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

// Dropout is linear in x with fixed draws, so the gradient is the operator itself applied to dy.
Status grad_same(GradBuilder& builder) {
  return builder.set_grads_by(builder.node().op->name, {builder.output_grad(0)}, builder.node().attrs);
}

// Returns v in lanes whose draw is at least `from`, and 0 in the other lanes.
XRUN_INLINE F16 kept(const uint32_t* draws, uint32_t from, F16 v) {
  U16 bits;
  std::memcpy(&bits, draws, sizeof bits);
  return (bits >= from) ? v : F16{};
}
XRUN_INLINE F8x2 kept(const uint32_t* draws, uint32_t from, F8x2 v) {
  U8 bits[2];
  std::memcpy(bits, draws, sizeof bits);
  return {(bits[0] >= from) ? v.low : F8{}, (bits[1] >= from) ? v.high : F8{}};
}

template <typename T>
struct DropBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, const uint32_t* draws, uint32_t keep_from, float scale, T* y, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      uint32_t drawn[kLanes] = {};
      std::memcpy(drawn, draws + i, static_cast<size_t>(n - i < kLanes ? n - i : kLanes) * sizeof(uint32_t));
      store_upto(y + i, kept(drawn, keep_from, load_upto<L>(x + i, n - i) * scale), n - i);
    }
  }
};

// The rows of a block, each with its own stream of random numbers.
struct Rows {
  explicit Rows(const KernelSpec& spec)
      : isa(spec.isa), training(spec.training), n(spec.inputs[0].row_elements()), path(stable_hash(path_of(spec))) {}

  static std::string path_of(const KernelSpec& spec) {
    return spec.attrs.find(kStreamAttr) != nullptr ? spec.attrs.text(kStreamAttr) : spec.path;
  }

  // Calls body(stream, first element of the row) for the rows `some`.
  template <typename Body>
  void for_each(const KernelCall& call, Range some, const Body& body) const {
    for (int64_t r = some.begin; r < some.end; ++r) {
      body(RandomStream(call.seed, static_cast<uint64_t>(call.step), static_cast<uint64_t>(call.first_row + r), path),
           r * n);
    }
  }

  Isa isa;
  bool training;
  int64_t n;
  uint64_t path;
};

template <typename T>
Result<std::unique_ptr<Kernel>> make_dropout(const KernelSpec& spec) {
  const double p = spec.attrs.real("p");
  // Elements whose draw is below this number are dropped. If p · 2^32 would round up to 2^32, the largest number is
  // used.
  const auto keep_from = static_cast<uint32_t>(std::min<int64_t>(std::lround(p * 0x1.0p31) * 2, UINT32_MAX));
  const auto scale = static_cast<float>(1 / (1 - p));
  return kernel_over_rows(spec.rows, [rows = Rows(spec), keep_from, scale](const KernelCall& call, Range some) {
    const T* const x = call.inputs[0].as<T>();
    T* const y = call.outputs[0].as<T>();
    if (!rows.training) {
      std::memcpy(static_cast<void*>(y + some.begin * rows.n), x + some.begin * rows.n,
                  static_cast<size_t>(some.size() * rows.n) * sizeof(T));
      return;
    }
    constexpr int64_t kDraws = 1024;  // number of draws at a time, kept on the stack
    std::array<uint32_t, kDraws> draws;
    rows.for_each(call, some, [&](const RandomStream& stream, int64_t at) {
      for (int64_t i = 0; i < rows.n; i += kDraws) {
        const int64_t n = std::min(kDraws, rows.n - i);
        stream.fill(static_cast<uint64_t>(i / 4), std::span(draws).first(static_cast<size_t>(align_up(n, 4))));
        run_for<DropBody<T>>(rows.isa, x + at + i, draws.data(), keep_from, scale, y + at + i, n);
      }
    });
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> make_drop_path(const KernelSpec& spec) {
  const auto p = static_cast<float>(spec.attrs.real("p"));
  return kernel_over_rows(spec.rows, [rows = Rows(spec), p](const KernelCall& call, Range some) {
    rows.for_each(call, some, [&](const RandomStream& stream, int64_t at) {
      const float scale = !rows.training ? 1.0F : (stream.uniform(0) >= p ? 1.0F / (1.0F - p) : 0.0F);
      run_for<ScaleBody<T, T>>(rows.isa, call.inputs[0].as<T>() + at, scale, call.outputs[0].as<T>() + at, rows.n);
    });
  });
}

}  // namespace

constinit const Op kDropPath{.def = {.name = "drop_path",
                                     .signature = "(x: [N, ...], p: float)",
                                     .group = "regularise",
                                     .doc = "drops the branch of a whole sample with probability p in training",
                                     .example = "drop_path(0.1)",
                                     .aliases = "stochastic_depth drop_prob=p",
                                     .random = true,
                                     .differs_in_eval = true,
                                     .infer = infer_drop_path,
                                     .is_identity = drops_nothing,
                                     .grad = grad_same,
                                     .shard = "n*->n*"},
                             .cpu = by_dtype<make_drop_path<float>, make_drop_path<Bf16>, make_drop_path<Half>>};

constinit const Op kDropout{.def = {.name = "dropout",
                                    .signature = "(x: [N, ...], p: float)",
                                    .group = "regularise",
                                    .doc = "drops each element with probability p in training and scales the others",
                                    .example = "dropout(0.1)",
                                    .aliases = "rate=p prob=p inplace=",
                                    .random = true,
                                    .differs_in_eval = true,
                                    .infer = infer_dropout,
                                    .is_identity = drops_nothing,
                                    .grad = grad_same,
                                    .shard = "n.->n."},  // the draw of an element depends on its position
                            .cpu = by_dtype<make_dropout<float>, make_dropout<Bf16>, make_dropout<Half>>};

}  // namespace xrun::ops
