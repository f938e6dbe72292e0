// LaunchList: writes lists of launches. Helpers for the makers of kernels (operators.h).
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "ops/gpu/launch/gpu_kernel.h"

namespace xrun::ops::gpu {

// Addresses. `offset` counts bytes.
inline GpuArgument in(int operand, int64_t offset = 0) {
  return {.kind = GpuArgument::Kind::kInput, .operand = operand, .number = static_cast<uint64_t>(offset)};
}
inline GpuArgument out(int operand, int64_t offset = 0) {
  return {.kind = GpuArgument::Kind::kOutput, .operand = operand, .number = static_cast<uint64_t>(offset)};
}
inline GpuArgument scratch(int64_t offset = 0) {
  return {.kind = GpuArgument::Kind::kScratch, .number = static_cast<uint64_t>(offset)};
}
// The address `bytes` after another one.
inline GpuArgument after(GpuArgument address, int64_t bytes) {
  address.number += static_cast<uint64_t>(bytes);
  return address;
}
inline GpuArgument of_call(GpuArgument::Kind kind) { return {.kind = kind}; }
inline GpuArgument null_address() { return {}; }

inline GpuArgument argument_of(const GpuArgument& given) { return given; }
inline GpuArgument argument_of(int64_t value) { return {.number = static_cast<uint64_t>(value)}; }
inline GpuArgument argument_of(uint64_t value) { return {.number = value}; }
inline GpuArgument argument_of(int32_t value) { return {.bytes = 4, .number = static_cast<uint32_t>(value)}; }
inline GpuArgument argument_of(uint32_t value) { return {.bytes = 4, .number = value}; }
inline GpuArgument argument_of(float value) { return {.bytes = 4, .number = std::bit_cast<uint32_t>(value)}; }
inline GpuArgument argument_of(double value) { return {.number = std::bit_cast<uint64_t>(value)}; }

// The largest number of thread blocks in the second and in the third dimension of a grid.
inline constexpr int64_t kMostBlocks = 65'535;
inline constexpr int64_t kThreadsOfBlock = 128;  // for kernels with a grid of one dimension
inline constexpr int64_t kThreadsOfRow = 16;     // for kernels with sums over rows

inline constexpr int64_t kColumnsOfBlock = 32;  // for kernels with sums over columns (ops/gpu/column_sums.h)

using Sizes = std::array<int64_t, 3>;
inline constexpr Sizes kThreadsOfColumns{32, 8, 1};

constexpr int64_t pieces_of(int64_t count, int64_t each) { return (count + each - 1) / each; }

class LaunchList {
 public:
  explicit LaunchList(GpuTarget target) : compute_(target == GpuTarget::kSm90 ? 90 : 80) {}

  // Adds a launch of a kernel of ops/gpu/MODULE.cu. A grid without blocks is left out. REQUIRES: the grid is within the
  // limits of a GPU.
  template <class... Arguments>
  void add(std::string_view module, std::string kernel, Sizes blocks, Sizes threads, const Arguments&... arguments) {
    add_to(module, std::move(kernel), blocks, threads, {argument_of(arguments)...});
  }
  void add_to(std::string_view module, std::string kernel, Sizes blocks, Sizes threads,
              std::vector<GpuArgument> arguments) {
    add_launch(text_of(module), std::move(kernel), blocks, threads, std::move(arguments));
  }
  // Likewise with at least `threads` threads in a grid of one dimension.
  template <class... Arguments>
  void each(std::string_view module, std::string kernel, int64_t threads, const Arguments&... arguments) {
    add(module, std::move(kernel), {pieces_of(threads, kThreadsOfBlock), 1, 1}, {kThreadsOfBlock, 1, 1}, arguments...);
  }
  void add_launch(std::string_view text, std::string kernel, Sizes blocks, Sizes threads,
                  std::vector<GpuArgument> arguments);

  std::vector<GpuLaunch> take() { return std::move(launches_); }

 private:
  std::string_view text_of(std::string_view module) const;

  int compute_;
  std::vector<GpuLaunch> launches_;
};

// A weight [rows, columns, depth] that a kernel reads in bf16, stored as [rows, depth, columns].
struct RoundedWeight {
  int input = 0;
  int64_t rows = 0;
  int64_t columns = 1;
  int64_t depth = 1;

  Bytes bytes() const { return rows * columns * depth * size_of(DType::kBF16); }
  void add_to(LaunchList& list) const;  // from input 0 to output 0
};

// Returns the weights if the first input of the operator is bf16. Products of f32 read weights as they are.
std::vector<RoundedWeight> rounded_weights(const GpuSpec& spec, std::vector<RoundedWeight> weights);

// A kernel that is a function run(list, blocks).
template <class Run>
class FunctionGpuKernel final : public GpuKernel {
 public:
  FunctionGpuKernel(GpuTarget target, Run run, Bytes scratch, std::vector<RoundedWeight> weights)
      : target_(target), run_(std::move(run)), scratch_(scratch), weights_(std::move(weights)) {}
  std::vector<GpuLaunch> launches(int64_t blocks) const override {
    LaunchList list(target_);
    run_(list, blocks);
    return list.take();
  }
  Bytes scratch_bytes() const override { return scratch_; }
  Bytes prepared_bytes(int input) const override {
    const auto weight = std::ranges::find(weights_, input, &RoundedWeight::input);
    return weight == weights_.end() ? 0 : weight->bytes();
  }
  std::vector<GpuLaunch> prepare(int input) const override {
    LaunchList list(target_);
    for (const RoundedWeight& weight : weights_) {
      if (weight.input == input) {
        weight.add_to(list);
      }
    }
    return list.take();
  }

 private:
  GpuTarget target_;
  Run run_;
  Bytes scratch_;
  std::vector<RoundedWeight> weights_;
};

template <class Run>
Result<std::unique_ptr<GpuKernel>> gpu_kernel_of(const GpuSpec& spec, Run run, Bytes scratch = 0,
                                                 std::vector<RoundedWeight> weights = {}) {
  return std::unique_ptr<GpuKernel>(std::make_unique<FunctionGpuKernel<Run>>(
      spec.target, std::move(run), align_up(scratch, 256), std::move(weights)));
}

// XG0824: a call of the operator has no kernel. `what` completes "`relu` has no kernel of GPUs for ...".
Error no_gpu_kernel(const GpuSpec& spec, const std::string& what);

// The end of the names of kernels for a type: "_f32" or "_bf16". Errors: XG0824 for all other types.
Result<std::string> type_ending(const GpuSpec& spec, DType dtype);

// Calls body(begin, count) for pieces of `count` things of at most `most` each.
template <class Body>
void for_pieces(int64_t count, int64_t most, const Body& body) {
  for (int64_t begin = 0; begin < count; begin += most) {
    body(begin, std::min(most, count - begin));
  }
}

}  // namespace xrun::ops::gpu
