// The common parts of batch norm and its gradient: the norm of some lanes, and the shapes of a kernel.
#pragma once

#include <cmath>
#include <optional>
#include <type_traits>

#include "ops/make_kernel.h"
#include "ops/norm/norm_formulas.h"
#include "ops/norm/norm_function.h"
#include "ops/shape.h"

namespace xrun::ops {

template <class L, typename T>
XRUN_INLINE L normalize(const NormColumns& p, const T* x, int64_t c, int64_t n) {
  return normalized(load_upto<L>(x + c, n), load_upto<L>(p.mean + c, n), load_upto<L>(p.scale + c, n),
                    load_upto<L>(p.bias + c, n));
}

// The function that the loops apply directly to the norm. The forward pass rounds the norm to the element type before a
// prelu, as if it had been stored; the gradient computes the norm in f32 and does not round it.
enum class Behind : uint8_t { kNothing, kRelu, kSlopes };  // kSlopes: prelu

// Applies the function to norms `v`.
template <Behind kBehind, typename T, class L>
XRUN_INLINE L follow(const NormColumns& p, L v, int64_t c, int64_t n) {
  if constexpr (kBehind == Behind::kSlopes) {
    v = rounded_to<T>(v);
    return if_less(L{}, v, v, v * load_upto<L>(p.slope + c, n));
  } else {
    return kBehind == Behind::kRelu ? rectify(v) : v;
  }
}

// Base of the kernels of batch norm and of its gradient: the shapes, and two factors per channel in scratch, 1 /
// sqrt(var + eps) and weight / sqrt(var + eps). The first phase of a part computes sums for some channels, the second
// one results for some rows.
class BatchNormBase : public Kernel {
 public:
  int64_t parts() const override { return rows_; }
  int phases() const override { return 2; }

  Status take_function(const KernelSpec& spec, NormFunction::Way way, bool prelu) {
    if (prelu) {
      behind_ = Behind::kSlopes;
    } else if (spec.attrs.has("then")) {
      XRUN_ASSIGN(function_, NormFunction::make(spec, channels_, way));
    }
    return {};
  }

 protected:
  enum Phase { kColumns, kRows };

  explicit BatchNormBase(const KernelSpec& spec)
      : isa_(spec.isa),
        channels_(spec.inputs[0].dims[1]),
        rows_(block_elements(spec.inputs[0], spec.rows) / channels_),
        eps_(static_cast<float>(spec.attrs.real("eps"))),
        behind_(spec.attrs.flag("relu", false) ? Behind::kRelu : Behind::kNothing) {}

  int64_t stride() const { return align_up(channels_, kLanes); }

  void fill_factors(const float* weight, const float* var, Range some, float* scale, float* rstd) const {
    for (int64_t c = some.begin; c < some.end; ++c) {
      rstd[c] = 1.0F / std::sqrt(var[c] + eps_);
      scale[c] = weight[c] * rstd[c];
    }
  }

  // Calls `run` with the function after the norm as a compile-time constant.
  template <typename Run>
  void with_behind(const Run& run) const {
    switch (behind_) {
      case Behind::kNothing:
        return run(std::integral_constant<Behind, Behind::kNothing>());
      case Behind::kRelu:
        return run(std::integral_constant<Behind, Behind::kRelu>());
      case Behind::kSlopes:
        return run(std::integral_constant<Behind, Behind::kSlopes>());
    }
  }

  Bytes function_bytes() const { return function_ ? function_->scratch_bytes() : 0; }

  Isa isa_;
  int64_t channels_;
  int64_t rows_;
  float eps_;
  Behind behind_;
  std::optional<NormFunction> function_;  // the function of the attribute `then`
};

template <template <typename> class K, NormFunction::Way kWay, bool kPrelu = false>
Result<std::unique_ptr<Kernel>> make_norm(const KernelSpec& spec) {
  const auto make = [&](auto kernel) -> Result<std::unique_ptr<Kernel>> {
    XRUN_TRY(kernel->take_function(spec, kWay, kPrelu));
    return std::unique_ptr<Kernel>(std::move(kernel));
  };
  return with_type(spec.inputs[0].dtype,
                   [&](auto number) { return make(std::make_unique<K<decltype(number)>>(spec)); });
}

}  // namespace xrun::ops
