#include "ops/gpu/launch/updates.h"

#include <cstddef>

#include "ops/optimizer/update_norms.h"

namespace xrun::ops::gpu {
namespace {

static_assert(sizeof(UpdateScalars) == sizeof(KnownScalars) + kMostUpdateScalars * sizeof(float));

// The address of a number of UpdateScalars, which are input 0.
GpuArgument own_number(int index) { return in(0, static_cast<int64_t>(sizeof(KnownScalars)) + index * 4); }

const OpDef kUpdate{.name = "update"};

}  // namespace

int64_t number_blocks(std::span<UpdateEntry> entries) {
  int64_t blocks = 0;
  for (UpdateEntry& entry : entries) {
    entry.first_block = blocks;
    blocks += pieces_of(entry.elements, kUpdateElements);
  }
  return blocks;
}

Result<GpuUpdate> GpuUpdate::make(const CallSpec& optimizer, double ema, GpuTarget target, bool compile) {
  XRUN_ASSIGN(OptimizerForm form, optimizer_form(optimizer, {}, ema));
  GpuUpdate made(target, std::move(form));
  if (made.has_table()) {
    return made;
  }
  XRUN_ASSIGN(made.rule_, read_update_rule(optimizer.args));
  GpuSpec spec{.op = &kUpdate, .target = target};
  spec.node.compile = compile;
  XRUN_ASSIGN(made.update_, CompiledLoop::make(spec, update_kernel(made.rule_, ema > 0)));
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
  list.add("update_table", "update_all_" + std::string(rule), {blocks, 1, 1}, {kUpdateThreads, 1, 1}, in(0), entries);
  return list.take()[0];
}

// Weight, gradient, states, the numbers of the step and of norms, and those of clipping.
std::vector<GpuArgument> GpuUpdate::operands() const {
  std::vector<GpuArgument> operands{out(0), in(1)};
  for (int i = 0; i < rule_.states; ++i) {
    operands.push_back(out(1 + i));
  }
  for (int i = 0; i < rule_.inputs() - 2 - rule_.states; ++i) {
    operands.push_back(own_number(i));
  }
  operands.push_back(in(0, offsetof(KnownScalars, grad_scale)));
  operands.push_back(in(0, offsetof(KnownScalars, grad_limit)));
  return operands;
}

GpuLaunch GpuUpdate::of_tensor(int64_t elements) const {
  std::vector<GpuArgument> all = operands();
  const bool keeps_mean = form_.ema > 0;
  if (keeps_mean) {
    all.insert(all.end(), {out(1 + rule_.states), in(2)});
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

}  // namespace xrun::ops::gpu
