#include "ops/gpu/launch/gradient_launches.h"

#include <limits>

namespace xrun::ops::gpu {
namespace {

template <class... Arguments>
GpuLaunch one_launch(GpuTarget target, std::string_view module, std::string kernel, int64_t threads,
                     const Arguments&... arguments) {
  LaunchList list(target);
  list.each(module, std::move(kernel), threads, arguments...);
  return list.take()[0];
}

constexpr int64_t kDecisionThreads = 256;

const GpuArgument kFlagWord = of_call(GpuArgument::Kind::kFlags);

}  // namespace

GpuLaunch zeros_launch(GpuTarget target, int64_t n) {
  return one_launch(target, "finite", "fill_f32", n, out(0), n, 0.0F);
}

GpuLaunch fold_launch(GpuTarget target, int64_t entries, int64_t blocks) {
  LaunchList list(target);
  list.add("fold_table", "fold_terms_f32", {blocks, 1, 1}, {kUpdateThreads, 1, 1}, in(0), entries);
  return list.take()[0];
}

GpuLaunch finite_launch(GpuTarget target, DType dtype, int64_t n, const GpuArgument& own) {
  return one_launch(target, "finite", "flag_not_finite_" + std::string(name_of(dtype)), n, in(0), n, kFlagWord, own);
}

GpuLaunch squares_launch(GpuTarget target, int64_t n, int64_t part) {
  return one_launch(target, "square_sums", "square_sums_f32", pieces_of(n, part) * kThreadsOfRow, in(0), out(0), n,
                    part);
}

GpuLaunch decide_launch(GpuTarget target, const TrainSpec& train, int64_t parts) {
  const GpuArgument loss_scale{
      .kind = GpuArgument::Kind::kLossScale, .bytes = 4, .number = std::bit_cast<uint32_t>(1.0F)};
  const double limit = train.clip.kind == ClipSpec::kNorm ? train.clip.limit : std::numeric_limits<double>::infinity();
  const int32_t clips_heads = train.clip.heads ? 1 : 0;
  const int32_t is_dynamic = train.loss_scale.kind == LossScaleSpec::kDynamic ? 1 : 0;
  LaunchList list(target);
  list.add("update_decision", "decide_update", {1, 1, 1}, {kDecisionThreads, 1, 1}, in(0), in(1), parts, loss_scale,
           limit, clips_heads, is_dynamic, out(0), kFlagWord);
  return list.take()[0];
}

}  // namespace xrun::ops::gpu
