// Products of two tensors that both have a batch: each sample is a batch of products of matrices. An operand whose
// memory is not such a batch is first copied to the working memory, and the result comes from there.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <numeric>

#include "ops/gpu/launch/copies.h"
#include "ops/gpu/launch/products.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;

constexpr int64_t kTile = 64;  // rows and columns of a thread block

// The letters of a tensor and their places in memory. Letters of size 1 have the step 0.
class Letters {
 public:
  Letters(std::string letters, const TensorType& type, int64_t rows)
      : letters_(std::move(letters)), dims_(block_dims(type, rows)), steps_(block_strides(type, rows)) {}

  int64_t size(char letter) const { return dims_[letters_.find(letter)]; }
  int64_t step(char letter) const { return steps_[letters_.find(letter)]; }
  int64_t count(const std::string& group) const {
    return std::accumulate(group.begin(), group.end(), int64_t{1}, [&](int64_t n, char c) { return n * size(c); });
  }
  // Whether the memory has the letters in this order, the last one innermost.
  bool is_in_order(const std::string& order) const {
    int64_t step = 1;
    for (size_t i = order.size(); i-- > 0; step *= size(order[i])) {
      if (size(order[i]) > 1 && this->step(order[i]) != step) {
        return false;
      }
    }
    return true;
  }
  // The loop that copies the memory to this order; `back`: from this order. Letters that the order lacks repeat its
  // elements.
  StridedLoop<2> copy(const std::string& order, bool back) const {
    std::vector<int64_t> sizes;
    for (const char letter : order) {
      sizes.push_back(size(letter));
    }
    const std::vector<int64_t> packed = row_major(sizes);
    std::vector<int64_t> steps;
    for (const char letter : letters_) {
      const size_t at = order.find(letter);
      steps.push_back(at == std::string::npos ? 0 : packed[at]);
    }
    return back ? StridedLoop<2>(dims_, {steps_, steps}) : StridedLoop<2>(dims_, {steps, steps_});
  }

 private:
  std::string letters_;
  std::vector<int64_t> dims_, steps_;
};

// An operand, or the result: in place, or in the working memory from `offset` on.
struct Place {
  std::string letters;
  TensorType type;
  int number = 0;     // the index of the input or output
  std::string order;  // the letters in the order of the product
  bool packed = false;
  Bytes offset = 0;

  Letters in(const GpuSpec& spec, int64_t blocks) const { return {letters, type, spec.rows(blocks)}; }
};

class BatchProduct {
 public:
  static Made make(const GpuSpec& spec, const ProductRule& rule) {
    BatchProduct made(spec);
    XRUN_TRY(made.place(rule));
    return gpu_kernel_of(
        spec, [made](LaunchList& list, int64_t blocks) { made.add(list, blocks); }, made.used_);
  }

 private:
  explicit BatchProduct(const GpuSpec& spec) : spec_(spec) {}

  Status place(const ProductRule& rule) {
    XRUN_ASSIGN(ending_, type_ending(spec_, spec_.node.inputs[0].dtype));
    if (spec_.node.inputs[1].dtype != spec_.node.inputs[0].dtype) {
      return no_gpu_kernel(spec_, "tensors of two types");
    }
    y_ = {.letters = rule.y, .type = spec_.node.outputs[0]};
    a_ = {.letters = rule.a, .type = spec_.node.inputs[0]};
    b_ = {.letters = rule.b, .type = spec_.node.inputs[1], .number = 1};
    const std::string batch = those(y_, true, true, true),
                      alone = those(a_, true, false, false) + those(b_, false, true, false);
    std::string rows = those(y_, true, false, true), columns = those(y_, false, true, true);
    if (!alone.empty()) {
      return no_gpu_kernel(spec_, "the product " + rule.text() + ", which sums letters of one operand");
    }
    if (!letters(y_).is_in_order(batch + rows + columns) && letters(y_).is_in_order(batch + columns + rows)) {
      std::swap(a_, b_);
      std::swap(rows, columns);
    }
    const std::string inner = those(a_, true, true, false);
    transposed_a_ = !letters(a_).is_in_order(batch + rows + inner) && letters(a_).is_in_order(batch + inner + rows);
    transposed_b_ =
        !letters(b_).is_in_order(batch + inner + columns) && letters(b_).is_in_order(batch + columns + inner);
    transposed_a_ = transposed_a_ && !transposed_b_;
    a_.order = batch + (transposed_a_ ? inner + rows : rows + inner);
    b_.order = batch + (transposed_b_ ? columns + inner : inner + columns);
    y_.order = batch + rows + columns;
    for (Place* const place : {&a_, &b_, &y_}) {
      const Letters at = letters(*place);
      place->packed = !at.is_in_order(place->order) || (place == &y_ && !those(y_, false, false, true).empty());
      if (place->packed) {
        place->offset = used_;
        used_ += spec_.for_blocks(place->in(spec_, 1).count(place->order) * size_of(place->type.dtype));
        if (!can_copy(at.copy(place->order, place == &y_))) {
          return no_gpu_kernel(spec_, "the product " + rule.text() + ", which has too many dimensions");
        }
      }
    }
    batch_ = letters(y_).count(batch.substr(1));
    m_ = letters(a_).count(rows);
    n_ = letters(b_).count(columns);
    k_ = letters(a_).count(inner);
    return m_ > kMostBlocks * kTile ? Status(no_gpu_kernel(spec_, "matrices with so many rows")) : Status();
  }

  // The letters of a tensor that are in these tensors, except those of size 1 after the batch.
  std::string those(const Place& of, bool in_a, bool in_b, bool in_y) const {
    std::string chosen;
    for (const char c : of.letters) {
      const bool is_chosen =
          has_letter(a_.letters, c) == in_a && has_letter(b_.letters, c) == in_b && has_letter(y_.letters, c) == in_y;
      if (is_chosen && (c == of.letters[0] || letters(of).size(c) > 1)) {
        chosen += c;
      }
    }
    return chosen;
  }
  // With at least two samples, since the order of a single one could be another.
  Letters letters(const Place& of) const {
    return {of.letters, of.type, std::max<int64_t>(2, spec_.rows(spec_.most_blocks))};
  }

  void add(LaunchList& list, int64_t blocks) const {
    const Bytes size = size_of(a_.type.dtype);
    const auto operand = [&](const Place& place) {
      if (place.packed) {
        add_copy(list, size, in(place.number), scratch(place.offset), place.in(spec_, blocks).copy(place.order, false));
      }
      return place.packed ? scratch(place.offset) : in(place.number);
    };
    const GpuArgument a = operand(a_), b = operand(b_), y = y_.packed ? scratch(y_.offset) : out(0);
    const std::string form = transposed_a_ ? "tn" : transposed_b_ ? "nt" : "nn";
    for_pieces(spec_.rows(blocks) * batch_, kMostBlocks, [&](int64_t begin, int64_t count) {
      list.add("batch_product", "products_" + form + ending_, {pieces_of(n_, kTile), pieces_of(m_, kTile), count},
               {a_.type.dtype == DType::kBF16 ? 128 : 256, 1, 1}, after(a, begin * m_ * k_ * size),
               after(b, begin * k_ * n_ * size), after(y, begin * m_ * n_ * size), m_, n_, k_);
    });
    if (y_.packed) {
      add_copy(list, size, y, out(0), y_.in(spec_, blocks).copy(y_.order, true));
    }
  }

  GpuSpec spec_;
  std::string ending_;
  Place a_, b_, y_;
  bool transposed_a_ = false, transposed_b_ = false;  // [inner, rows] and [columns, inner]
  int64_t batch_ = 0;                                 // products of a sample
  int64_t m_ = 0, n_ = 0, k_ = 0;
  Bytes used_ = 0;
};

}  // namespace

Made make_batch_product(const GpuSpec& spec, const ProductRule& rule) { return BatchProduct::make(spec, rule); }

}  // namespace xrun::ops::gpu
