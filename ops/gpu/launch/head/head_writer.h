// HeadWriter: writes the launches of one pass over a shard of a classifier head. Helper of GpuHeadPasses.
#pragma once

#include <functional>
#include <string>

#include "ops/gpu/launch/head/head_list.h"
#include "ops/gpu/launch/head/head_passes.h"

namespace xrun::ops::gpu {

// The results of a sweep over the gradients of logits.
struct GpuHeadSweep {
  HeadPass pass = HeadPass::kUpdate;
  bool factors = false;
  bool dx = false;
  const GpuHeadRule* update = nullptr;
  bool squares = false;
  bool gradients = false;

  bool weights() const { return update != nullptr || squares || gradients; }
};

// The address of an operand, plus `bytes`.
inline GpuArgument operand(GpuHeadOperand which, int64_t bytes = 0) { return in(static_cast<int>(which), bytes); }

// All functions after prepare_rows add launches for a piece.
class HeadWriter {
 public:
  HeadWriter(const HeadShape& shape, const GpuHeadLayout& layout, GpuTarget target, HeadPass pass)
      : shape_(shape),
        layout_(layout),
        all_(layout.all),
        pass_(pass),
        at_(gpu_head_scratch(shape, layout, pass)),
        list_(shape, layout.all, target) {}

  // Adds the launch that makes the operands of all rows. `labels`: whether rows have labels.
  void prepare_rows(bool labels);

  // Calls compute(piece, address of its slots) for all pieces, and merge(sum, left, right, step, pairs) so that `out`
  // gets the sum of each subtree. Slots have `slot` numbers.
  template <class Compute, class Merge>
  void fold_pieces(GpuHeadOperand out, int64_t slot, const Compute& compute, const Merge& merge) {
    for (size_t s = 0; s < layout_.folds.size(); ++s) {
      const auto place = [&](int64_t depth) {
        return depth == 0 ? in(static_cast<int>(out), static_cast<int64_t>(s) * slot * 4)
                          : scratch(at_.waiting + (depth - 1) * slot * 4);
      };
      HeadList::fold(
          layout_.folds[s],
          [&](const HeadFold& step, int64_t depth) {
            const int64_t blocks =
                pieces_of(layout_.pieces[static_cast<size_t>(step.piece)].size(), shape_.blocks.size);
            const GpuArgument slots = blocks > 1 ? scratch(at_.slots) : place(depth);
            compute(step.piece, slots);
            for (int64_t width = 1; width < blocks; width *= 2) {
              const GpuArgument sum = 2 * width < blocks ? slots : place(depth);
              merge(sum, slots, after(slots, width * slot * 4), 2 * width * slot, pieces_of(blocks - width, 2 * width));
            }
            return place(depth);
          },
          place, [&](const auto& sum, const auto& left, const auto& right) { merge(sum, left, right, 0, 1); });
    }
  }

  // Adds the statistics of the class blocks of a piece.
  void forward_piece(int piece, const GpuArgument& slots);

  // Adds the gradients of a piece, and what follows from them. `slots`: for the dX of its class blocks, if there is
  // one.
  void sweep_piece(const GpuHeadSweep& what, int piece, const GpuArgument& slots);

  HeadList& list() { return list_; }
  void merge_dx(const GpuArgument& sum, const GpuArgument& left, const GpuArgument& right, int64_t step,
                int64_t pairs) {
    list_.merge_dx(sum, left, right, all_.rows_padded * all_.dim_padded, step, pairs);
  }

 private:
  using enum GpuHeadOperand;

  Bytes element() const { return shape_.bf16 ? 2 : 4; }
  bool steep() const { return shape_.form.cosine && shape_.margin.angular(); }
  // Parts of the scratch with a number for each place, from the first place of a chunk on.
  GpuArgument plane(Bytes part, const GpuHeadRows& rows, Bytes each = 4) const {
    return scratch(part + rows.first_place * each);
  }
  GpuArgument operand_row(const GpuHeadRows& rows) const {
    return scratch(at_.rows + rows.first_place * all_.dim_padded * element());
  }
  GpuArgument inverses(int64_t first_place = 0) const {
    return address_if(shape_.form.cosine, scratch(at_.inverses + first_place * 8));
  }
  GpuArgument features_of(const GpuHeadRows& rows) const {
    return operand(kFeatures, rows.first_row * shape_.dim * (shape_.features == DType::kBF16 ? 2 : 4));
  }
  // Index of a class in the arrays of the shard, and addresses there.
  int64_t index_of(ClassRange classes) const { return classes.begin - shape_.shard.begin; }
  GpuArgument weight(ClassRange classes) const {
    return operand(kWeight, index_of(classes) * shape_.dim * element_bytes(shape_.weights));
  }
  GpuArgument class_inverses(ClassRange classes) const {
    return address_if(shape_.form.cosine, operand(kInverses, index_of(classes) * 4));
  }
  GpuArgument bias(ClassRange classes) const {
    return address_if(shape_.form.bias, operand(kBias, index_of(classes) * 4));
  }

  // Adds the classes of a piece as operands of products, and returns their range.
  ClassRange open(int piece);

  // Adds the logits of a chunk, if `compute`, and the margin at its targets. Returns the address of the logits.
  GpuArgument logits(int piece, const GpuHeadRows& rows, bool compute);

  void add_gradient(const GpuHeadSweep& what, ClassRange classes, const GpuHeadRows& rows, const GpuArgument& z,
                    const GpuArgument& lanes);

  // `out`: the first place of the chunk in the slot of the first class block of the piece.
  void add_dx(ClassRange classes, const GpuHeadRows& rows, const GpuArgument& out);

  // Completes the gradients of a piece, then adds up their squares, stores or applies them.
  void finish(const GpuHeadSweep& what, ClassRange classes);

  void finish_bias(const GpuHeadSweep& what, ClassRange classes);

  GpuArgument squares_if(bool exists) const { return address_if(exists, scratch(at_.squares)); }
  void add_squares(bool exists, GpuHeadOperand out, ClassRange classes);

  // `states(i, exists)`: the address of state i of the classes, or null.
  void add_update(std::string kernel, const GpuHeadRule& by, const GpuArgument& scalars, const GpuArgument& rows,
                  const GpuArgument& gradient, const std::function<GpuArgument(int, bool)>& states,
                  const GpuArgument& norms, ClassRange classes, int64_t dim, int64_t stride);

  const HeadShape& shape_;
  const GpuHeadLayout& layout_;
  const HeadLayout& all_;
  HeadPass pass_;
  GpuHeadScratch at_;
  HeadList list_;
};

}  // namespace xrun::ops::gpu
