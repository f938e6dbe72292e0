// The convolution that an operator computes, or whose gradient it computes, for the lists of launches.
#pragma once

#include "ops/dnn/dnn.h"
#include "ops/gpu/launch/launch_list.h"

namespace xrun::ops::gpu {

// Inputs and outputs of the kernels. A transposed convolution is the gradient by x of the convolution that it
// transposes, and its gradient by x is that convolution.
enum class ConvPass : uint8_t {
  kForward,  // y from x, a weight and perhaps a bias: conv, dwconv, deconv.dx
  kDx,       // dx from dy and a weight: conv.dx, deconv
  kDw,       // dw from x and dy: conv.dw
};
ConvPass conv_pass_of(const GpuSpec& spec);

// Returns the shape of the convolution for one row block.
dnn::ConvShape conv_shape_of(const GpuSpec& spec);
// Whether each channel has a window of its own (depthwise_launches.cpp).
inline bool is_depthwise(const dnn::ConvShape& s) {
  return s.groups > 1 && s.groups == s.channels && s.groups == s.out_channels;
}

// The kernels' arguments from the size of the window to its dilation.
std::vector<GpuArgument> window_arguments(const dnn::ConvShape& shape);

// The sums of a weight gradient for each row block, with more thread blocks at work than one sum of all row blocks
// would have. Each sum takes `elements` f32 numbers.
class BlockSums {
 public:
  // `thread_blocks`: the thread blocks of a launch that adds all row blocks to the gradient one after the other.
  BlockSums(const GpuSpec& spec, int64_t thread_blocks, int64_t elements);

  Bytes scratch_bytes() const { return scratch_; }
  // Calls launch(place of the sums, row blocks of the grid, stride) for some row blocks of the call, and adds the sums
  // to output 0. Without sums, the launch itself adds to output 0 and has the stride 0.
  template <class Launch>
  void add(LaunchList& list, int64_t blocks, const Launch& launch) const {
    if (scratch_ == 0 || blocks == 1) {
      launch(out(0), int64_t{1}, int64_t{0});
      return;
    }
    launch(scratch(), blocks, elements_);
    list.each("column_sums", "add_parts_f32", elements_, scratch(), out(0), elements_, blocks);
  }

 private:
  Bytes scratch_;
  int64_t elements_;
};

// The kernels of convolutions that are depthwise. Errors: XG0824 for a type.
Result<std::unique_ptr<GpuKernel>> make_depthwise(const GpuSpec& spec);
Result<std::unique_ptr<GpuKernel>> make_depthwise_dw(const GpuSpec& spec);

}  // namespace xrun::ops::gpu
