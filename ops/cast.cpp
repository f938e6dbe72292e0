#include "ops/cast.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "graph/autodiff.h"
#include "ops/convert.h"
#include "ops/make_kernel.h"
#include "ops/parts.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_stop(std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_TRY(expect_activation("stop_gradient", inputs[0]));
  return same_as_input(inputs, attrs);
}

template <typename T>
class StopGradient final : public Kernel {
 public:
  explicit StopGradient(const KernelSpec& spec) : bytes_(spec.inputs[0].bytes(spec.rows, spec.rows)) {}
  Status run(const KernelCall& call) const override {
    std::memcpy(call.outputs[0].data, call.inputs[0].data, static_cast<size_t>(bytes_));
    return {};
  }

 private:
  Bytes bytes_;
};

DType target_of(const Attrs& attrs) { return attrs.text("to") == "bf16" ? DType::kBF16 : DType::kF32; }

Result<OpShape> infer_cast(std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_TRY(expect_activation("cast", inputs[0]));
  if (const std::string& to = attrs.text("to"); to != "f32" && to != "bf16") {
    return Error{ErrorKind::kContent,
                 "XG0303",
                 "`cast` makes f32 or bf16, not `" + to + "`",
                 "write cast(f32) or cast(bf16)",
                 {}};
  }
  OpShape shape;
  shape.outputs.push_back(with_dims(inputs[0], inputs[0].dims));
  shape.outputs[0].dtype = target_of(attrs);
  return shape;
}

bool casts_nothing(std::span<const TensorType> inputs, const Attrs& attrs) {
  return inputs[0].dtype == target_of(attrs);
}

Status grad_cast(GradBuilder& builder) {
  const DType back = builder.type(builder.input(0)).dtype;
  if (builder.type(builder.output_grad(0)).dtype == back) {
    builder.set_grad(0, builder.output_grad(0));
    return {};
  }
  XRUN_ASSIGN(const std::vector<ValueId> dx,
              builder.emit("cast", {builder.output_grad(0)}, Attrs{{"to", std::string(name_of(back))}}));
  builder.set_grad(0, dx[0]);
  return {};
}

template <typename T>
class Cast final : public Kernel {
 public:
  explicit Cast(const KernelSpec& spec)
      : isa_(spec.isa), to_(spec.outputs[0].dtype), n_(block_elements(spec.inputs[0], spec.rows)) {}
  int64_t parts() const override { return runs_of(n_, kElementRun); }
  Status run(const KernelCall& call) const override {
    const Range some = part_of(call, n_, kElementRun);
    const T* const x = call.inputs[0].as<T>() + some.begin;
    std::byte* const y = call.outputs[0].data + some.begin * size_of(to_);
    if constexpr (std::is_same_v<T, float>) {
      if (to_ == DType::kBF16) {
        narrow(isa_, x, reinterpret_cast<Bf16*>(y), some.size());
        return {};
      }
    } else if (to_ == DType::kF32) {
      widen(isa_, x, reinterpret_cast<float*>(y), some.size());
      return {};
    }
    std::memcpy(y, x, static_cast<size_t>(some.size()) * sizeof(T));
    return {};
  }

 private:
  Isa isa_;
  DType to_;
  int64_t n_;
};

Result<OpShape> infer_fill(std::span<const TensorType> inputs, const Attrs&) {
  OpShape shape;
  shape.outputs.push_back(weight_type(inputs[0].dims));
  return shape;
}

class Fill final : public Kernel {
 public:
  explicit Fill(const KernelSpec& spec)
      : value_(static_cast<float>(spec.attrs.real("value"))), n_(block_elements(spec.outputs[0], spec.rows)) {}
  Status run(const KernelCall& call) const override {
    std::fill_n(call.outputs[0].as<float>(), n_, value_);
    return {};
  }

 private:
  float value_;
  int64_t n_;
};

constexpr Op kStopGradient{.def = {.name = "stop_gradient",
                                   .signature = "(x: [N, ...])",
                                   .group = "shape",
                                   .doc = "x, through which no gradient flows back",
                                   .example = "stop_gradient",
                                   .infer = infer_stop,
                                   .shard = "n*->n*"},
                           .cpu = make_by_dtype<StopGradient>};

constexpr Op kCast{.def = {.name = "cast",
                           .signature = "(x: [N, ...], to: str)",
                           .group = "shape",
                           .doc = "another element type, to the nearest; mixed precision puts it in",
                           .infer = infer_cast,
                           .is_identity = casts_nothing,
                           .grad = grad_cast,
                           .shard = "n*->n*"},
                   .cpu = make_by_dtype<Cast>};

constexpr Op kFill{.def = {.name = "fill",
                           .signature = "(x: [N, ...], value: float)",
                           .group = "shape",
                           .doc = "a constant in the shape of x: where differentiation starts",
                           .infer = infer_fill,
                           .shard = "n*->n*"},
                   .cpu = make_plain<Fill>};

constexpr std::array<const Op*, 3> kOps{&kStopGradient, &kCast, &kFill};

}  // namespace

std::span<const Op* const> cast_ops() { return kOps; }

}  // namespace xrun::ops
