#include "ops/gpu/launch/head/head_list.h"

#include <array>
#include <bit>

#include "graph/types/scalar_expr.h"
#include "ops/head/margin_program.h"

namespace xrun::ops::gpu {

static_assert(sizeof(MarginNode) == kGpuMarginNode, "plans count what kernels read");

void HeadList::margin(const Margin& at, int64_t places, ClassRange classes) {
  const MarginForm& form = shape_.margin;
  if (form.own != nullptr) {
    const ScalarExpr& own = *form.own;
    each("head_margins", "head_own_margin", places, at.targets, at.labels, at.nodes, at.values, at.psi, at.slope,
         static_cast<int64_t>(own.nodes().size()), static_cast<int64_t>(own.results()[0].index),
         static_cast<int64_t>(own.results()[1].index), classes.size(), places, classes.begin);
    return;
  }
  each("head_margins", "head_margin", places, at.targets, at.labels, at.psi, at.slope, classes.size(), places,
       classes.begin, form.m1, form.m2, form.m3, static_cast<uint32_t>(form.grad), form.easy ? 1U : 0U);
}

// The nodes are arguments of launches, since lists of launches have no memory of their own.
void HeadList::store_nodes(const GpuArgument& nodes) {
  if (shape_.margin.own == nullptr) {
    return;
  }
  std::vector<uint64_t> words;
  for (const ScalarNode& node : shape_.margin.own->nodes()) {
    MarginNode made{.value = node.value, .args = {-1, -1, -1}, .op = static_cast<uint32_t>(node.op)};
    for (size_t i = 0; i < 3; ++i) {
      made.args[i] = node.args[i].valid() ? static_cast<int32_t>(node.args[i].index) : -1;
    }
    const auto bits = std::bit_cast<std::array<uint64_t, 3>>(made);
    words.insert(words.end(), bits.begin(), bits.end());
  }
  constexpr int64_t kWords = 12;
  const auto count = static_cast<int64_t>(words.size());
  words.resize(words.size() + kWords);
  for_pieces(count, kWords, [&](int64_t begin, int64_t some) {
    std::vector<GpuArgument> arguments{after(nodes, begin * 8), argument_of(some)};
    for (int64_t i = 0; i < kWords; ++i) {
      arguments.push_back(argument_of(words[static_cast<size_t>(begin + i)]));
    }
    list_.add_to("head_margins", "head_store_nodes", {1, 1, 1}, {1, 1, 1}, std::move(arguments));
  });
}

}  // namespace xrun::ops::gpu
