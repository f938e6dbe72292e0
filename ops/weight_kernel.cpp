#include "ops/weight_kernel.h"

#include <algorithm>
#include <array>

#include "ops/convert.h"

namespace xrun::ops {
namespace {

// Half of the 2 MiB (1 MiB on Zen 4) of second-level cache of a core; the rest is for weights and narrow activations.
constexpr Bytes kWidened = 768 * kKiB;

int64_t elements_of(const KernelSpec& spec, const TensorType& type) { return type.row_elements() * rows_of_call(spec); }

bool widens(const KernelSpec& spec) {
  return spec.inputs[0].dtype == DType::kBF16 && compute_dtype(spec) == DType::kF32;
}

class ApplyWeight final : public Kernel {
 public:
  ApplyWeight(const KernelSpec& spec, dnn::Primitive use, dnn::Primitive pack)
      : isa_(spec.isa),
        widen_(widens(spec)),
        calls_(spec.rows / rows_of_call(spec)),
        bytes_(size_of(spec.inputs[0].dtype)),
        bias_(spec.inputs.size() > 2),
        in_(elements_of(spec, spec.inputs[0])),
        out_(elements_of(spec, spec.outputs[0])),
        weight_(spec.inputs[1].row_elements()),
        use_(std::move(use)),
        pack_(std::move(pack)) {}

  Status run(const KernelCall& call) const override {
    for (int64_t i = 0; i < calls_; ++i) {
      XRUN_TRY(run_rows(call, call.inputs[0].data + i * in_ * bytes_, call.outputs[0].data + i * out_ * bytes_));
    }
    return {};
  }

  Bytes scratch_bytes() const override {
    const Bytes run = align_up(use_.scratch_bytes()) + (widen_ ? wide_bytes(in_) + wide_bytes(out_) : 0);
    const Bytes prepare = align_up(pack_.scratch_bytes()) + (widen_ ? wide_bytes(weight_) : 0);
    return std::max(run, prepare);
  }

  Bytes prepared_bytes(int input) const override { return input == 1 ? use_.bytes(1) : 0; }

  Status prepare(int /*input*/, const TensorView& plain, std::byte* prepared, std::byte* scratch) const override {
    std::byte* from = plain.data;
    if (widen_) {
      from = scratch + align_up(pack_.scratch_bytes());
      round_to_bf16(isa_, plain.as<float>(), reinterpret_cast<float*>(from), weight_);
    }
    const std::array<void*, 2> arguments{from, prepared};
    return pack_.run(arguments, scratch);
  }

 private:
  Status run_rows(const KernelCall& call, std::byte* x, std::byte* y) const {
    std::byte* const weight = call.inputs[1].data;
    std::byte* const wide_x = call.scratch + align_up(use_.scratch_bytes());
    std::byte* const wide_y = wide_x + wide_bytes(in_);
    if (widen_) {
      widen(isa_, reinterpret_cast<const Bf16*>(x), reinterpret_cast<float*>(wide_x), in_);
    }
    std::byte* const from = widen_ ? wide_x : x;
    std::byte* const to = widen_ ? wide_y : y;
    if (bias_) {
      const std::array<void*, 4> arguments{from, weight, call.inputs[2].data, to};
      XRUN_TRY(use_.run(arguments, call.scratch));
    } else {
      const std::array<void*, 3> arguments{from, weight, to};
      XRUN_TRY(use_.run(arguments, call.scratch));
    }
    if (widen_) {
      narrow(isa_, reinterpret_cast<const float*>(wide_y), reinterpret_cast<Bf16*>(y), out_);
    }
    return {};
  }

  static Bytes wide_bytes(int64_t elements) { return align_up(elements * static_cast<Bytes>(sizeof(float))); }

  Isa isa_;
  bool widen_;
  int64_t calls_;
  Bytes bytes_;  // of an activation element
  bool bias_;
  int64_t in_;
  int64_t out_;
  int64_t weight_;
  dnn::Primitive use_;
  dnn::Primitive pack_;
};

class WeightGradient final : public Kernel {
 public:
  WeightGradient(const KernelSpec& spec, dnn::Primitive use, dnn::Primitive unpack)
      : isa_(spec.isa),
        widen_(widens(spec)),
        calls_(spec.rows / rows_of_call(spec)),
        bytes_(size_of(spec.inputs[0].dtype)),
        x_(elements_of(spec, spec.inputs[0])),
        dy_(elements_of(spec, spec.inputs[1])),
        use_(std::move(use)),
        unpack_(std::move(unpack)) {}

  Status run(const KernelCall& call) const override {
    for (int64_t i = 0; i < calls_; ++i) {
      XRUN_TRY(run_rows(call, call.inputs[0].data + i * x_ * bytes_, call.inputs[1].data + i * dy_ * bytes_));
    }
    return {};
  }

  Bytes scratch_bytes() const override {
    const Bytes wide = widen_ ? (align_up(x_, kLanes) + align_up(dy_, kLanes)) * static_cast<Bytes>(sizeof(float)) : 0;
    return own_scratch() + align_up(use_.bytes(2)) + wide;
  }

 private:
  Status run_rows(const KernelCall& call, void* x, void* dy) const {
    // scratch: oneDNN's own | gradient in oneDNN's layout | x, dy widened
    std::byte* const dweight = call.scratch + own_scratch();
    if (widen_) {
      auto* const wide_x = reinterpret_cast<float*>(dweight + align_up(use_.bytes(2)));
      auto* const wide_dy = wide_x + align_up(x_, kLanes);
      widen(isa_, static_cast<const Bf16*>(x), wide_x, x_);
      widen(isa_, static_cast<const Bf16*>(dy), wide_dy, dy_);
      x = wide_x;
      dy = wide_dy;
    }
    const std::array<void*, 3> compute{x, dy, dweight};
    XRUN_TRY(use_.run(compute, call.scratch));
    const std::array<void*, 2> add{dweight, call.outputs[0].data};
    return unpack_.run(add, call.scratch);
  }

  Bytes own_scratch() const { return align_up(std::max(use_.scratch_bytes(), unpack_.scratch_bytes())); }

  Isa isa_;
  bool widen_;
  int64_t calls_;
  Bytes bytes_;
  int64_t x_;
  int64_t dy_;
  dnn::Primitive use_;
  dnn::Primitive unpack_;
};

}  // namespace

DType compute_dtype(const KernelSpec& spec) {
  return spec.inputs[0].dtype == DType::kBF16 && has_native_bf16(spec.isa) ? DType::kBF16 : DType::kF32;
}

int64_t rows_of_call(const KernelSpec& spec) {
  if (!widens(spec)) {
    return spec.rows;
  }
  Bytes row = 0;  // widened activations of one row
  Bytes weight = 0;
  for (const auto* list : {&spec.inputs, &spec.outputs}) {
    for (const TensorType& type : *list) {
      (type.has_batch() ? row : weight) += type.row_elements() * static_cast<Bytes>(sizeof(float));
    }
  }
  // Every call walks the weight once, and a weight gradient is moved three times after each: many short calls with a
  // large weight would lose more than the cache gives.
  const bool gradient = !spec.outputs[0].has_batch();
  const Bytes most = std::max(kWidened, gradient ? 8 * weight : weight);
  int64_t rows = spec.rows;
  while (rows > 1 && (rows * row > most || spec.rows % rows != 0)) {
    --rows;
  }
  return rows;
}

Result<std::unique_ptr<Kernel>> make_apply_weight(const KernelSpec& spec, Result<dnn::Primitive> use) {
  XRUN_ASSIGN(dnn::Primitive primitive, std::move(use));
  XRUN_ASSIGN(dnn::Primitive pack, dnn::pack_weight(primitive, 1));
  return std::unique_ptr<Kernel>(std::make_unique<ApplyWeight>(spec, std::move(primitive), std::move(pack)));
}

Result<std::unique_ptr<Kernel>> make_weight_gradient(const KernelSpec& spec, Result<dnn::Primitive> use) {
  XRUN_ASSIGN(dnn::Primitive primitive, std::move(use));
  XRUN_ASSIGN(dnn::Primitive unpack, dnn::unpack_weight_add(primitive, 2));
  return std::unique_ptr<Kernel>(std::make_unique<WeightGradient>(spec, std::move(primitive), std::move(unpack)));
}

}  // namespace xrun::ops
