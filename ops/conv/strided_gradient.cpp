#include "ops/conv/strided_gradient.h"

#include <array>
#include <cstring>

#include "ops/shape.h"

namespace xrun::ops {
namespace {

class StridedGradient final : public Kernel {
 public:
  StridedGradient(const KernelSpec& spec, const dnn::ConvShape& shape, std::unique_ptr<Kernel> unstrided)
      : rows_(spec.rows),
        pixel_(shape.channels * size_of(spec.inputs[0].dtype)),
        shape_(shape),
        unstrided_(std::move(unstrided)) {}

  double work() const override { return unstrided_->work(); }
  Bytes scratch_bytes() const override { return copied_bytes() + unstrided_->scratch_bytes(); }

  Status run(const KernelCall& call) const override {
    const int64_t width = shape_.out_width();
    std::byte* to = call.scratch;
    for (int64_t row = 0; row < rows_ * shape_.out_height(); ++row) {
      const int64_t image = row / shape_.out_height();
      const int64_t line = row % shape_.out_height() * shape_.stride.h;
      const std::byte* from = call.inputs[0].data + (image * shape_.height + line) * shape_.width * pixel_;
      for (int64_t at = 0; at < width; ++at, to += pixel_, from += shape_.stride.w * pixel_) {
        std::memcpy(to, from, static_cast<size_t>(pixel_));
      }
    }
    const std::array<TensorView, 2> inputs{TensorView{call.scratch}, call.inputs[1]};
    KernelCall inner = call;
    inner.inputs = inputs;
    inner.scratch = call.scratch + copied_bytes();
    return unstrided_->run(inner);
  }

 private:
  Bytes copied_bytes() const { return align_up(rows_ * shape_.out_height() * shape_.out_width() * pixel_); }

  int64_t rows_;
  Bytes pixel_;
  dnn::ConvShape shape_;
  std::unique_ptr<Kernel> unstrided_;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_strided_gradient(const KernelSpec& spec, const dnn::ConvShape& shape,
                                                      const MakeUnstrided& make) {
  KernelSpec inner = spec;
  inner.inputs[0] = with_dims(spec.inputs[0], {kBatch, shape.channels, shape.out_height(), shape.out_width()});
  dnn::ConvShape unstrided = shape;
  unstrided.height = shape.out_height();
  unstrided.width = shape.out_width();
  unstrided.stride = {1, 1};
  unstrided.rows = rows_of_call(inner);
  XRUN_ASSIGN(std::unique_ptr<Kernel> kernel, make(inner, unstrided));
  return std::unique_ptr<Kernel>(std::make_unique<StridedGradient>(spec, shape, std::move(kernel)));
}

}  // namespace xrun::ops
