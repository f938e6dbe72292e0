// AmoebaNet-D as lists of kernels.
#pragma once

#include <utility>
#include <vector>

#include "tests/planner/published_layers.h"

namespace xrun::planner::testing {

// AmoebaNet-D at 224 x 224 (github.com/kakaobrain/torchgpipe, benchmarks/models/amoebanet): a stem, cells, and a
// classifier.
class AmoebaNet {
 public:
  AmoebaNet(int cells, int64_t filters) : width_(filters / 4), before_(width_), last_(width_) {
    KernelList& stem = layers_.emplace_back();
    stem.map(3, 224);
    stem.conv(3, width_, 3, 224, 112);
    stem.norm(width_, 112);
    stem.result = width_ * 112 * 112;
    cell(true);
    cell(true);
    for (int group = 0; group < 3; ++group) {
      for (int i = 0; i < cells / 3; ++i) {
        cell(false);
      }
      if (group < 2) {
        cell(true);
      }
    }
    KernelList& classifier = layers_.emplace_back();
    classifier.pool(last_, size_, 1);
    classifier.linear(last_, 1000);
  }

  const std::vector<KernelList>& layers() const { return layers_; }
  int64_t params() const {
    int64_t sum = 0;
    for (const KernelList& layer : layers_) {
      sum += layer.params;
    }
    return sum;
  }

 private:
  enum Op { kNone, kPool, kConv1, kConv3, kConv7 };

  static void relu_conv_norm(KernelList& to, int64_t in, int64_t out, int64_t size) {
    to.map(in, size);
    to.conv(in, out, 1, size, size);
    to.norm(out, size);
  }

  static void reduce(KernelList& to, int64_t in, int64_t out, int64_t size) {
    to.map(in, size);
    to.map(in, size);
    to.conv(in, out / 2, 1, size / 2, size / 2);
    to.conv(in, out / 2, 1, size / 2, size / 2);
    to.map(out / 2, size / 2);
    to.norm(out, size / 2);
  }

  static void add_op(KernelList& to, Op op, int64_t c, int64_t size, int64_t out) {
    const int64_t quarter = c / 4;
    if (op == kPool) {
      to.pool(c, size, out);
    } else if (op == kConv1) {
      to.map(c, size);
      to.conv(c, c, 1, size, out);
      to.norm(c, out);
    } else if (op == kConv3 || op == kConv7) {
      relu_conv_norm(to, c, quarter, size);
      to.map(quarter, size);
      to.conv(quarter, quarter, op == kConv3 ? 3 : 1, op == kConv3 ? 3 : 7, size, out);
      to.norm(quarter, out);
      if (op == kConv7) {
        to.map(quarter, out);
        to.conv(quarter, quarter, 7, 1, out, out);
        to.norm(quarter, out);
      }
      relu_conv_norm(to, quarter, c, out);
    }
  }

  void cell(bool reduces) {
    using Step = std::pair<size_t, Op>;  // the state that an operation reads
    static constexpr Step kNormal[] = {{1, kConv1}, {1, kPool}, {1, kNone}, {0, kConv7}, {0, kConv1},
                                       {0, kConv7}, {2, kPool}, {2, kNone}, {1, kPool},  {5, kConv1}};
    static constexpr Step kReduction[] = {{0, kPool}, {0, kPool}, {2, kNone}, {1, kConv3}, {2, kConv7},
                                          {2, kPool}, {3, kNone}, {1, kPool}, {2, kPool},  {3, kConv1}};
    KernelList made;
    width_ *= reduces ? 2 : 1;
    relu_conv_norm(made, last_, width_, size_);
    if (reduced_) {
      reduce(made, before_, width_, 2 * size_);
    } else if (before_ != width_) {
      relu_conv_norm(made, before_, width_, size_);
    }
    std::vector<int64_t> sizes{size_, size_};
    for (size_t i = 0; i < 10; i += 2) {
      int64_t out = 0;
      for (size_t k = i; k < i + 2; ++k) {
        const auto [state, op] = (reduces ? kReduction : kNormal)[k];
        out = sizes[state] / (reduces && state < 2 ? 2 : 1);
        if (op == kNone && out != sizes[state]) {
          reduce(made, width_, width_, sizes[state]);
        }
        add_op(made, op, width_, sizes[state], out);
      }
      made.map(width_, out, 2);
      sizes.push_back(out);
    }
    const int64_t joined = reduces ? 3 : 4;
    made.map(joined * width_, sizes.back());
    before_ = std::exchange(last_, joined * width_);
    size_ = sizes.back();
    made.result = last_ * size_ * size_;
    reduced_ = reduces;
    layers_.push_back(std::move(made));
  }

  std::vector<KernelList> layers_;
  int64_t width_;
  int64_t before_;  // channels of the last but one output
  int64_t last_;
  int64_t size_ = 112;
  bool reduced_ = false;
};

}  // namespace xrun::planner::testing
