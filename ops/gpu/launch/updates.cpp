#include "ops/gpu/launch/updates.h"

#include <cstddef>

#include "ops/optimizer/update_norms.h"

namespace xrun::ops::gpu {
namespace {

static_assert(sizeof(UpdateScalars) == sizeof(KnownScalars) + kMostUpdateScalars * sizeof(float));

// Inputs of the launch for one tensor.
constexpr int kScalars = 0, kGradient = 1, kDecision = 2, kTake = 3, kTouched = 4;

// The address of a number of UpdateScalars.
GpuArgument own_number(int index) { return in(kScalars, static_cast<int64_t>(sizeof(KnownScalars)) + index * 4); }

const OpDef kUpdate{.name = "update"};

}  // namespace

Result<GpuUpdate> GpuUpdate::make(const CallSpec& optimizer, double ema, GpuTarget target, bool compile, int64_t row) {
  XRUN_ASSIGN(OptimizerForm form, optimizer_form(optimizer, {}, ema));
  GpuUpdate made(target, std::move(form), row);
  if (made.has_table()) {
    return made;
  }
  XRUN_ASSIGN(made.rule_, read_update_rule(optimizer.args));
  made.program_ = NormProgram(made.rule_);
  GpuSpec spec{.op = &kUpdate, .target = target};
  spec.node.compile = compile;
  XRUN_ASSIGN(made.update_, CompiledLoop::make(spec, update_kernel(made.rule_, ema > 0, row)));
  for (int level = 0; level < norm_levels_of(made.form_); ++level) {
    GpuLoop loop = norm_kernel(made.rule_, level, kNormPiece);
    made.norms_of_level_.push_back(loop.outputs.size());
    XRUN_ASSIGN(CompiledLoop compiled, CompiledLoop::make(spec, std::move(loop)));
    made.norms_.push_back(std::move(compiled));
  }
  return made;
}

GpuLaunch GpuUpdate::of_table(int64_t entries, int64_t blocks) const {
  const char* const rule = form_.kind == OptimizerKind::kAdamw ? "adamw"
                           : form_.states == 0                 ? "sgd"
                           : form_.nesterov                    ? "nesterov"
                                                               : "momentum";
  LaunchList list(target_);
  list.add("update_table", "update_all_" + std::string(rule), {blocks, 1, 1}, {kUpdateThreads, 1, 1}, in(0), entries,
           in(1));
  return list.take()[0];
}

// Weight, gradient, states, the numbers of the step and of norms, and those of clipping.
std::vector<GpuArgument> GpuUpdate::operands() const {
  std::vector<GpuArgument> operands{out(0), in(kGradient)};
  for (int i = 0; i < rule_.states; ++i) {
    operands.push_back(out(1 + i));
  }
  for (int i = 0; i < rule_.inputs() - 2 - rule_.states; ++i) {
    operands.push_back(own_number(i));
  }
  operands.push_back(in(kDecision, offsetof(GpuDecision, stage_scale)));
  operands.push_back(in(kScalars, offsetof(KnownScalars, grad_limit)));
  return operands;
}

GpuLaunch GpuUpdate::of_tensor(int64_t elements) const {
  std::vector<GpuArgument> all = operands();
  all.push_back(in(kDecision, offsetof(GpuDecision, held)));
  if (row_ > 0) {
    all.push_back(in(kTouched));
  }
  const bool keeps_mean = form_.ema > 0;
  if (keeps_mean) {
    all.insert(all.end(), {out(1 + rule_.states), in(kTake)});
  }
  for (int i = 0; i < 1 + rule_.states + (keeps_mean ? 1 : 0); ++i) {
    all.push_back(out(i));
  }
  LaunchList list(target_);
  update_->add(list, elements, std::move(all));
  return list.take()[0];
}

GpuLaunch GpuUpdate::of_norms(int level, int64_t elements) const {
  std::vector<GpuArgument> all = operands();
  for (size_t i = 0; i < norms_of_level_[static_cast<size_t>(level)]; ++i) {
    all.push_back(scratch(static_cast<int64_t>(i) * norm_bytes(elements)));
  }
  LaunchList list(target_);
  norms_[static_cast<size_t>(level)].add(list, elements, std::move(all));
  return list.take()[0];
}

Bytes GpuUpdate::norm_scratch(int64_t elements) const {
  const size_t most = norms_of_level_.empty() ? 0 : std::ranges::max(norms_of_level_);
  return static_cast<Bytes>(most) * norm_bytes(elements);
}

GpuLaunch touched_launch(GpuTarget target, int64_t rows, int64_t row) {
  LaunchList list(target);
  list.each("update_table", "touched_rows_f32", rows * kThreadsOfRow, in(0), out(0), rows, row);
  return list.take()[0];
}

}  // namespace xrun::ops::gpu
