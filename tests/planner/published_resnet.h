// ResNets as lists of kernels.
#pragma once

#include <array>
#include <vector>

#include "tests/planner/published_layers.h"

namespace xrun::planner::testing {

// ResNet with bottlenecks at 224 x 224, in the 11 layers a bottleneck of torchgpipe's benchmark
// (github.com/kakaobrain/torchgpipe, benchmarks/models/resnet/bottleneck.py).
inline std::vector<KernelList> resnet_layers(const std::array<int, 4>& depths, int64_t outputs) {
  std::vector<KernelList> layers;
  const auto add = [&]() -> KernelList& { return layers.emplace_back(); };
  add().conv(3, 64, 7, 224, 112);
  add().norm(64, 112);
  add().map(64, 112);
  add().pool(64, 112, 56);
  int64_t in = 64;
  int64_t size = 56;
  for (size_t group = 0; group < depths.size(); ++group) {
    const int64_t width = int64_t{64} << group;
    for (int i = 0; i < depths[group]; ++i) {
      const int64_t out = i == 0 && group > 0 ? size / 2 : size;
      add();  // the identity, which is kept for the sum
      add().conv(in, width, 1, size, size);
      add().norm(width, size);
      add().map(width, size);
      add().conv(width, width, 3, size, out);
      add().norm(width, out);
      add().map(width, out);
      add().conv(width, 4 * width, 1, out, out);
      add().norm(4 * width, out);
      KernelList& sum = add();
      if (i == 0) {
        sum.conv(in, 4 * width, 1, size, out);
        sum.norm(4 * width, out);
      }
      sum.map(4 * width, out, 2);
      add().map(4 * width, out);
      in = 4 * width;
      size = out;
    }
  }
  add().pool(in, 7, 1);
  add();
  add().linear(in, outputs);
  return layers;
}

}  // namespace xrun::planner::testing
