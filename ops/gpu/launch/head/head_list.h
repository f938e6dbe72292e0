// HeadList: writes launches of the kernels of classifier heads (ops/gpu/head/*.cu) for one shape. Helpers for the lists
// of passes and of sums over shards.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "graph/layouts/gpu_head.h"
#include "ops/gpu/launch/launch_list.h"

namespace xrun::ops::gpu {

class HeadList {
 public:
  // `shape` must outlive the list. REQUIRES: a shape that GPUs can run (GpuHeadPasses).
  HeadList(const HeadShape& shape, const HeadLayout& layout, GpuTarget target)
      : shape_(shape), layout_(layout), list_(target) {}

  // "f32" or "bf16": of features, class rows, states, and operands of products.
  std::string features() const { return shape_.features == DType::kBF16 ? "bf16" : "f32"; }
  std::string weights() const { return std::string(name_of(shape_.weights)); }
  std::string states() const { return std::string(name_of(shape_.states)); }
  std::string operands() const { return shape_.bf16 ? "bf16" : "f32"; }

  // Adds launches with one thread for each of `count` elements, or with a warp for each of `count` rows.
  template <class... Arguments>
  void each(const char* module, std::string kernel, int64_t count, const Arguments&... arguments) {
    list_.each(module, std::move(kernel), count, arguments...);
  }
  template <class... Arguments>
  void rows(const char* module, std::string kernel, int64_t count, const Arguments&... arguments) {
    list_.each(module, std::move(kernel), 32 * count, arguments...);
  }
  // Adds a product with `tiles` tiles of 64 x 64 numbers.
  template <class... Arguments>
  void product(const std::string& name, int64_t tiles, const Arguments&... arguments) {
    list_.add("head_product_" + operands(), "product_head_" + name + "_" + operands(), {tiles, 1, 1},
              {shape_.bf16 ? 128 : 256, 1, 1}, arguments...);
  }
  static int64_t tiles_of(int64_t n) { return pieces_of(n, 64); }
  // Adds a launch of head_stats.cu for each class block and each 32 places of a tile of logits.
  template <class... Arguments>
  void blocks(std::string kernel, int64_t class_blocks, int64_t places, const Arguments&... arguments) {
    list_.add("head_stats", std::move(kernel), {class_blocks * (places / 32), 1, 1}, {32, 8, 1}, arguments...);
  }

  // Adds the margin and its slope at the targets' logits of `places` places, for rows with a target among the classes.
  // `nodes` and `values`: working memory of a margin that is an expression of its own; store_nodes has written `nodes`.
  struct Margin {
    GpuArgument targets, labels, psi, slope, nodes, values;
  };
  void margin(const Margin& at, int64_t places, ClassRange classes);
  void store_nodes(const GpuArgument& nodes);

  // Sums on a stack of partial results for the steps of HeadFold. `push(step, depth)` returns the address of a result;
  // `place(depth)` is the address for a sum at this depth of the stack; `merge(out, left, right)` adds. Returns the
  // address of the result.
  template <class Push, class Place, class Merge>
  static GpuArgument fold(const std::vector<HeadFold>& steps, const Push& push, const Place& place,
                          const Merge& merge) {
    std::vector<GpuArgument> stack;
    for (const HeadFold& step : steps) {
      if (step.piece >= 0) {
        stack.push_back(push(step, static_cast<int64_t>(stack.size())));
        continue;
      }
      const GpuArgument right = stack.back();
      stack.pop_back();
      const GpuArgument sum = place(static_cast<int64_t>(stack.size()) - 1);
      merge(sum, stack.back(), right);
      stack.back() = sum;
    }
    return stack.back();
  }

  // Numbers of a slot of statistics.
  int64_t stats_slot() const { return layout_.stat_planes * layout_.rows_padded; }
  // Adds the merge of `pairs` pairs of statistics, or of dX partials with `elements` numbers, which follow one another
  // every `step` numbers.
  void merge_stats(const GpuArgument& sum, const GpuArgument& left, const GpuArgument& right, int64_t step = 0,
                   int64_t pairs = 1) {
    each("head_stats", "head_merge_stats", pairs * layout_.rows_padded, sum, left, right, step, pairs,
         layout_.rows_padded, shape_.top_k);
  }
  void merge_dx(const GpuArgument& sum, const GpuArgument& left, const GpuArgument& right, int64_t elements,
                int64_t step = 0, int64_t pairs = 1) {
    each("head_rows", "head_merge_dx", pairs * elements, sum, left, right, step, pairs, elements);
  }

  float scale() const { return static_cast<float>(shape_.margin.scale); }
  float filter() const {
    return shape_.margin.filter < 1 ? static_cast<float>(shape_.margin.filter) : std::numeric_limits<float>::infinity();
  }

  std::vector<GpuLaunch> take() { return list_.take(); }

 private:
  const HeadShape& shape_;
  const HeadLayout& layout_;
  LaunchList list_;
};

// An address that is null unless `exists`.
inline GpuArgument address_if(bool exists, const GpuArgument& address) { return exists ? address : null_address(); }

}  // namespace xrun::ops::gpu
