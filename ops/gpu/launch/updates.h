// Launches of optimizers' updates. Before them, `decide_launch` (ops/gpu/launch/gradient_launches.h) makes the decision
// that they read: the factor on gradients, and whether updates are held back.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/settings/specs.h"
#include "graph/settings/update_rule.h"
#include "ops/gpu/launch/compiled_loop.h"
#include "ops/gpu/launch/norm_program.h"
#include "ops/gpu/update/update_decision.h"
#include "ops/gpu/update/update_table.h"
#include "ops/optimizer/optimizer.h"

namespace xrun::ops::gpu {

class GpuUpdate {
 public:
  // The update of `optimizer = name(arguments)`; with `ema` it also moves the running mean of each weight. `compile` as
  // in KernelSpec. `row`: numbers in a row of a tensor of which rows with a gradient of zero are not updated, else 0.
  // Errors: XG0824, and those of optimizer_form.
  static Result<GpuUpdate> make(const CallSpec& optimizer, double ema, GpuTarget target, bool compile, int64_t row = 0);

  const OptimizerForm& form() const { return form_; }

  // Whether one launch updates all tensors of a device, from a table. All other rules have a launch for each tensor.
  bool has_table() const { return form_.kind != OptimizerKind::kOwn; }
  // The launch for a table of entries. Inputs: the table of UpdateEntry, and the GpuDecision. REQUIRES: has_table(),
  // and number_blocks has returned `blocks` > 0.
  GpuLaunch of_table(int64_t entries, int64_t blocks) const;

  // The launch for one tensor of `elements` elements. Inputs: UpdateScalars in memory, the gradient, the GpuDecision,
  // with `ema` its step 1 - ema (one f32), and with `row` the output of touched_launch; an input that the update does
  // not have keeps its place. Outputs: the weight, its states, and with `ema` the mean. REQUIRES: !has_table().
  GpuLaunch of_tensor(int64_t elements) const;

  // Number of levels of norms that the rule reads, and the launch that computes the sums of squares of one level before
  // the update, in f64, for every kNormPiece elements. Inputs and outputs are those of of_tensor; the sums of each norm
  // of the level follow one another in the working memory, norm_bytes(elements) each. `program` then adds them and sets
  // the numbers in UpdateScalars that depend on norms.
  int norm_levels() const { return static_cast<int>(norms_.size()); }
  GpuLaunch of_norms(int level, int64_t elements) const;
  const NormProgram& program() const { return program_; }
  static Bytes norm_bytes(int64_t elements) { return align_up(pieces_of(elements, kNormPiece) * 8, 256); }
  // Sums of all norms of the level with most of them.
  Bytes norm_scratch(int64_t elements) const;

  // Elements of a sum of squares: those that the processor sums in one place (docs/internals/determinism.md,
  // "Scalars").
  static constexpr int64_t kNormPiece = 65'536;

 private:
  GpuUpdate(GpuTarget target, OptimizerForm form, int64_t row) : target_(target), form_(std::move(form)), row_(row) {}
  std::vector<GpuArgument> operands() const;

  GpuTarget target_;
  OptimizerForm form_;
  int64_t row_;
  UpdateRule rule_;
  std::optional<CompiledLoop> update_;  // for rules without a table
  std::vector<CompiledLoop> norms_;     // index: level
  std::vector<size_t> norms_of_level_;
  NormProgram program_;
};

// Sets output 0, f32[rows], to 1 for each row of input 0, f32[rows, row], that has a number other than 0, else to 0.
GpuLaunch touched_launch(GpuTarget target, int64_t rows, int64_t row);

}  // namespace xrun::ops::gpu
