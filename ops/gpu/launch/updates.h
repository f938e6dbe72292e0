// Launches of optimizers' updates.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/settings/specs.h"
#include "graph/settings/update_rule.h"
#include "ops/gpu/launch/compiled_loop.h"
#include "ops/gpu/update_table.h"
#include "ops/optimizer/optimizer.h"

namespace xrun::ops::gpu {

// Numbers the thread blocks of a table: sets `first_block` of its entries in order and returns the number of all thread
// blocks.
int64_t number_blocks(std::span<UpdateEntry> entries);

class GpuUpdate {
 public:
  // The update of `optimizer = name(arguments)`; with `ema` it also moves the running mean of each weight. `compile` as
  // in KernelSpec. Errors: XG0824, and those of optimizer_form.
  static Result<GpuUpdate> make(const CallSpec& optimizer, double ema, GpuTarget target, bool compile);

  const OptimizerForm& form() const { return form_; }

  // Whether one launch updates all tensors of a device, from a table. All other rules have a launch for each tensor.
  bool has_table() const { return form_.kind != OptimizerKind::kOwn; }
  // The launch for a table of entries, whose address is input 0. REQUIRES: has_table(), and number_blocks has returned
  // `blocks` > 0.
  GpuLaunch of_table(int64_t entries, int64_t blocks) const;

  // The launch for one tensor of `elements` elements. Inputs: UpdateScalars in memory, the gradient, and with `ema` its
  // step 1 - ema, one f32. Outputs: the weight, its states, and with `ema` the mean. REQUIRES: !has_table().
  GpuLaunch of_tensor(int64_t elements) const;

  // Number of levels of norms that the rule reads, and the launch that computes the sums of squares of one level before
  // the update, in f64, for every kNormPiece elements. Inputs and outputs are those of of_tensor; the sums of each norm
  // of the level follow one another in the working memory, norm_bytes(elements) each.
  int norm_levels() const { return static_cast<int>(norms_.size()); }
  GpuLaunch of_norms(int level, int64_t elements) const;
  static Bytes norm_bytes(int64_t elements) { return align_up(pieces_of(elements, kNormPiece) * 8, 256); }

  static constexpr int64_t kNormPiece = 4096;

 private:
  GpuUpdate(GpuTarget target, OptimizerForm form) : target_(target), form_(std::move(form)) {}
  std::vector<GpuArgument> operands() const;

  GpuTarget target_;
  OptimizerForm form_;
  UpdateRule rule_;
  std::optional<CompiledLoop> update_;  // for rules without a table
  std::vector<CompiledLoop> norms_;     // index: level
  std::vector<size_t> norms_of_level_;
};

}  // namespace xrun::ops::gpu
