// Computes attention one window at a time; scores and products are f32:
// 1. A dense layer computes [q k v] for the whole row block.
// 2. For each sample and window, a matrix product computes the scores of all heads, [h, t, t]; Probabilities applies
//    bias, mask and softmax to them; a product with v gives o.
// 3. A dense layer computes y from o.
// The scores of only one window exist at a time, so memory does not grow with the number of windows. The backward pass
// computes them again from q and k. The rows of a window are copied to scratch if they are narrow or if the sequence
// has several windows; otherwise they are used in place (Rows).
// Tests: tests/ops/conformance_test.cpp
#include "ops/attention/attention_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/attention/attention_scores.h"
#include "ops/catalog.h"
#include "ops/dnn/dnn.h"
#include "ops/simd/convert.h"

namespace xrun::ops {
namespace {

constexpr Bytes kFloat = sizeof(float);

// Sizes of one window, and the strides of its operands in memory; rows of scores are padded to whole lanes.
struct Sizes {
  Sizes(const TensorType& qkv, const Attrs& attrs)
      : windows(Windows::of(qkv.dims[1], attrs).value()),
        positions(qkv.dims[1]),
        t(windows.tokens()),
        dim(qkv.dims[2] / 3),
        h(attrs.integer("heads")),
        d(dim / h),
        padded(align_up(t, kLanes)),
        causal(attrs.flag("causal", false)),
        relative(attrs.flag("relative", false)) {}
  Windows windows;
  int64_t positions;  // positions in the sequence
  int64_t t, dim, h, d, padded;
  bool causal;
  bool relative;

  std::array<int64_t, 3> packed() const { return {d, 3 * dim, 1}; }  // strides of q, k or v inside [q k v]
  std::array<int64_t, 3> packed_transposed() const { return {d, 1, 3 * dim}; }
  std::array<int64_t, 3> features() const { return {d, dim, 1}; }  // strides of o
  std::array<int64_t, 3> scores() const { return {t * padded, padded, 1}; }
  std::array<int64_t, 3> scores_transposed() const { return {t * padded, 1, padded}; }
  Bytes score_bytes() const { return align_up(h * t * padded * kFloat); }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(d)); }

  Result<dnn::Primitive> product_to_scores(bool from_features) const {
    return dnn::matmul({h, t, d, t, from_features ? features() : packed(), packed_transposed(), scores()});
  }
};

Status multiply(const dnn::Primitive& product, const float* a, const float* b, float* c, std::byte* scratch) {
  const std::array<void*, 3> arguments{const_cast<float*>(a), const_cast<float*>(b), c};
  return product.run(arguments, scratch);
}

// Replaces the scores of one window by probabilities.
class Probabilities {
 public:
  Probabilities(Isa isa, const Sizes& sizes) : isa_(isa), sizes_(sizes) {
    for (int64_t w = 0; sizes.windows.is_shifted() && w < sizes.windows.count(); ++w) {
      for (int64_t i = 0; i < sizes.padded; ++i) {
        regions_.push_back(i < sizes.t ? static_cast<float>(sizes.windows.region(w, i)) : -1.0F);
      }
    }
  }

  void run(float* scores, const float* table, int64_t window) const {
    const Sizes& s = sizes_;
    if (s.relative) {
      run_for<BiasBody, float*, const float*, int64_t, const Windows&>(isa_, scores, table, s.h, s.windows, s.padded,
                                                                       s.scale());
    }
    if (s.causal || !regions_.empty()) {
      run_for<MaskBody>(isa_, scores, s.h, s.t, s.padded, s.causal,
                        regions_.empty() ? nullptr : regions_.data() + window * s.padded);
    }
    run_for<SoftmaxBody>(isa_, scores, s.h * s.t, s.t, s.padded, s.relative ? 1.0F : s.scale());
  }

 private:
  Isa isa_;
  Sizes sizes_;
  std::vector<float> regions_;  // regions of the tokens of each window; empty if every token may attend to all
};

// The rows of one window of an activation [T, D], as f32.
class Rows {
 public:
  Rows(Isa isa, DType dtype, const Windows& windows) : isa_(isa), dtype_(dtype), windows_(windows) {}

  // Whether the rows must be copied, because they are narrow or the sequence has several windows.
  bool move() const { return dtype_ != DType::kF32 || !windows_.is_whole(); }

  void gather(const std::byte* from, int64_t dim, int64_t window, float* to) const {
    for_each_run(window, dim, [&](int64_t position, int64_t at, int64_t n) {
      if (dtype_ == DType::kF32) {
        std::memcpy(to + at, reinterpret_cast<const float*>(from) + position, static_cast<size_t>(n * kFloat));
      } else {
        convert(isa_, dtype_, from + position * size_of(dtype_), DType::kF32, to + at, n);
      }
    });
  }

  void scatter(const float* from, int64_t dim, int64_t window, std::byte* to) const {
    for_each_run(window, dim, [&](int64_t position, int64_t at, int64_t n) {
      if (dtype_ == DType::kF32) {
        std::memcpy(reinterpret_cast<float*>(to) + position, from + at, static_cast<size_t>(n * kFloat));
      } else {
        convert(isa_, DType::kF32, from + at, dtype_, to + position * size_of(dtype_), n);
      }
    });
  }

 private:
  // Calls visit(first element in the sequence, first element in the window, n) for each range of contiguous elements.
  template <typename Visit>
  void for_each_run(int64_t window, int64_t dim, const Visit& visit) const {
    const int64_t tokens = windows_.tokens();
    const int64_t each = windows_.is_whole() ? tokens : 1;
    for (int64_t i = 0; i < tokens; i += each) {
      visit(windows_.position(window, i) * dim, i * dim, each * dim);
    }
  }

  Isa isa_;
  DType dtype_;
  Windows windows_;
};

class Attention final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const KernelSpec& spec) {
    auto kernel = std::unique_ptr<Attention>(new Attention(spec));
    const Sizes& s = kernel->sizes_;
    const auto proj = spec.inputs.begin() + kernel->proj_;
    KernelSpec part = spec;
    part.attrs = {};
    part.inputs.assign(spec.inputs.begin(), proj);
    part.outputs = {spec.outputs[1]};
    XRUN_ASSIGN(kernel->qkv_linear_, kLinear.cpu(part));
    part.inputs = {spec.outputs[2], proj[0], proj[1]};
    part.outputs = {spec.outputs[0]};
    XRUN_ASSIGN(kernel->proj_linear_, kLinear.cpu(part));
    XRUN_ASSIGN(kernel->scores_, s.product_to_scores(false));
    XRUN_ASSIGN(kernel->mix_, dnn::matmul({s.h, s.t, s.t, s.d, s.scores(), s.packed(), s.features()}));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Status run(const KernelCall& call) const override {
    const auto proj = static_cast<size_t>(proj_);
    XRUN_TRY(qkv_linear_->run(part_of(call, call.inputs.first(proj), call.outputs.subspan(1, 1))));
    const float* const table = sizes_.relative ? call.inputs.back().as<const float>() : nullptr;
    const Bytes sample = sizes_.positions * sizes_.dim * size_of(dtype_);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t w = 0; w < sizes_.windows.count(); ++w) {
        XRUN_TRY(run_window(call.outputs[1].data + r * 3 * sample, call.outputs[2].data + r * sample, table, w,
                            call.scratch));
      }
    }
    std::array<TensorView, 3> inputs{call.outputs[2], call.inputs[proj], call.inputs[proj + 1]};
    return proj_linear_->run(part_of(call, inputs, call.outputs.first(1)));
  }

  Bytes scratch_bytes() const override {
    return std::max({qkv_linear_->scratch_bytes(), proj_linear_->scratch_bytes(), moved_offset() + moved_bytes()});
  }

  Bytes prepared_bytes(int input) const override {
    return input == 1 ? qkv_linear_->prepared_bytes(1) : input == proj_ ? proj_linear_->prepared_bytes(1) : 0;
  }

  Status prepare(int input, const TensorView& plain, std::byte* prepared, std::byte* scratch) const override {
    return (input == 1 ? qkv_linear_ : proj_linear_)->prepare(1, plain, prepared, scratch);
  }

 private:
  explicit Attention(const KernelSpec& spec)
      : isa_(spec.isa),
        dtype_(spec.inputs[0].dtype),
        rows_(spec.rows),
        sizes_(spec.outputs[1], spec.attrs),
        proj_(static_cast<int>(spec.inputs.size()) - (sizes_.relative ? 3 : 2)),
        probabilities_(isa_, sizes_),
        window_rows_(isa_, dtype_, sizes_.windows) {}

  static KernelCall part_of(const KernelCall& call, std::span<const TensorView> inputs,
                            std::span<const TensorView> outputs) {
    KernelCall part = call;
    part.inputs = inputs;
    part.outputs = outputs;
    return part;
  }

  // Layout of the scratch: scores | scratch of the products | [q k v] and o, if they are copied
  Bytes moved_offset() const {
    return sizes_.score_bytes() + align_up(std::max(scores_.scratch_bytes(), mix_.scratch_bytes()));
  }
  Bytes moved_bytes() const { return window_rows_.move() ? 4 * align_up(sizes_.t * sizes_.dim, kLanes) * kFloat : 0; }

  Status run_window(std::byte* qkv_data, std::byte* o_data, const float* table, int64_t window,
                    std::byte* scratch) const {
    auto* const scores = reinterpret_cast<float*>(scratch);
    std::byte* const own = scratch + sizes_.score_bytes();
    auto* qkv = reinterpret_cast<float*>(qkv_data);
    auto* o = reinterpret_cast<float*>(o_data);
    if (window_rows_.move()) {
      qkv = reinterpret_cast<float*>(scratch + moved_offset());
      o = qkv + 3 * align_up(sizes_.t * sizes_.dim, kLanes);
      window_rows_.gather(qkv_data, 3 * sizes_.dim, window, qkv);
    }
    XRUN_TRY(multiply(scores_, qkv, qkv + sizes_.dim, scores, own));
    probabilities_.run(scores, table, window);
    XRUN_TRY(multiply(mix_, scores, qkv + 2 * sizes_.dim, o, own));
    if (window_rows_.move()) {
      window_rows_.scatter(o, sizes_.dim, window, o_data);
    }
    return {};
  }

  Isa isa_;
  DType dtype_;
  int64_t rows_;
  Sizes sizes_;
  int proj_;  // index of the input with the projection's weight
  Probabilities probabilities_;
  Rows window_rows_;
  std::unique_ptr<Kernel> qkv_linear_;
  std::unique_ptr<Kernel> proj_linear_;
  dnn::Primitive scores_;
  dnn::Primitive mix_;
};

class AttentionGrad final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const KernelSpec& spec) {
    auto kernel = std::unique_ptr<AttentionGrad>(new AttentionGrad(spec));
    const Sizes& s = kernel->sizes_;
    XRUN_ASSIGN(kernel->scores_, s.product_to_scores(false));
    XRUN_ASSIGN(kernel->dp_, s.product_to_scores(true));
    XRUN_ASSIGN(kernel->dv_, dnn::matmul({s.h, s.t, s.t, s.d, s.scores_transposed(), s.features(), s.packed()}));
    XRUN_ASSIGN(kernel->dq_, dnn::matmul({s.h, s.t, s.t, s.d, s.scores(), s.packed(), s.packed()}));
    XRUN_ASSIGN(kernel->dk_, dnn::matmul({s.h, s.t, s.t, s.d, s.scores_transposed(), s.packed(), s.packed()}));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Bytes scratch_bytes() const override { return table_offset() + sizes_.relative * align_up(table() * kDouble); }

  Status run(const KernelCall& call) const override {
    const Bytes sample = sizes_.positions * sizes_.dim * size_of(dtype_);
    const float* const relative = sizes_.relative ? call.inputs[2].as<const float>() : nullptr;
    auto* const dtable = reinterpret_cast<double*>(call.scratch + table_offset());
    std::fill_n(dtable, sizes_.relative ? table() : 0, 0.0);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t w = 0; w < sizes_.windows.count(); ++w) {
        XRUN_TRY(run_window(call.inputs[0].data + 3 * r * sample, call.inputs[1].data + r * sample,
                            call.outputs[0].data + 3 * r * sample, relative, dtable, w, call.scratch));
      }
    }
    for (int64_t i = 0; sizes_.relative && i < table(); ++i) {
      call.outputs[1].as<float>()[i] += static_cast<float>(dtable[i]);
    }
    return {};
  }

 private:
  static constexpr Bytes kDouble = sizeof(double);

  explicit AttentionGrad(const KernelSpec& spec)
      : isa_(spec.isa),
        dtype_(spec.inputs[0].dtype),
        rows_(spec.rows),
        sizes_(spec.inputs[0], spec.attrs),
        probabilities_(isa_, sizes_),
        window_rows_(isa_, dtype_, sizes_.windows) {}

  int64_t table() const { return sizes_.h * sizes_.windows.offsets(); }

  // Layout of the scratch: P | dP | scratch of the products | [q k v], do and d[q k v], if they are copied | gradient
  // of the table
  Bytes moved_offset() const {
    return 2 * sizes_.score_bytes() +
           align_up(std::max({scores_.scratch_bytes(), dp_.scratch_bytes(), dv_.scratch_bytes(), dq_.scratch_bytes(),
                              dk_.scratch_bytes()}));
  }
  Bytes table_offset() const {
    return moved_offset() + (window_rows_.move() ? 7 * align_up(sizes_.t * sizes_.dim, kLanes) * kFloat : 0);
  }

  Status run_window(std::byte* qkv_data, std::byte* do_data, std::byte* dqkv_data, const float* relative,
                    double* dtable, int64_t window, std::byte* scratch) const {
    const Sizes& s = sizes_;
    auto* const p = reinterpret_cast<float*>(scratch);
    auto* const dp = reinterpret_cast<float*>(scratch + s.score_bytes());
    std::byte* const own = scratch + 2 * s.score_bytes();
    auto* qkv = reinterpret_cast<float*>(qkv_data);
    auto* d_o = reinterpret_cast<float*>(do_data);
    auto* dqkv = reinterpret_cast<float*>(dqkv_data);
    const int64_t dim = s.dim;
    if (window_rows_.move()) {
      qkv = reinterpret_cast<float*>(scratch + moved_offset());
      d_o = qkv + 3 * align_up(s.t * dim, kLanes);
      dqkv = d_o + align_up(s.t * dim, kLanes);
      window_rows_.gather(qkv_data, 3 * dim, window, qkv);
      window_rows_.gather(do_data, dim, window, d_o);
    }
    XRUN_TRY(multiply(scores_, qkv, qkv + dim, p, own));
    probabilities_.run(p, relative, window);
    XRUN_TRY(multiply(dv_, p, d_o, dqkv + 2 * dim, own));
    XRUN_TRY(multiply(dp_, d_o, qkv + 2 * dim, dp, own));
    run_for<SoftmaxGradBody>(isa_, static_cast<const float*>(p), dp, s.h * s.t, s.t, s.padded,
                             s.relative ? 1.0F : s.scale());
    if (s.relative) {
      run_for<BiasGradBody, float*, double*, int64_t, const Windows&>(isa_, dp, dtable, s.h, s.windows, s.padded,
                                                                      s.scale());
    }
    XRUN_TRY(multiply(dq_, dp, qkv + dim, dqkv, own));
    XRUN_TRY(multiply(dk_, dp, qkv, dqkv + dim, own));
    if (window_rows_.move()) {
      window_rows_.scatter(dqkv, 3 * dim, window, dqkv_data);
    }
    return {};
  }

  Isa isa_;
  DType dtype_;
  int64_t rows_;
  Sizes sizes_;
  Probabilities probabilities_;
  Rows window_rows_;
  dnn::Primitive scores_;
  dnn::Primitive dp_;
  dnn::Primitive dv_;
  dnn::Primitive dq_;
  dnn::Primitive dk_;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_attention(const KernelSpec& spec) { return Attention::make(spec); }
Result<std::unique_ptr<Kernel>> make_attention_grad(const KernelSpec& spec) { return AttentionGrad::make(spec); }

}  // namespace xrun::ops
