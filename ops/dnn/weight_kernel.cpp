// ApplyWeight computes forward passes and input gradients, WeightGradient computes weight gradients. Both divide a row
// block into equal calls of one oneDNN primitive (rows_of_call), so that activations that are widened to f32 stay in
// the second-level cache. Parts of a forward pass are different calls. Parts of a weight gradient are instead different
// outputs of the weight (slices), since dividing its rows would change the order of its sums.
// Tests: tests/ops/oracles_test.cpp, tests/ops/conformance_test.cpp
#include "ops/dnn/weight_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "ops/parts.h"
#include "ops/simd/convert.h"

namespace xrun::ops {
namespace {

// Size of the widened activations of a call. It is a part of the second-level cache of a core, which has 2 MiB (1 MiB
// on Zen 4); the rest is for weights and narrow activations.
constexpr Bytes kWidened = 768 * kKiB;
// The number of calls into which a row block is divided so that several workers can share it, and the least size of the
// activations of such a call.
constexpr int64_t kParts = 8;
constexpr Bytes kShortCall = 256 * kKiB;

int64_t elements_of(const KernelSpec& spec, const TensorType& type) { return type.row_elements() * rows_of_call(spec); }

bool widens(const KernelSpec& spec) { return is_narrow(spec.inputs[0].dtype) && compute_dtype(spec) == DType::kF32; }

Bytes wide_bytes(int64_t elements) { return align_up(elements * static_cast<Bytes>(sizeof(float))); }

class ApplyWeight final : public Kernel {
 public:
  ApplyWeight(const KernelSpec& spec, dnn::Primitive use, dnn::Primitive pack)
      : isa_(spec.isa),
        dtype_(spec.inputs[0].dtype),
        widen_(widens(spec)),
        calls_(spec.rows / rows_of_call(spec)),
        bytes_(size_of(spec.inputs[0].dtype)),
        bias_(spec.inputs.size() > 2),
        in_(elements_of(spec, spec.inputs[0])),
        out_(elements_of(spec, spec.outputs[0])),
        weight_(spec.inputs[1].row_elements()),
        use_(std::move(use)),
        pack_(std::move(pack)) {}

  int64_t parts() const override { return calls_; }

  Status run(const KernelCall& call) const override {
    const Range some = part_of(call, calls_);
    for (int64_t i = some.begin; i < some.end; ++i) {
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
      round_to(isa_, dtype_, plain.as<float>(), reinterpret_cast<float*>(from), weight_);
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
      convert(isa_, dtype_, x, DType::kF32, wide_x, in_);
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
      convert(isa_, DType::kF32, wide_y, dtype_, y, out_);
    }
    return {};
  }

  Isa isa_;
  DType dtype_;  // type of the activations
  bool widen_;
  int64_t calls_;
  Bytes bytes_;  // size of an element of the activations
  bool bias_;
  int64_t in_;
  int64_t out_;
  int64_t weight_;
  dnn::Primitive use_;
  dnn::Primitive pack_;
};

// A primitive that computes the gradient of some outputs of a weight, and a primitive that accumulates the result.
struct GradientCall {
  int64_t outputs = 0;
  dnn::Primitive use;
  dnn::Primitive unpack;
};

// Computes a weight gradient. A call that is not divided runs one primitive for all outputs. A part computes some
// slices of the outputs; `slice` computes each slice from its channels of dy and from all of x.
class WeightGradient final : public Kernel {
 public:
  WeightGradient(const KernelSpec& spec, GradientCall whole, std::optional<GradientCall> slice)
      : isa_(spec.isa),
        dtype_(spec.inputs[0].dtype),
        widen_(widens(spec)),
        calls_(spec.rows / rows_of_call(spec)),
        bytes_(size_of(spec.inputs[0].dtype)),
        x_(elements_of(spec, spec.inputs[0])),
        dy_(elements_of(spec, spec.inputs[1])),
        each_(spec.outputs[0].row_elements() / whole.outputs),
        whole_(std::move(whole)),
        slice_(std::move(slice)) {}

  int64_t parts() const override { return slice_ ? whole_.outputs / slice_->outputs : 1; }

  Status run(const KernelCall& call) const override {
    const GradientCall& made = call.parts == 1 ? whole_ : *slice_;
    const Range some = part_of(call, whole_.outputs, made.outputs);
    for (int64_t i = 0; i < calls_; ++i) {
      XRUN_TRY(
          run_rows(made, some, call, call.inputs[0].data + i * x_ * bytes_, call.inputs[1].data + i * dy_ * bytes_));
    }
    return {};
  }

  Bytes scratch_bytes() const override { return std::max(scratch_of(whole_), slice_ ? scratch_of(*slice_) : 0); }

 private:
  // Layout of the scratch: scratch of oneDNN | gradient in oneDNN's layout | x, if it is widened | dy, if it is widened
  // or sliced
  Status run_rows(const GradientCall& made, Range outputs, const KernelCall& call, std::byte* x, std::byte* dy) const {
    std::byte* const dweight = call.scratch + own_scratch(made);
    std::byte* const own_x = dweight + align_up(made.use.bytes(2));
    std::byte* const own_dy = own_x + x_bytes();
    if (widen_) {
      convert(isa_, dtype_, x, DType::kF32, own_x, x_);
    }
    const bool moved = widen_ || made.outputs < whole_.outputs;
    for (int64_t o = outputs.begin; o < outputs.end; o += made.outputs) {
      if (moved) {
        take_channels(dy, o, made.outputs, own_dy);
      }
      const std::array<void*, 3> compute{widen_ ? own_x : x, moved ? own_dy : dy, dweight};
      XRUN_TRY(made.use.run(compute, call.scratch));
      const std::array<void*, 2> add{dweight, call.outputs[0].as<float>() + o * each_};
      XRUN_TRY(made.unpack.run(add, call.scratch));
    }
    return {};
  }

  // Copies channels first .. first + count of dy to contiguous memory.
  void take_channels(const std::byte* dy, int64_t first, int64_t count, std::byte* to) const {
    const bool all = count == whole_.outputs;
    const int64_t runs = all ? 1 : dy_ / whole_.outputs;
    const int64_t n = all ? dy_ : count;
    for (int64_t at = 0; at < runs; ++at) {
      const std::byte* const from = dy + (at * whole_.outputs + first) * bytes_;
      if (widen_) {
        convert(isa_, dtype_, from, DType::kF32, reinterpret_cast<float*>(to) + at * n, n);
      } else {
        std::memcpy(to + at * n * bytes_, from, static_cast<size_t>(n * bytes_));
      }
    }
  }

  Bytes x_bytes() const { return widen_ ? wide_bytes(x_) : 0; }
  Bytes dy_bytes(const GradientCall& made) const {
    const int64_t elements = dy_ / whole_.outputs * made.outputs;
    return widen_ ? wide_bytes(elements) : made.outputs < whole_.outputs ? align_up(elements * bytes_) : 0;
  }
  Bytes own_scratch(const GradientCall& made) const {
    return align_up(std::max(made.use.scratch_bytes(), made.unpack.scratch_bytes()));
  }
  Bytes scratch_of(const GradientCall& made) const {
    return own_scratch(made) + align_up(made.use.bytes(2)) + x_bytes() + dy_bytes(made);
  }

  Isa isa_;
  DType dtype_;  // type of the activations
  bool widen_;
  int64_t calls_;
  Bytes bytes_;
  int64_t x_;
  int64_t dy_;
  int64_t each_;  // number of elements of the weight for each output
  GradientCall whole_;
  std::optional<GradientCall> slice_;  // absent if parts could give other bits than the whole call
};

// Returns the number of outputs in a slice if the weight can be divided into four or two equal slices. Returns 0 if a
// slice might add in another order than the whole call, as in 1 x 1 convolutions, and in dense layers before AVX-512.
// For all other cases tests/ops/parts_test.cpp compares the bits. oneDNN does not promise equal bits, so there are no
// slices if bits must not depend on the workers (`deterministic`).
int64_t outputs_of_slice(const KernelSpec& spec) {
  const TensorType& weight = spec.outputs[0];
  const int64_t outputs = weight.dims[0];
  const bool is_conv = weight.rank() == 4;
  const bool keeps_bits =
      is_conv ? weight.dims[2] > 1 && spec.attrs.integer("groups", 1) == 1 : spec.isa >= Isa::kAvx512;
  const int64_t fewest = is_conv ? kLanes : 2 * kLanes;
  for (const int64_t slices : {4, 2}) {
    if (keeps_bits && !spec.deterministic && outputs % (slices * fewest) == 0) {
      return outputs / slices;
    }
  }
  return 0;
}

Result<GradientCall> make_gradient_call(int64_t outputs, const MakeGradient& make) {
  XRUN_ASSIGN(dnn::Primitive use, make(outputs));
  XRUN_ASSIGN(dnn::Primitive unpack, dnn::unpack_weight_add(use, 2));
  return GradientCall{outputs, std::move(use), std::move(unpack)};
}

}  // namespace

DType compute_dtype(const KernelSpec& spec) {
  return spec.inputs[0].dtype == DType::kBF16 && has_native_bf16(spec.isa) ? DType::kBF16 : DType::kF32;
}

int64_t rows_of_call(const KernelSpec& spec) {
  const bool gradient = !spec.outputs[0].has_batch();
  if (gradient && !widens(spec)) {
    return spec.rows;
  }
  Bytes row = 0;  // size of the activations of one row, in f32
  Bytes weight = 0;
  for (const auto* list : {&spec.inputs, &spec.outputs}) {
    for (const TensorType& type : *list) {
      (type.has_batch() ? row : weight) += type.row_elements() * static_cast<Bytes>(sizeof(float));
    }
  }
  // Bounds the number of calls with a large weight: every call reads the weight once, and a weight gradient is moved
  // three times after each call. Many short calls would lose more time than the cache, or another worker, saves.
  const Bytes most = std::max(kWidened, gradient ? 8 * weight : weight);
  int64_t rows = spec.rows;
  while (rows > 1 && widens(spec) && (rows * row > most || spec.rows % rows != 0)) {
    --rows;
  }
  // A convolution reads its weight for each image anyway, so its calls may be shorter, unless the weight is large.
  const bool is_conv = spec.inputs[1].rank() == 4;
  const Bytes fewest = std::max({kShortCall, is_conv ? weight / 4 : weight, spec.rows * row / kParts});
  for (int64_t fewer = 1; fewer < rows && !gradient; ++fewer) {
    if (spec.rows % fewer == 0 && fewer * row >= fewest) {
      return fewer;
    }
  }
  return rows;
}

Result<std::unique_ptr<Kernel>> make_apply_weight(const KernelSpec& spec, Result<dnn::Primitive> use) {
  XRUN_ASSIGN(dnn::Primitive primitive, std::move(use));
  XRUN_ASSIGN(dnn::Primitive pack, dnn::pack_weight(primitive, 1));
  return std::unique_ptr<Kernel>(std::make_unique<ApplyWeight>(spec, std::move(primitive), std::move(pack)));
}

Result<std::unique_ptr<Kernel>> make_weight_gradient(const KernelSpec& spec, const MakeGradient& make) {
  XRUN_ASSIGN(GradientCall whole, make_gradient_call(spec.outputs[0].dims[0], make));
  std::optional<GradientCall> slice;
  if (const int64_t outputs = outputs_of_slice(spec); outputs > 0) {
    XRUN_ASSIGN(slice, make_gradient_call(outputs, make));
    if (slice->use.implementation() != whole.use.implementation()) {
      slice.reset();
    }
  }
  return std::unique_ptr<Kernel>(std::make_unique<WeightGradient>(spec, std::move(whole), std::move(slice)));
}

}  // namespace xrun::ops
