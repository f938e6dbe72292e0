#include "ops/gpu/launch/gradient_launches.h"

namespace xrun::ops::gpu {
namespace {

template <class... Arguments>
GpuLaunch one_launch(GpuTarget target, std::string_view module, std::string kernel, int64_t threads,
                     const Arguments&... arguments) {
  LaunchList list(target);
  list.each(module, std::move(kernel), threads, arguments...);
  return list.take()[0];
}

const GpuArgument kFlagWord = of_call(GpuArgument::Kind::kFlags);

}  // namespace

GpuLaunch zeros_launch(GpuTarget target, int64_t n) {
  return one_launch(target, "finite", "fill_f32", n, out(0), n, 0.0F);
}

GpuLaunch add_launch(GpuTarget target, int64_t n) {
  return one_launch(target, "arithmetic", "add_f32", n, out(0), in(0), out(0), n);
}

GpuLaunch finite_launch(GpuTarget target, DType dtype, int64_t n) {
  return one_launch(target, "finite", "flag_not_finite_" + std::string(name_of(dtype)), n, in(0), n, kFlagWord);
}

GpuLaunch squares_launch(GpuTarget target, int64_t n, int64_t part) {
  return one_launch(target, "square_sums", "square_sums_f32", pieces_of(n, part) * kThreadsOfRow, in(0), out(0), n,
                    part);
}

GpuLaunch clip_launch(GpuTarget target, int64_t count, double loss_scale, double limit) {
  return one_launch(target, "square_sums", "clip_by_norm", 1, in(0), count, loss_scale, limit, out(0), kFlagWord);
}

}  // namespace xrun::ops::gpu
