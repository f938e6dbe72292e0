// Self-attention and its gradients as launches. The working memory of a gradient has three numbers of each query and,
// for trained biases, the sums of the gradients of scores over each row block.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>
#include <limits>

#include "ops/attention/attention_windows.h"
#include "ops/gpu/launch/operators.h"
#include "ops/gpu/launch/products.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;

constexpr int64_t kTile = 64;  // queries or keys of a thread block
constexpr int64_t kMostTiles = std::numeric_limits<int32_t>::max();

class Attention {
 public:
  // `features`: the type of o or of its gradient, [N, T, D]. Errors: XG0824.
  static Result<Attention> of(const GpuSpec& spec, const TensorType& features) {
    XRUN_ASSIGN(std::string ending, type_ending(spec, features.dtype));
    XRUN_ASSIGN(const Windows windows, Windows::of(features.dims[1], spec.node.attrs));
    Attention made(spec, features, windows, std::move(ending));
    if (made.most_tiles() > kMostTiles) {
      return no_gpu_kernel(spec, "row blocks with so many queries");
    }
    return made;
  }

  int64_t features() const { return features_.dims[2]; }
  // The working memory of a row block.
  Bytes stats_bytes() const { return rows_ * units() * tiles() * kTile * 3 * 4; }
  Bytes pairs_bytes() const { return heads_ * windows_.tokens() * windows_.tokens() * 8; }
  int64_t positions(int64_t blocks) const { return rows_ * blocks * features_.dims[1]; }

  // Calls body(first row block, row blocks) for the row blocks of each launch.
  template <class Body>
  void for_launches(int64_t blocks, const Body& body) const {
    for_pieces(blocks, kMostTiles / most_tiles(), body);
  }
  // Returns a tensor with `parts` times as many numbers as o, from a row block on.
  GpuArgument at(const GpuArgument& tensor, int64_t block, int64_t parts) const {
    return after(tensor, block * positions(1) * parts * features() * size_of(features_.dtype));
  }

  // Adds a launch with a thread block for each 64 queries or keys of `blocks` row blocks.
  void add(LaunchList& list, const std::string& kernel, int64_t blocks, std::vector<GpuArgument> addresses) const {
    add(list, kernel, blocks * tiles_of_block(), std::move(addresses), {});
  }
  // Adds the sums of the gradients of scores over each row block, and then the gradient of the trained biases.
  void add_relative(LaunchList& list, int64_t blocks, std::vector<GpuArgument> addresses, const GpuArgument& pairs,
                    const GpuArgument& drelative) const {
    addresses.push_back(pairs);
    add(list, "attention_pairs", blocks * heads_ * tiles() * tiles(), std::move(addresses), {rows_ * blocks, rows_});
    list.each("attention", "attention_relative", heads_ * windows_.offsets(), pairs, drelative, blocks, narrow(heads_),
              narrow(windows_.rows), narrow(windows_.columns));
  }

 private:
  Attention(const GpuSpec& spec, const TensorType& features, const Windows& windows, std::string ending)
      : features_(features),
        windows_(windows),
        ending_(std::move(ending)),
        rows_(spec.node.rows),
        heads_(spec.node.attrs.integer("heads")),
        causal_(spec.node.attrs.flag("causal", false)) {}

  static int32_t narrow(int64_t size) { return static_cast<int32_t>(size); }
  int64_t units() const { return windows_.count() * heads_; }  // heads of all windows of a sample
  int64_t tiles() const { return pieces_of(windows_.tokens(), kTile); }
  int64_t tiles_of_block() const { return rows_ * units() * tiles(); }
  int64_t most_tiles() const { return std::max(tiles_of_block(), heads_ * tiles() * tiles()); }

  void add(LaunchList& list, const std::string& kernel, int64_t thread_blocks, std::vector<GpuArgument> arguments,
           std::initializer_list<int64_t> last) const {
    for (const int64_t size : {heads_, features() / heads_, windows_.height, windows_.width, windows_.rows,
                               windows_.columns, windows_.down, windows_.right, int64_t{causal_ ? 1 : 0}}) {
      arguments.push_back(argument_of(narrow(size)));
    }
    for (const int64_t size : last) {
      arguments.push_back(argument_of(narrow(size)));
    }
    list.add_to("attention", kernel + ending_, {thread_blocks, 1, 1},
                {features_.dtype == DType::kBF16 ? 128 : 256, 1, 1}, std::move(arguments));
  }

  TensorType features_;
  Windows windows_;
  std::string ending_;
  int64_t rows_;
  int64_t heads_;
  bool causal_;
};

// Inputs: x, the weight of q, k and v, perhaps their bias, the weight and the bias of the last projection, and perhaps
// the trained biases. Outputs: y, [q k v], o.
Made make_attention(const GpuSpec& spec) {
  const std::vector<TensorType>& inputs = spec.node.inputs;
  XRUN_ASSIGN(const Attention attention, Attention::of(spec, inputs[0]));
  const bool relative = spec.node.attrs.flag("relative", false);
  const int last = static_cast<int>(inputs.size()) - 1, proj = last - (relative ? 2 : 1);
  const int64_t d = attention.features();
  const auto run = [=, dtype = inputs[0].dtype](LaunchList& list, int64_t blocks) {
    const int64_t positions = attention.positions(blocks);
    add_weight_product(list, dtype, WeightForm::kOutIn, in(0), in(1), proj == 3 ? in(2) : null_address(), out(1),
                       positions, 3 * d, d);
    attention.for_launches(blocks, [&](int64_t begin, int64_t count) {
      attention.add(
          list, "attention", count,
          {attention.at(out(1), begin, 3), relative ? in(last) : null_address(), attention.at(out(2), begin, 1)});
    });
    add_weight_product(list, dtype, WeightForm::kOutIn, out(2), in(proj), in(proj + 1), out(0), positions, d, d);
  };
  return gpu_kernel_of(spec, run, 0,
                       rounded_weights(spec, {{.input = 1, .rows = 3 * d * d}, {.input = proj, .rows = d * d}}));
}

// Inputs: [q k v], the gradient of o, and perhaps the trained biases. Outputs: the gradients of [q k v] and of the
// trained biases.
Made make_gradient(const GpuSpec& spec) {
  XRUN_ASSIGN(const Attention attention, Attention::of(spec, spec.node.inputs[1]));
  const bool relative = spec.node.inputs.size() > 2;
  const Bytes pairs = spec.for_blocks(attention.stats_bytes());
  const auto run = [=](LaunchList& list, int64_t blocks) {
    attention.for_launches(blocks, [&](int64_t begin, int64_t count) {
      const std::vector<GpuArgument> inputs{attention.at(in(0), begin, 3), attention.at(in(1), begin, 1),
                                            relative ? in(2) : null_address()};
      std::vector<GpuArgument> addresses = inputs;
      addresses.insert(addresses.end(), {attention.at(out(0), begin, 3), scratch()});
      attention.add(list, "attention_dq", count, addresses);
      attention.add(list, "attention_dkv", count, std::move(addresses));
      if (relative) {
        addresses = inputs;
        addresses.push_back(scratch());
        attention.add_relative(list, count, std::move(addresses), scratch(pairs), out(1));
      }
    });
  };
  return gpu_kernel_of(spec, run, pairs + (relative ? spec.for_blocks(attention.pairs_bytes()) : 0));
}

constexpr std::array kOps{
    GpuOp{"attention", make_attention},
    GpuOp{"attention.grad", make_gradient},
    GpuOp{"attention.relative", make_gradient},
};

}  // namespace

std::span<const GpuOp> attention_launches() { return kOps; }

}  // namespace xrun::ops::gpu
