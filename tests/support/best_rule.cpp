#include "tests/support/best_rule.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

namespace xrun::testing {
namespace {

constexpr size_t kBlock = 64;

// Finds the most probable labels of one block of samples, which is transposed to [dim, kBlock].
class Block {
 public:
  Block(const NormalClasses& classes, std::span<const float> samples)
      : classes_(classes), dim_(static_cast<size_t>(classes.dim)), columns_(dim_ * kBlock) {
    for (size_t s = 0; s < samples.size() / dim_; ++s) {
      for (size_t d = 0; d < dim_; ++d) {
        columns_[d * kBlock + s] = samples[s * dim_ + d];
      }
    }
    best_.fill(-std::numeric_limits<double>::infinity());
  }

  // Looks for better labels among the classes [first, end), which form one group. `constants` holds for each class the
  // part of its log density that does not depend on the sample.
  void judge(size_t first, size_t end, std::span<const double> constants) {
    scores_.resize((end - first) * kBlock);
    std::array<double, kBlock> top;
    top.fill(-std::numeric_limits<double>::infinity());
    const double scale = 1 / (classes_.deviation * classes_.deviation);
    for (size_t c = first; c < end; ++c) {
      std::array<float, kBlock> product{};
      const float* mean = classes_.means.data() + c * dim_;
      for (size_t d = 0; d < dim_; ++d) {
        for (size_t s = 0; s < kBlock; ++s) {
          product[s] += mean[d] * columns_[d * kBlock + s];
        }
      }
      double* score = scores_.data() + (c - first) * kBlock;
      for (size_t s = 0; s < kBlock; ++s) {
        score[s] = constants[c] + scale * static_cast<double>(product[s]);
        top[s] = std::max(top[s], score[s]);
      }
    }
    for (size_t s = 0; s < kBlock; ++s) {
      // The probability of a label is at most the sum of the probabilities of all classes of its group.
      if (top[s] + std::log(static_cast<double>(end - first)) > best_[s]) {
        choose(s, first, end, top[s]);
      }
    }
  }

  const std::array<int64_t, kBlock>& labels() const { return labels_; }

 private:
  // P(label l) = (1 - conflicts) P(class l) + conflicts / others · P(another class of the group).
  void choose(size_t s, size_t first, size_t end, double top) {
    const size_t others = end - first - 1;
    const double conflicts = others == 0 ? 0 : classes_.conflicts;
    double sum = 0;
    for (size_t c = 0; c <= others && conflicts > 0; ++c) {
      sum += std::exp(scores_[c * kBlock + s] - top);
    }
    for (size_t c = 0; c <= others; ++c) {
      const double own = std::exp(scores_[c * kBlock + s] - top);
      const double strange = conflicts > 0 ? conflicts / static_cast<double>(others) * (sum - own) : 0;
      const double value = top + std::log((1 - conflicts) * own + strange);
      if (value > best_[s]) {
        best_[s] = value;
        labels_[s] = static_cast<int64_t>(first + c);
      }
    }
  }

  const NormalClasses& classes_;
  size_t dim_;
  std::vector<float> columns_;
  std::vector<double> scores_;
  std::array<double, kBlock> best_;
  std::array<int64_t, kBlock> labels_{};
};

}  // namespace

std::vector<int64_t> most_probable_labels(const NormalClasses& classes, std::span<const float> samples) {
  const auto dim = static_cast<size_t>(classes.dim);
  const size_t count = classes.shares.size();
  // Computes -|x - mean|² / (2 deviation²) without |x|², which is the same for all classes.
  std::vector<double> constants(count);
  for (size_t c = 0; c < count; ++c) {
    double squares = 0;
    for (size_t d = 0; d < dim; ++d) {
      squares += static_cast<double>(classes.means[c * dim + d]) * classes.means[c * dim + d];
    }
    constants[c] = std::log(classes.shares[c]) - squares / (2 * classes.deviation * classes.deviation);
  }
  const size_t n = samples.size() / dim;
  std::vector<int64_t> labels(n);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t first = next.fetch_add(kBlock); first < n; first = next.fetch_add(kBlock)) {
      const size_t rows = std::min(kBlock, n - first);
      Block block(classes, samples.subspan(first * dim, rows * dim));
      const auto group = static_cast<size_t>(classes.group);
      for (size_t c = 0; c < count; c += group) {
        block.judge(c, std::min(c + group, count), constants);
      }
      std::copy_n(block.labels().begin(), rows, labels.begin() + static_cast<ptrdiff_t>(first));
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned t = 1; t < std::max(1U, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back(work);
  }
  work();
  threads.clear();
  return labels;
}

}  // namespace xrun::testing
